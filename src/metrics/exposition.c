#include "metrics/exposition.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/histogram.h"
#include "base/text.h"
#include "metrics/exposition_protobuf.h"

/* --- Accept --- */

/* One of the types of an Accept header: "text/plain;version=0.0.4;q=0.5". */
struct accepted {
    const char *text;
    size_t size;
    size_t type_size;               /* of "text/plain" */
};

/* The value of a parameter; false: it has none of this name. */
static bool find_parameter(const struct accepted *accepted, const char *name, const char **value, size_t *size)
{
    const char *at = accepted->text + accepted->type_size, *end = accepted->text + accepted->size;

    while (at < end) {
        const char *stop;

        at += strspn(at, "; \t");
        if (at >= end)
            break;
        stop = at + strcspn(at, ";,");
        if ((size_t)(stop - at) > strlen(name) && strncasecmp(at, name, strlen(name)) == 0 && at[strlen(name)] == '=') {
            *value = at + strlen(name) + 1;
            *size = (size_t)(stop - *value);
            return true;
        }
        at = stop;
    }
    return false;
}

/* Thousandths. What is not a number counts as 0. */
static int quality_of(const struct accepted *accepted)
{
    const char *value;
    size_t size;
    int quality, digit = 1000;

    if (!find_parameter(accepted, "q", &value, &size))
        return 1000;
    if (size == 0 || (value[0] != '0' && value[0] != '1'))
        return 0;
    quality = (value[0] - '0') * 1000;
    for (size_t i = 2; i < size && value[1] == '.' && value[i] >= '0' && value[i] <= '9'; i++) {
        digit /= 10;
        quality += (value[i] - '0') * digit;
    }
    return quality < 1000 ? quality : 1000;
}

static bool is_type(const struct accepted *accepted, const char *type)
{
    return accepted->type_size == strlen(type) && strncasecmp(accepted->text, type, accepted->type_size) == 0;
}

/* Without the parameter: `missing`. */
static bool has_parameter(const struct accepted *accepted, const char *name, const char *wanted, bool missing)
{
    const char *value;
    size_t size;

    if (!find_parameter(accepted, name, &value, &size))
        return missing;
    return size == strlen(wanted) && memcmp(value, wanted, size) == 0;
}

static bool is_protobuf(const struct accepted *accepted)
{
    return is_type(accepted, "application/vnd.google.protobuf") && has_parameter(accepted, "proto", "io.prometheus.client.MetricFamily", false) &&
        has_parameter(accepted, "encoding", "delimited", false);
}

/* False: it is no type that there is. A browser accepts anything, but shows text/plain and offers to save other types. */
static bool format_of(const struct accepted *accepted, enum exposition_format *format)
{
    if (is_protobuf(accepted))
        *format = EXPOSITION_PROTOBUF;
    else if (is_type(accepted, "application/openmetrics-text"))
        *format = EXPOSITION_OPENMETRICS;
    else if ((is_type(accepted, "text/plain") && has_parameter(accepted, "version", "0.0.4", true)) || is_type(accepted, "text/html") || is_type(accepted, "text/*"))
        *format = EXPOSITION_TEXT;
    else if (is_type(accepted, "*/*") || is_type(accepted, "application/*"))
        *format = EXPOSITION_OPENMETRICS;
    else
        return false;
    return true;
}

enum exposition_format exposition_choose(const char *accept)
{
    enum exposition_format best = EXPOSITION_OPENMETRICS, format;
    int best_quality = 0;

    for (const char *at = accept; *at != '\0'; at += *at == ',') {
        struct accepted accepted;

        at += strspn(at, " \t");
        accepted.text = at;
        accepted.size = strcspn(at, ",");
        accepted.type_size = strcspn(at, ";, \t");
        at += accepted.size;
        if (format_of(&accepted, &format) && quality_of(&accepted) > best_quality) {
            best = format;
            best_quality = quality_of(&accepted);
        }
    }
    return best;
}

const char *exposition_type(enum exposition_format format)
{
    static const char *const types[] = {
        [EXPOSITION_OPENMETRICS] = "application/openmetrics-text; version=1.0.0; charset=utf-8",
        [EXPOSITION_TEXT] = "text/plain; version=0.0.4; charset=utf-8",
        [EXPOSITION_PROTOBUF] = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited",
    };

    return types[format];
}

/* --- Text --- */

static void append_escaped(struct buffer *out, struct bytes text, bool quotes)
{
    struct buffer valid = { 0 };

    metric_append_utf8(&valid, text);
    for (size_t i = 0; i < valid.size; i++) {
        if (valid.data[i] == '\n')
            buffer_append_string(out, "\\n");
        else if (valid.data[i] == '\\')
            buffer_append_string(out, "\\\\");
        else if (valid.data[i] == '"' && quotes)
            buffer_append_string(out, "\\\"");
        else
            buffer_append_u8(out, (uint8_t)valid.data[i]);
    }
    buffer_release(&valid);
}

static void append_number(struct buffer *out, double number)
{
    char digits[TEXT_DOUBLE_SIZE];
    size_t size = text_of_double(number, digits);

    if (isnan(number))
        buffer_append_string(out, "NaN");
    else if (isinf(number))
        buffer_append_string(out, number > 0 ? "+Inf" : "-Inf");
    else
        buffer_append(out, digits, size);
}

