#include "commands/latency_graph.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { COLUMNS = 80, ROWS = 4, STEPS_A_ROW = 3, LABEL_SIZE = 24 };

struct range {
    int64_t low, high;
};

static struct range range_of(const struct latency_event *event)
{
    struct range range = { event->samples[0].ms, event->samples[0].ms };

    for (size_t i = 1; i < event->count; i++) {
        if (event->samples[i].ms < range.low)
            range.low = event->samples[i].ms;
        if (event->samples[i].ms > range.high)
            range.high = event->samples[i].ms;
    }
    return range;
}

/* Rows count from the bottom. The highest point of a column is one of three characters, what is below it a bar. */
static char column_char(const struct range *range, int64_t ms, int row)
{
    int64_t width = range->high > range->low ? range->high - range->low : 1;
    int64_t step = (ms - range->low) * (ROWS * STEPS_A_ROW) / width;

    if (step >= ROWS * STEPS_A_ROW)
        step = ROWS * STEPS_A_ROW - 1;
    if (step / STEPS_A_ROW == row)
        return "_o#"[step % STEPS_A_ROW];
    return step / STEPS_A_ROW > row ? '|' : ' ';
}

static size_t label_of(char label[LABEL_SIZE], int64_t age_s)
{
    int64_t number = age_s < 60 ? age_s : age_s < 3600 ? age_s / 60 : age_s < 24 * 3600 ? age_s / 3600 : age_s / (24 * 3600);
    char unit = age_s < 60 ? 's' : age_s < 3600 ? 'm' : age_s < 24 * 3600 ? 'h' : 'd';

    return (size_t)snprintf(label, LABEL_SIZE, "%" PRId64 "%c", number, unit);
}

/* The ages of the samples are below their columns, read from above. Returns whether a label has another character. */
static bool draw_label_row(struct buffer *out, const struct latency_event *event, size_t first, size_t count, int64_t now_s, size_t row)
{
    bool has_more = false;

    for (size_t i = first; i < first + count; i++) {
        char label[LABEL_SIZE];
        size_t size = label_of(label, now_s - event->samples[i].time_s);

        buffer_append(out, row < size ? &label[row] : " ", 1);
        has_more |= row + 1 < size;
    }
    buffer_append(out, "\n", 1);
    return has_more;
}

static void draw_band(struct buffer *out, const struct latency_event *event, const struct range *range, size_t first, size_t count, int64_t now_s)
{
    for (int row = ROWS - 1; row >= 0; row--) {
        for (size_t i = first; i < first + count; i++) {
            char point = column_char(range, event->samples[i].ms, row);

            buffer_append(out, &point, 1);
        }
        buffer_append(out, "\n", 1);
    }
    for (size_t i = 0; i < count; i++)
        buffer_append(out, " ", 1);
    buffer_append(out, "\n", 1);
    for (size_t row = 0; draw_label_row(out, event, first, count, now_s, row); row++)
        continue;
}

void latency_graph_draw(struct buffer *out, const struct latency_event *event, int64_t now_s)
{
    struct range range = range_of(event);

    buffer_append_format(out, "%s - high %" PRId64 " ms, low %" PRId64 " ms (all time high %" PRId64 " ms)\n", event->name, range.high, range.low,
        event->worst_ms);
    for (int i = 0; i < COLUMNS; i++)
        buffer_append(out, "-", 1);
    buffer_append(out, "\n", 1);
    for (size_t first = 0; first < event->count; first += COLUMNS) {
        if (first > 0)
            buffer_append(out, "\n", 1);
        draw_band(out, event, &range, first, event->count - first < COLUMNS ? event->count - first : COLUMNS, now_s);
    }
}
