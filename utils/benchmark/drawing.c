#include "drawing.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/histogram.h"
#include "base/mem.h"
#include "options.h"
#include "report.h"
#include "run.h"

enum {
    WIDTH = 960, HEAD = 46, PANEL = 316, PLOT_TOP = 104, PLOT_HEIGHT = 160, PLOT_WIDTH = 236, PLOT_STEP = 316, PLOT_LEFT = 60,
    POINTS_MAX = 240, DECADES = 4,
};

/* A plot's frame: what is at its edges. */
struct axes {
    double left, top;               /* in the picture */
    double x_most, y_least, y_most;
};

static double x_of(const struct axes *axes, double x)
{
    return axes->left + (axes->x_most > 0 ? x / axes->x_most : 0) * PLOT_WIDTH;
}

static double y_of(const struct axes *axes, double y)
{
    double part = axes->y_most > axes->y_least ? (y - axes->y_least) / (axes->y_most - axes->y_least) : 0;

    return axes->top + PLOT_HEIGHT * (1 - fmin(1, fmax(0, part)));
}

/* Text of the user's and the server's: escaped, and only characters that XML may have. */
static void append_text(struct buffer *out, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;

        if (byte == '&' || byte == '<' || byte == '>' || byte == '"')
            buffer_append_format(out, "&#%d;", byte);
        else
            buffer_append_u8(out, byte >= ' ' && byte < 127 ? byte : '?');
    }
}

static void __attribute__((format(printf, 5, 6))) add_label(struct buffer *out, double x, double y, const char *class, const char *format, ...)
{
    char text[256];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    buffer_append_format(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, class);
    append_text(out, text);
    buffer_append_string(out, "</text>\n");
}

static void add_line(struct buffer *out, double x1, double y1, double x2, double y2)
{
    buffer_append_format(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"g\"/>\n", x1, y1, x2, y2);
}

static void add_frame(struct buffer *out, const struct axes *axes, const char *title)
{
    add_label(out, axes->left, axes->top - 12, "h", "%s", title);
    add_line(out, axes->left, axes->top + PLOT_HEIGHT, axes->left + PLOT_WIDTH, axes->top + PLOT_HEIGHT);
    add_line(out, axes->left, axes->top, axes->left, axes->top + PLOT_HEIGHT);
}

/* 1, 2 or 5 times a power of ten, so that there are two to five steps up to `most`. */
static double find_step(double most)
{
    double power = pow(10, floor(log10(most / 2)));

    return most / (5 * power) >= 2 ? 5 * power : most / (2 * power) >= 2 ? 2 * power : power;
}

static void add_y_ticks(struct buffer *out, const struct axes *axes, const char *unit)
{
    double step = find_step(axes->y_most - axes->y_least);

    for (double y = ceil(axes->y_least / step) * step; y <= axes->y_most * 1.0001; y += step) {
        struct buffer number = { 0 };

        progress_amount(y, PROGRESS_COUNT, &number);
        add_line(out, axes->left, y_of(axes, y), axes->left + PLOT_WIDTH, y_of(axes, y));
        add_label(out, axes->left - 6, y_of(axes, y) + 4, "e", "%.*s%s", (int)number.size, number.data, unit);
        buffer_release(&number);
    }
}

static void add_seconds(struct buffer *out, const struct axes *axes)
{
    double step = find_step(axes->x_most);

    for (double x = 0; x <= axes->x_most * 1.0001; x += step)
        add_label(out, x_of(axes, x), axes->top + PLOT_HEIGHT + 16, "m", "%.6g s", x);
}

/* --- latency --- */

static double ms(double ns)
{
    return ns / 1e6;
}

/* The logarithm of the latency at a share of 1 - 10^-x of the requests. */
static double latency_at(const struct histogram *latency, double x)
{
    uint64_t ns = histogram_percentile(latency, 100 * (1 - pow(10, -x)));

    return log10(ns > 0 ? (double)ns : 1);
}

static void add_latency_curve(struct buffer *out, const struct axes *axes, const char *class, const struct histogram *latency)
{
    enum { STEPS = 80 };

    buffer_append_format(out, "<polyline class=\"%s\" points=\"", class);
    for (int i = 0; i <= STEPS; i++) {
        double x = (double)DECADES * i / STEPS;

        buffer_append_format(out, "%.1f,%.1f ", x_of(axes, x), y_of(axes, latency_at(latency, x)));
    }
    buffer_append_string(out, "\"/>\n");
}

