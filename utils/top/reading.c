#include "reading.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../benchmark/replies.h"
#include "base/mem.h"

/* --- INFO --- */

static void add_line(struct reading *reading, char *line, size_t size)
{
    char *colon = memchr(line, ':', size);

    if (colon == NULL || colon == line || line[0] == '#' || reading->count == READING_FIELDS_MAX)
        return;
    reading->fields = mem_realloc(reading->fields, (reading->count + 1) * sizeof(*reading->fields));
    reading->fields[reading->count++] = (struct field){ bytes_of(line, (size_t)(colon - line)),
        bytes_of(colon + 1, size - (size_t)(colon + 1 - line)) };
}

struct reading *reading_create(struct bytes reply, int64_t taken_us, double took_s, struct message *message)
{
    struct reply_element element = reply_next(&reply);
    struct reading *reading;
    char *line, *end;

    if (element.type == '-') {
        message_set(message, "%.*s", (int)(element.text.size < 200 ? element.text.size : 200), element.text.data);
        return NULL;
    }
    if ((element.type != '$' && element.type != '=') || element.is_nil) {
        message_set(message, "the reply to INFO is no string");
        return NULL;
    }
    reading = mem_zalloc(sizeof(*reading));
    reading->taken_us = taken_us;
    reading->took_s = took_s;
    reading->text = mem_string(element.text);
    end = reading->text + element.text.size;
    for (line = reading->text; line < end;) {
        char *newline = memchr(line, '\n', (size_t)(end - line)), *stop = newline != NULL ? newline : end;

        add_line(reading, line, (size_t)(stop - line) - (stop > line && stop[-1] == '\r'));
        line = stop + 1;
    }
    if (reading->count > 0)
        return reading;
    message_set(message, "the reply to INFO has no fields");
    reading_destroy(reading);
    return NULL;
}

void reading_destroy(struct reading *reading)
{
    if (reading == NULL)
        return;
    mem_free(reading->text);
    mem_free(reading->fields);
    mem_free(reading);
}

/* --- numbers --- */

/* A finite number, with a percent sign at most after it. */
static bool parse_number(struct bytes text, double *number)
{
    char copy[64], *end;

    if (text.size == 0 || text.size >= sizeof(copy) || strchr("0123456789+-.", text.data[0]) == NULL)
        return false;
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    *number = strtod(copy, &end);
    return end != copy && (*end == '\0' || strcmp(end, "%") == 0) && isfinite(*number);
}

bool reading_text_near(const struct reading *reading, size_t place, struct bytes name, struct bytes *value)
{
    for (size_t i = 0; i < reading->count; i++) {
        const struct field *field = &reading->fields[(place + i) % reading->count];

        if (bytes_equal(field->name, name)) {
            *value = field->value;
            return true;
        }
    }
    return false;
}

bool reading_text(const struct reading *reading, const char *name, struct bytes *value)
{
    return reading_text_near(reading, 0, bytes_of_string(name), value);
}

bool reading_number(const struct reading *reading, const char *name, double *number)
{
    struct bytes value;

    return reading_text(reading, name, &value) && parse_number(value, number);
}

bool reading_is(const struct reading *reading, const char *name, const char *value)
{
    struct bytes found;

    return reading_text(reading, name, &found) && bytes_equal(found, bytes_of_string(value));
}

bool reading_part(struct bytes value, const char *name, struct bytes *part)
{
    size_t size = strlen(name);

    while (value.size > 0) {
        const char *comma = memchr(value.data, ',', value.size);
        size_t piece = comma != NULL ? (size_t)(comma - value.data) : value.size;

        if (piece > size && value.data[size] == '=' && memcmp(value.data, name, size) == 0) {
            *part = bytes_of(value.data + size + 1, piece - size - 1);
            return true;
        }
        value = bytes_of(value.data + piece + (comma != NULL), value.size - piece - (comma != NULL));
    }
    return false;
}

bool reading_part_number(struct bytes value, const char *name, double *number)
{
    struct bytes part;

    return reading_part(value, name, &part) && parse_number(part, number);
}

bool reading_follows(const struct reading *before, const struct reading *now)
{
    struct bytes old_run, new_run;

    if (before == NULL || now == NULL || now->taken_us <= before->taken_us)
        return false;
    if (!reading_text(before, "run_id", &old_run) || !reading_text(now, "run_id", &new_run))
        return true;
    return bytes_equal(old_run, new_run);
}

bool reading_rate(const struct reading *before, const struct reading *now, const char *name, double *per_s)
{
    double old, new;

    if (!reading_follows(before, now) || !reading_number(before, name, &old) || !reading_number(now, name, &new) || new < old)
        return false;
    *per_s = (new - old) / ((double)(now->taken_us - before->taken_us) / 1e6);
    return true;
}

/* --- TIER ADVISE --- */

void reading_make_printable(char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        text[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
}

static void take_value(struct advice_size *size, struct bytes name, struct bytes value)
{
    const struct {
        const char *name;
        double *field;
    } fields[] = {
        { "hit_ratio", &size->hit_ratio }, { "reads_per_second", &size->reads_per_s }, { "mean_usec", &size->mean_us }, { "p99_usec", &size->p99_us },
    };

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (bytes_equal(name, bytes_of_string(fields[i].name)) && parse_number(value, fields[i].field))
            size->known |= i == 0;
    }
}

/* Names and values follow each other, whatever arrays or maps they are in; a factor begins a size. */
void advice_read(struct bytes reply, struct advice *advice)
{
    static const struct advice_size unknown = { .hit_ratio = -1, .reads_per_s = -1, .mean_us = -1, .p99_us = -1 };
    struct advice_size *size = NULL;
    struct bytes name = { "", 0 };

    *advice = (struct advice){ unknown, unknown };
    while (reply.size > 0) {
        struct reply_element element = reply_next(&reply);
        double factor;

        if (bytes_equal(name, BYTES("factor")) && parse_number(element.text, &factor))
            size = factor == 1 ? &advice->present : factor == 2 ? &advice->doubled : NULL;
        else if (size != NULL && !element.is_nil)
            take_value(size, name, element.text);
        name = element.is_nil ? bytes_of("", 0) : element.text;
    }
}
