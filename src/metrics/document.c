#include "metrics/document.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "metrics/metric.h"

enum { NUMBER_SIZE = 340 };     /* "%.3f" of the largest double has 313 characters */

/* One character of a string: its bytes are valid UTF-8. */
static void append_character(struct buffer *out, struct bytes character)
{
    char escape[8];
    unsigned char first = (unsigned char)character.data[0];

    if (first < 0x20) {
        snprintf(escape, sizeof(escape), "\\u%04x", first);
        buffer_append_string(out, escape);
        return;
    }
    if (first == '"' || first == '\\')
        buffer_append_u8(out, '\\');
    buffer_append_bytes(out, character);
}

/* The text of a string. */
static void append_text(struct buffer *out, struct bytes text)
{
    struct bytes character;

    while (metric_utf8_next(&text, &character))
        append_character(out, character);
}

static void begin_value(struct document *json, const char *name)
{
    if (json->is_next)
        buffer_append_u8(json->out, ',');
    json->is_next = true;
    if (name == NULL)
        return;
    buffer_append_u8(json->out, '"');
    append_text(json->out, bytes_of_string(name));
    buffer_append_string(json->out, "\":");
}

void document_open(struct document *json, const char *name, char bracket)
{
    begin_value(json, name);
    buffer_append_u8(json->out, (uint8_t)bracket);
    json->is_next = false;
}

void document_close(struct document *json, char bracket)
{
    buffer_append_u8(json->out, (uint8_t)bracket);
    json->is_next = true;
}

void document_integer(struct document *json, const char *name, uint64_t number)
{
    char digits[24];

    begin_value(json, name);
    snprintf(digits, sizeof(digits), "%llu", (unsigned long long)number);
    buffer_append_string(json->out, digits);
}

void document_number(struct document *json, const char *name, double number)
{
    char digits[NUMBER_SIZE];

    if (!isfinite(number)) {
        document_null(json, name);
        return;
    }
    begin_value(json, name);
    snprintf(digits, sizeof(digits), number == floor(number) ? "%.0f" : "%.3f", number);
    buffer_append_string(json->out, digits);
}

void document_number_if(struct document *json, const char *name, double number)
{
    if (number < 0)
        document_null(json, name);
    else
        document_number(json, name, number);
}

void document_bool(struct document *json, const char *name, bool value)
{
    begin_value(json, name);
    buffer_append_string(json->out, value ? "true" : "false");
}

void document_null(struct document *json, const char *name)
{
    begin_value(json, name);
    buffer_append_string(json->out, "null");
}

void document_text(struct document *json, const char *name, const char *text)
{
    if (text == NULL) {
        document_null(json, name);
        return;
    }
    begin_value(json, name);
    buffer_append_u8(json->out, '"');
    append_text(json->out, bytes_of_string(text));
    buffer_append_u8(json->out, '"');
}

void document_bytes(struct document *json, const char *name, struct bytes bytes)
{
    begin_value(json, name);
    buffer_append_u8(json->out, '"');
    for (size_t at = 0, size; at < bytes.size; at += size) {
        unsigned char first = (unsigned char)bytes.data[at];
        char escape[8];

        size = metric_utf8_size(bytes_of(bytes.data + at, bytes.size - at));
        if (size == 0 || first < 0x20 || first == 0x7f) {
            snprintf(escape, sizeof(escape), "\\\\x%02x", first);
            buffer_append_string(json->out, escape);
            size = 1;
        } else if (first == '\\') {
            buffer_append_string(json->out, "\\\\\\\\");
        } else {
            append_character(json->out, bytes_of(bytes.data + at, size));
        }
    }
    buffer_append_u8(json->out, '"');
}