static void add_latency(struct buffer *out, double top, const struct run *run, const struct tally *total)
{
    static const char *const marks[] = { "0", "90", "99", "99.9", "99.99 %" };
    struct axes axes = { .left = PLOT_LEFT, .top = top, .x_most = DECADES };
    const struct tally *reads = &run->result.tallies[REQUEST_READ], *writes = &run->result.tallies[REQUEST_WRITE];

    axes.y_least = floor(log10(fmax(1, (double)histogram_min(total->latency))));
    axes.y_most = fmax(axes.y_least + 1, ceil(log10(fmax(1, (double)histogram_max(total->latency)))));
    add_frame(out, &axes, reads->replies > 0 && writes->replies > 0 ? "latency: all, reads - -, writes ..." : "latency by percentile");
    for (double y = axes.y_least; y <= axes.y_most; y++) {
        add_line(out, axes.left, y_of(&axes, y), axes.left + PLOT_WIDTH, y_of(&axes, y));
        add_label(out, axes.left - 6, y_of(&axes, y) + 4, "e", "%g ms", ms(pow(10, y)));
    }
    for (int i = 0; i <= DECADES; i++)
        add_label(out, x_of(&axes, i), axes.top + PLOT_HEIGHT + 16, "m", "%s", marks[i]);
    if (reads->replies > 0 && writes->replies > 0) {
        add_latency_curve(out, &axes, "c d", reads->latency);
        add_latency_curve(out, &axes, "c t", writes->latency);
    }
    add_latency_curve(out, &axes, "c", total->latency);
}

/* --- over time --- */

/* Numbers as a description, for readers that are programs; "-" is a gap. */
static void add_description(struct buffer *out, const char *what, const double *values, size_t count, int digits)
{
    buffer_append_format(out, "<desc>%s:", what);
    for (size_t i = 0; i < count; i++) {
        if (values[i] < 0)
            buffer_append_string(out, " -");
        else
            buffer_append_format(out, " %.*f", digits, values[i]);
    }
    buffer_append_string(out, "</desc>\n");
}

/* Values below 0 are gaps. */
static void add_time_curve(struct buffer *out, const struct axes *axes, const double *at, const double *values, size_t count)
{
    bool is_open = false;

    for (size_t i = 0; i < count; i++) {
        if (values[i] >= 0) {
            buffer_append_string(out, is_open ? "" : "<polyline class=\"c\" points=\"");
            buffer_append_format(out, "%.1f,%.1f ", x_of(axes, at[i]), y_of(axes, values[i]));
        } else if (is_open) {
            buffer_append_string(out, "\"/>\n");
        }
        is_open = values[i] >= 0;
    }
    if (is_open)
        buffer_append_string(out, "\"/>\n");
}

/* The series with as many of its periods together as it takes for at most POINTS_MAX points; `replies` are sums. The last one is shorter. */
static size_t gather_periods(const struct run *run, double *period_s, double *replies)
{
    const struct result *result = &run->result;
    size_t together = (result->series_count + POINTS_MAX - 1) / POINTS_MAX, count = 0;

    if (together == 0)
        return 0;
    for (size_t i = 0; i < result->series_count; i++) {
        if (i % together == 0)
            replies[count++] = 0;
        replies[count - 1] += (double)result->series[i].replies;
    }
    *period_s *= (double)together;
    return count;
}

static void add_throughput(struct buffer *out, double top, const struct options *options, const struct run *run)
{
    struct axes axes = { .left = PLOT_LEFT + PLOT_STEP, .top = top, .x_most = run->seconds };
    double period_s = (double)options_period_ms(options) / 1000, at[POINTS_MAX + 1], replies[POINTS_MAX + 1], rates[POINTS_MAX + 1], most = 1;
    size_t count = gather_periods(run, &period_s, replies);
    char what[80];

    for (size_t i = 0; i < count; i++) {
        double end = fmin(run->seconds, period_s * (double)(i + 1)), length = end - period_s * (double)i;

        at[i] = end - length / 2;
        /* What is left at the end may be too short for a rate. */
        rates[i] = length > period_s / 4 ? replies[i] / length : -1;
        most = fmax(most, rates[i]);
    }
    axes.y_most = most;
    add_frame(out, &axes, "requests per second");
    add_y_ticks(out, &axes, "");
    add_seconds(out, &axes);
    snprintf(what, sizeof(what), "replies in each %g s", period_s);
    add_description(out, what, replies, count, 0);
    add_time_curve(out, &axes, at, rates, count);
}

/* The share between two samples, in percent; below 0: nothing was looked up. */
static double hit_percent(const struct info_sample *before, const struct info_sample *after)
{
    double hits = (double)(after->hits - before->hits), misses = (double)(after->misses - before->misses);

    return after->hits < before->hits || after->misses < before->misses || hits + misses == 0 ? -1 : 100 * hits / (hits + misses);
}

static bool has_any(const double *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (values[i] >= 0)
            return true;
    }
    return false;
}

