#include "metrics/exposition.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/histogram.h"
#include "base/text.h"

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

static bool has_version(const struct accepted *accepted, const char *version)
{
    const char *value;
    size_t size;

    return !find_parameter(accepted, "version", &value, &size) || (size == strlen(version) && memcmp(value, version, size) == 0);
}

/* False: it is no type that there is. A browser accepts anything, but shows text/plain and offers to save other types. */
static bool format_of(const struct accepted *accepted, enum exposition_format *format)
{
    if (is_type(accepted, "application/openmetrics-text"))
        *format = EXPOSITION_OPENMETRICS;
    else if ((is_type(accepted, "text/plain") && has_version(accepted, "0.0.4")) || is_type(accepted, "text/html") || is_type(accepted, "text/*"))
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
    return format == EXPOSITION_OPENMETRICS ? "application/openmetrics-text; version=1.0.0; charset=utf-8" : "text/plain; version=0.0.4; charset=utf-8";
}

/* --- Text --- */

static const char *const suffixes[] = { [METRIC_COUNTER] = "_total", [METRIC_GAUGE] = "", [METRIC_INFO] = "_info", [METRIC_HISTOGRAM] = "" };

/* The size of the UTF-8 character there; 0: it is none. Surrogates, and what could be shorter, are none. */
static size_t character_size(const unsigned char *at, size_t left)
{
    static const unsigned char second_min[] = { [0xe0 - 0xe0] = 0xa0, [0xf0 - 0xe0] = 0x90 }, second_max[] = { [0xed - 0xe0] = 0x9f, [0xf4 - 0xe0] = 0x8f };
    size_t size = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf5 ? 4 : 0;
    size_t lead = at[0] >= 0xe0 ? at[0] - 0xe0u : sizeof(second_min);

    if (size == 0 || size > left)
        return 0;
    for (size_t i = 1; i < size; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    }
    if (lead < sizeof(second_min) && second_min[lead] != 0 && at[1] < second_min[lead])
        return 0;
    if (lead < sizeof(second_max) && second_max[lead] != 0 && at[1] > second_max[lead])
        return 0;
    return size;
}

static void append_escaped(struct buffer *out, struct bytes text, bool quotes)
{
    const unsigned char *at = (const unsigned char *)text.data;

    for (size_t left = text.size; left > 0;) {
        size_t size = character_size(at, left);

        if (size == 0)
            buffer_append_string(out, "\xef\xbf\xbd");
        else if (*at == '\n')
            buffer_append_string(out, "\\n");
        else if (*at == '\\')
            buffer_append_string(out, "\\\\");
        else if (*at == '"' && quotes)
            buffer_append_string(out, "\\\"");
        else
            buffer_append(out, at, size);
        at += size > 0 ? size : 1;
        left -= size > 0 ? size : 1;
    }
}

static void append_number(struct buffer *out, double number)
{
    char digits[TEXT_DOUBLE_SIZE];

    if (isnan(number))
        buffer_append_string(out, "NaN");
    else if (isinf(number))
        buffer_append_string(out, number > 0 ? "+Inf" : "-Inf");
    else
        buffer_append(out, digits, text_of_double(number, digits));
}

void exposition_begin(struct exposition *exposition, const struct metric *family)
{
    bool is_open = exposition->format == EXPOSITION_OPENMETRICS;
    struct buffer *out = exposition->out;
    const char *suffix = is_open ? "" : suffixes[family->kind];
    static const char *const kinds[] = {
        [METRIC_COUNTER] = "counter", [METRIC_GAUGE] = "gauge", [METRIC_INFO] = "info", [METRIC_HISTOGRAM] = "histogram",
    };

    exposition->family = *family;
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
    append_name(exposition, suffixes[exposition->family.kind], labels, label_count, NULL);
    buffer_append_format(exposition->out, "%" PRIu64 "\n", number);
}

void exposition_number(struct exposition *exposition, const struct label *labels, int label_count, double number)
{
    append_name(exposition, suffixes[exposition->family.kind], labels, label_count, NULL);
    append_number(exposition->out, number);
    buffer_append_u8(exposition->out, '\n');
}

void exposition_histogram(struct exposition *exposition, const struct label *labels, int label_count, const struct exposition_histogram *histogram)
{
    uint64_t seen = 0;
    size_t bucket = 0;
    double limit;

    for (unsigned bits = histogram->first; bits <= histogram->last; bits++) {
        size_t end = histogram_bucket(UINT64_C(1) << bits, histogram->step_bits);

        for (; bucket < end && bucket < histogram->bucket_count; bucket++)
            seen += histogram->counts[bucket];
        limit = (double)(UINT64_C(1) << bits) / histogram->per_unit;
        append_name(exposition, "_bucket", labels, label_count, &limit);
        buffer_append_format(exposition->out, "%" PRIu64 "\n", seen);
    }
    for (; bucket < histogram->bucket_count; bucket++)
        seen += histogram->counts[bucket];
    limit = INFINITY;
    append_name(exposition, "_bucket", labels, label_count, &limit);
    buffer_append_format(exposition->out, "%" PRIu64 "\n", seen);
    append_name(exposition, "_count", labels, label_count, NULL);
    buffer_append_format(exposition->out, "%" PRIu64 "\n", seen);
    append_name(exposition, "_sum", labels, label_count, NULL);
    append_number(exposition->out, histogram->sum);
    buffer_append_u8(exposition->out, '\n');
}

void exposition_end(struct exposition *exposition)
{
    if (exposition->format == EXPOSITION_OPENMETRICS)
        buffer_append_string(exposition->out, "# EOF\n");
}
