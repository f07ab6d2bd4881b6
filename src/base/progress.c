#include "base/progress.h"

#include <math.h>

static const double WINDOW_S = 10;

void progress_begin(struct progress *progress, enum progress_unit unit, uint64_t total, int64_t now_us)
{
    *progress = (struct progress){ .unit = unit, .total = total, .begun_us = now_us, .noted_us = now_us, .rate = -1 };
}

/* An exponential mean, whose window is the time since the beginning at first: so the first rates are not those of a single step. */
void progress_note(struct progress *progress, uint64_t done, int64_t now_us)
{
    double step_s = (double)(now_us - progress->noted_us) / 1e6, all_s = (double)(now_us - progress->begun_us) / 1e6, rate, weight;

    if (step_s <= 0 || done < progress->done)
        return;
    rate = (double)(done - progress->done) / step_s;
    weight = step_s / fmin(all_s, WINDOW_S);
    progress->rate = progress->rate < 0 || weight >= 1 ? rate : progress->rate + weight * (rate - progress->rate);
    progress->done = done;
    progress->noted_us = now_us;
}

void progress_follow(struct progress *progress, enum progress_unit unit, uint64_t done, uint64_t total, int64_t now_us)
{
    if (progress->begun_us == 0 || done < progress->done || unit != progress->unit) {
        progress_begin(progress, unit, total, now_us);
        progress->done = done;
    }
    progress->total = total;
    progress_note(progress, done, now_us);
}

double progress_fraction(const struct progress *progress)
{
    if (progress->total == 0)
        return 0;
    return progress->done >= progress->total ? 1 : (double)progress->done / (double)progress->total;
}

double progress_left_s(const struct progress *progress)
{
    if (progress->total == 0 || progress->rate <= 0)
        return -1;
    return progress->done >= progress->total ? 0 : (double)(progress->total - progress->done) / progress->rate;
}

void progress_bar(double fraction, int width, struct buffer *out)
{
    int room = width - 2, filled;

    if (!(fraction > 0))
        fraction = 0;
    filled = fraction >= 1 ? room : (int)(fraction * room);
    if (room < 1)
        return;
    buffer_append_u8(out, '[');
    for (int i = 0; i < room; i++)
        buffer_append_u8(out, i < filled ? '#' : '.');
    buffer_append_u8(out, ']');
}

void progress_time(double seconds, struct buffer *out)
{
    enum { DAYS_MAX = 999999 };
    int64_t whole;

    if (!(seconds > 0))
        seconds = 0;
    whole = seconds < 86400.0 * DAYS_MAX ? (int64_t)ceil(seconds) : (int64_t)86400 * DAYS_MAX;
    if (whole >= 86400)
        buffer_append_format(out, "%lld d %02d:%02d", (long long)(whole / 86400), (int)(whole / 3600 % 24), (int)(whole / 60 % 60));
    else if (whole >= 3600)
        buffer_append_format(out, "%d:%02d:%02d", (int)(whole / 3600), (int)(whole / 60 % 60), (int)(whole % 60));
    else
        buffer_append_format(out, "%d:%02d", (int)(whole / 60), (int)(whole % 60));
}

void progress_amount(double number, enum progress_unit unit, struct buffer *out)
{
    static const char letters[2][7] = { [PROGRESS_COUNT] = " kMGTPE", [PROGRESS_BYTES] = " KMGTPE" };
    double step = unit == PROGRESS_BYTES ? 1024 : 1000;
    int power = 0;

    while (fabs(number) >= step * 0.9995 && power < 6) {
        number /= step;
        power++;
    }
    if (power == 0)
        buffer_append_format(out, fabs(number) < 9.995 && number != floor(number) ? "%.2f" : "%.0f", number);
    else
        buffer_append_format(out, "%.*f%c", fabs(number) < 9.995 ? 2 : fabs(number) < 99.95 ? 1 : 0, number, letters[unit][power]);
}

/* The facts come after the bar, in the order of importance. */
void progress_facts(const struct progress *progress, struct buffer *out)
{
    double left = progress_left_s(progress);

    if (progress->total > 0) {
        buffer_append_format(out, " %3.0f %%", floor(100 * progress_fraction(progress)));
    } else {
        buffer_append_u8(out, ' ');
        progress_amount((double)progress->done, progress->unit, out);
    }
    if (left >= 0) {
        buffer_append_string(out, "  ");
        progress_time(left, out);
        buffer_append_string(out, " left");
    }
    if (progress->rate >= 0) {
        buffer_append_string(out, "  ");
        progress_amount(progress->rate, progress->unit, out);
        buffer_append_string(out, "/s");
    }
}

void progress_rest(const struct progress *progress, struct buffer *out)
{
    double left = progress_left_s(progress);

    if (left < 0)
        return;
    buffer_append_string(out, ", ");
    progress_time(left, out);
    buffer_append_string(out, " left at ");
    progress_amount(progress->rate, progress->unit, out);
    buffer_append_string(out, "/s");
}

void progress_text(const struct progress *progress, const char *what, int columns, struct buffer *out)
{
    enum { BAR_MIN = 8, BAR_MAX = 40 };
    struct buffer facts = { 0 };
    size_t begin = out->size;
    int room;

    progress_facts(progress, &facts);
    room = columns - (int)strlen(what) - (int)facts.size - 1;
    buffer_append_string(out, what);
    if (progress->total > 0 && room >= BAR_MIN) {
        buffer_append_u8(out, ' ');
        progress_bar(progress_fraction(progress), room < BAR_MAX ? room : BAR_MAX, out);
    }
    buffer_append_bytes(out, buffer_bytes(&facts));
    buffer_release(&facts);
    if (columns >= 0 && out->size - begin > (size_t)columns)
        out->size = begin + (size_t)columns;
}