void exposition_begin(struct exposition *exposition, const struct metric *family)
{
    bool is_open = exposition->format == EXPOSITION_OPENMETRICS;
    struct buffer *out = exposition->out;
    const char *suffix = is_open ? "" : metric_suffix(family->kind);
    static const char *const kinds[] = {
        [METRIC_COUNTER] = "counter", [METRIC_GAUGE] = "gauge", [METRIC_INFO] = "info", [METRIC_HISTOGRAM] = "histogram",
    };

    exposition->family = *family;
    if (exposition->format == EXPOSITION_PROTOBUF) {
        exposition_protobuf_flush(exposition);
        exposition_protobuf_begin(exposition);
        return;
    }
    buffer_append_format(out, "# HELP %s%s ", family->name, suffix);
    append_escaped(out, bytes_of_string(family->help), is_open);
    buffer_append_format(out, "\n# TYPE %s%s %s\n", family->name, suffix, family->kind == METRIC_INFO && !is_open ? "gauge" : kinds[family->kind]);
    if (is_open && family->unit != NULL)
        buffer_append_format(out, "# UNIT %s %s\n", family->name, family->unit);
}

/* "name_suffix{label="value"} "; le NULL: none. */
static void append_name(const struct exposition *exposition, const char *suffix, const struct label *labels, int label_count, const double *le)
{
    struct buffer *out = exposition->out;
    const char *before = "{";

    buffer_append_string(out, exposition->family.name);
    buffer_append_string(out, suffix);
    for (int i = 0; i < label_count; i++, before = ",") {
        buffer_append_format(out, "%s%s=\"", before, labels[i].name);
        append_escaped(out, labels[i].value, true);
        buffer_append_u8(out, '"');
    }
    if (le != NULL) {
        buffer_append_format(out, "%sle=\"", before);
        append_number(out, *le);
        if (*le == floor(*le) && !isinf(*le))
            buffer_append_string(out, ".0");        /* OpenMetrics requires it; the same in both formats, as it makes the series */
        buffer_append_u8(out, '"');
    }
    buffer_append_string(out, label_count > 0 || le != NULL ? "} " : " ");
}

void exposition_integer(struct exposition *exposition, const struct label *labels, int label_count, uint64_t number)
{
    if (exposition->format == EXPOSITION_PROTOBUF) {
        exposition_protobuf_number(exposition, labels, label_count, (double)number);
        return;
    }
    append_name(exposition, metric_suffix(exposition->family.kind), labels, label_count, NULL);
    buffer_append_format(exposition->out, "%" PRIu64 "\n", number);
}

void exposition_number(struct exposition *exposition, const struct label *labels, int label_count, double number)
{
    if (exposition->format == EXPOSITION_PROTOBUF) {
        exposition_protobuf_number(exposition, labels, label_count, number);
        return;
    }
    append_name(exposition, metric_suffix(exposition->family.kind), labels, label_count, NULL);
    append_number(exposition->out, number);
    buffer_append_u8(exposition->out, '\n');
}

/* --- Histograms --- */

/* Calls `write` for each limit and at last for +Inf. Returns the count of all. */
typedef void write_bucket(void *context, double limit, uint64_t seen);
static uint64_t each_bucket(const struct exposition_histogram *histogram, write_bucket *write, void *context)
{
    uint64_t seen = 0;
    size_t bucket = 0;

    for (unsigned bits = histogram->first; bits <= histogram->last; bits++) {
        size_t end = histogram_bucket(UINT64_C(1) << bits, histogram->step_bits);

        for (; bucket < end && bucket < histogram->bucket_count; bucket++)
            seen += histogram->counts[bucket];
        write(context, (double)(UINT64_C(1) << bits) / histogram->per_unit, seen);
    }
    for (; bucket < histogram->bucket_count; bucket++)
        seen += histogram->counts[bucket];
    write(context, INFINITY, seen);
    return seen;
}

struct text_buckets {
    const struct exposition *exposition;
    const struct label *labels;
    int label_count;
};

static void write_text(void *context, double limit, uint64_t seen)
{
    const struct text_buckets *text = context;

    append_name(text->exposition, "_bucket", text->labels, text->label_count, &limit);
    buffer_append_format(text->exposition->out, "%" PRIu64 "\n", seen);
}

static void write_protobuf(void *context, double limit, uint64_t seen)
{
    exposition_protobuf_bucket(context, limit, seen);
}

void exposition_histogram(struct exposition *exposition, const struct label *labels, int label_count, const struct exposition_histogram *histogram)
{
    struct text_buckets text = { exposition, labels, label_count };
    struct buffer buckets = { 0 };
    uint64_t count;

    if (exposition->format == EXPOSITION_PROTOBUF) {
        count = each_bucket(histogram, write_protobuf, &buckets);
        exposition_protobuf_histogram(exposition, labels, label_count, histogram, &buckets, count);
        buffer_release(&buckets);
        return;
    }
    count = each_bucket(histogram, write_text, &text);
    append_name(exposition, "_count", labels, label_count, NULL);
    buffer_append_format(exposition->out, "%" PRIu64 "\n", count);
    append_name(exposition, "_sum", labels, label_count, NULL);
    append_number(exposition->out, histogram->sum);
    buffer_append_u8(exposition->out, '\n');
}

void exposition_end(struct exposition *exposition)
{
    if (exposition->format == EXPOSITION_PROTOBUF)
        exposition_protobuf_flush(exposition);
    else if (exposition->format == EXPOSITION_OPENMETRICS)
        buffer_append_string(exposition->out, "# EOF\n");
    buffer_release(&exposition->message);
}
