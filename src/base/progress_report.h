/* Progress report: says on stderr how far long work is: a bar that is drawn again and again on a terminal, else a line every ten seconds.
 * Owner: the thread that does the work.
 */
#ifndef KELVIN_BASE_PROGRESS_REPORT_H
#define KELVIN_BASE_PROGRESS_REPORT_H

#include <stdbool.h>

#include "base/progress.h"

enum progress_output { PROGRESS_SILENT, PROGRESS_AS_LINES, PROGRESS_ON_TERMINAL };

struct progress_report {
    enum progress_output output;
    void (*say)(void *context, const char *line);       /* where lines go; NULL: to stderr */
    void *context;
    char what[64];                  /* "loading" */
    struct progress progress;
    int64_t shown_us;
    bool is_drawn;                  /* there is a bar on the terminal's last line */
};

/* Whether stderr is a terminal. */
enum progress_output progress_report_output(void);

/* Begins one piece of work, of `total` units (0: not known). `output`, `say` and `context` are set; the rest is zero, or from the work before. */
void progress_report_begin(struct progress_report *report, const char *what, enum progress_unit unit, uint64_t total);
/* As often as it is convenient: shows something if it is time. */
void progress_report_note(struct progress_report *report, uint64_t done);
/* Removes the bar: at the end, and before other lines are printed. */
void progress_report_hide(struct progress_report *report);

#endif
