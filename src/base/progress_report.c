#include "base/progress_report.h"

#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"

enum { DRAW_US = 200000, LINE_US = 10000000, COLUMNS = 79, COLUMNS_MIN = 20 };

enum progress_output progress_report_output(void)
{
    return isatty(STDERR_FILENO) ? PROGRESS_ON_TERMINAL : PROGRESS_AS_LINES;
}

void progress_report_begin(struct progress_report *report, const char *what, enum progress_unit unit, uint64_t total)
{
    int64_t now_us = clock_mono_us();

    progress_report_hide(report);
    snprintf(report->what, sizeof(report->what), "%s", what);
    progress_begin(&report->progress, unit, total, now_us);
    report->shown_us = now_us;
}

/* One less than the terminal has: a character in its last column would begin a new line on some. */
static int find_columns(void)
{
    struct winsize size;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > COLUMNS_MIN)
        return size.ws_col - 1;
    return COLUMNS;
}

static void show(struct progress_report *report)
{
    struct buffer text = { 0 };

    if (report->output == PROGRESS_ON_TERMINAL) {
        progress_text(&report->progress, report->what, find_columns(), &text);
        fprintf(stderr, "\r\033[K%.*s", (int)text.size, text.data);
        report->is_drawn = true;
    } else {
        buffer_append_string(&text, report->what);
        progress_facts(&report->progress, &text);
        buffer_append_u8(&text, '\0');
        if (report->say != NULL)
            report->say(report->context, text.data);
        else
            fprintf(stderr, "%s\n", text.data);
    }
    fflush(stderr);
    buffer_release(&text);
}

void progress_report_note(struct progress_report *report, uint64_t done)
{
    int64_t now_us;

    if (report->output == PROGRESS_SILENT)
        return;
    now_us = clock_mono_us();
    if (now_us - report->shown_us < (report->output == PROGRESS_ON_TERMINAL ? DRAW_US : LINE_US))
        return;
    report->shown_us = now_us;
    progress_note(&report->progress, done, now_us);
    show(report);
}

void progress_report_hide(struct progress_report *report)
{
    if (!report->is_drawn)
        return;
    report->is_drawn = false;
    fputs("\r\033[K", stderr);
    fflush(stderr);
}