static void add_hits(struct buffer *out, double top, const struct run *run)
{
    struct axes axes = { .left = PLOT_LEFT + 2 * PLOT_STEP, .top = top, .x_most = run->seconds, .y_least = 0, .y_most = 100 };
    double *at, *percents;
    size_t count = 0;

    if (run->sample_count < 2) {
        add_label(out, axes.left, axes.top - 12, "h", "no hit ratio: the server does not reply to INFO");
        return;
    }
    at = mem_alloc(run->sample_count * sizeof(*at));
    percents = mem_alloc(run->sample_count * sizeof(*percents));
    for (size_t i = 1; i < run->sample_count; i++) {
        at[count] = fmin(run->seconds, run->samples[i].seconds);
        percents[count++] = hit_percent(&run->samples[i - 1], &run->samples[i]);
    }
    add_frame(out, &axes, run->info_before.has_tier ? "hits that were hot, in percent" : "look-ups that were hits, in percent");
    add_y_ticks(out, &axes, " %");
    add_seconds(out, &axes);
    add_description(out, "hit ratio at each sample", percents, count, 2);
    add_time_curve(out, &axes, at, percents, count);
    if (!has_any(percents, count))
        add_label(out, axes.left + PLOT_WIDTH / 2.0, axes.top + PLOT_HEIGHT / 2.0, "m", "no key was looked up");
    mem_free(at);
    mem_free(percents);
}

/* --- */

static void add_numbers(struct buffer *out, double y, const struct run *run, const struct tally *total)
{
    struct buffer line = { 0 };

    buffer_append_format(&line, "%llu requests in %.3f s, %.0f requests/s", (unsigned long long)total->replies, run->seconds,
        run->seconds > 0 ? (double)total->replies / run->seconds : 0);
    if (total->errors > 0)
        buffer_append_format(&line, ", %llu ERRORS", (unsigned long long)total->errors);
    if (run->end != RUN_COMPLETE)
        buffer_append_string(&line, ", incomplete");
    add_label(out, 16, y, "b", "%.*s", (int)line.size, line.data);
    line.size = 0;
    buffer_append_format(&line, "latency ms: mean %.3f", ms(histogram_mean(total->latency)));
    for (int i = 0; i < REPORT_PERCENTILES; i++)
        buffer_append_format(&line, "  %s %.3f", report_percentiles[i].name,
            ms((double)histogram_percentile(total->latency, report_percentiles[i].percent)));
    buffer_append_format(&line, "  max %.3f", ms((double)histogram_max(total->latency)));
    add_label(out, 16, y + 18, "b", "%.*s", (int)line.size, line.data);
    buffer_release(&line);
}

void drawing_add(struct drawing *drawing, const struct options *options, const char *name, const struct run *run)
{
    struct buffer *out = &drawing->body;
    double top = HEAD + (double)PANEL * drawing->panels++;
    struct tally total;

    result_total(&run->result, &total);
    buffer_append_string(out, "<g>\n");
    add_line(out, 16, top, WIDTH - 16, top);
    add_label(out, 16, top + 22, "h", "%.100s", name);
    add_numbers(out, top + 42, run, &total);
    if (total.replies > 0) {
        add_latency(out, top + PLOT_TOP, run, &total);
        add_throughput(out, top + PLOT_TOP, options, run);
        add_hits(out, top + PLOT_TOP, run);
    }
    buffer_append_string(out, "</g>\n");
    tally_release(&total);
}

static const char style[] =
    "<style>\n"
    "svg { background: #ffffff; font: 12px sans-serif }\n"
    "text { fill: #1f2937 } .h { font-weight: bold; font-size: 13px } .e { text-anchor: end; font-size: 11px } .m { text-anchor: middle; font-size: 11px }\n"
    ".g { stroke: #d1d5db; stroke-width: 1 } .c { fill: none; stroke: #1d4ed8; stroke-width: 1.5 } .d { stroke-dasharray: 6 4 } .t { stroke-dasharray: 2 3 }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "  svg { background: #111827 } text { fill: #e5e7eb } .g { stroke: #374151 } .c { stroke: #93c5fd }\n"
    "}\n"
    "</style>\n";

enum status drawing_write(const struct drawing *drawing, const char *title, const char *path)
{
    int height = HEAD + PANEL * drawing->panels;
    struct buffer out = { 0 };
    FILE *file = fopen(path, "we");
    bool good;

    if (file == NULL)
        return status_of_errno(errno);
    buffer_append_format(&out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n%s", WIDTH, height, WIDTH,
        height, style);
    add_label(&out, 16, 28, "h", "%s", title);
    buffer_append_bytes(&out, buffer_bytes(&drawing->body));
    buffer_append_string(&out, "</svg>\n");
    good = fwrite(out.data, 1, out.size, file) == out.size;
    buffer_release(&out);
    return fclose(file) == 0 && good ? STATUS_OK : status_of_errno(errno);
}

void drawing_release(struct drawing *drawing)
{
    buffer_release(&drawing->body);
}
