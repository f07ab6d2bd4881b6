/* View: what two readings of a server say, as lines of text for a terminal of any size. Pure.
 *
 * A line is printable ASCII, at most `columns` long. A number is never cut: a piece that does not fit is left out.
 */
#ifndef KELVIN_TOP_VIEW_H
#define KELVIN_TOP_VIEW_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/progress.h"
#include "reading.h"

/* Long work of the server's that has an end: kept from one view to the next, all zero at first. */
enum work_kind { WORK_NONE, WORK_LOADING, WORK_SYNC, WORK_SAVE, WORK_WARMUP };
struct work {
    enum work_kind kind;
    struct progress progress;
};

struct view {
    const char *server;             /* "127.0.0.1:6379" */
    const struct reading *before, *now;     /* NULL: none */
    const struct advice *advice;    /* by TIER ADVISE, as far as it is known; NULL: the server was not asked */
    const struct work *work;
    const char *failure;            /* "": connected. Else why there is no connection */
    double failed_s;                /* since when, if there was one */
};

/* Notes how far the work is that the reading shows; other work than before begins at 0. */
void work_note(struct work *work, const struct reading *now);

/* Appends lines that end with '\n': at most `rows` of them, if that is above 0. In a small window the least important ones are left out. */
void view_write(const struct view *view, int columns, int rows, struct buffer *out);

/* Appends a row: its label, a bar unless `fraction` is below 0, and its pieces, those that fit. For view_write and its tests. */
enum { ROW_PIECES_MAX = 12, ROW_PIECE_SIZE = 96 };
struct row {
    const char *label;
    double fraction;
    int count;
    char pieces[ROW_PIECES_MAX][ROW_PIECE_SIZE];
};
void row_write(const struct row *row, int columns, struct buffer *out);

#endif
