/* Document: a writer of JSON (RFC 8259), valid UTF-8 whatever it is given. Pure.
 *
 *     struct document json = { .out = &out };
 *     document_open(&json, NULL, '{');
 *     document_integer(&json, "keys", 7);
 *     document_close(&json, '}');                 {"keys":7}
 *
 * `name` is the member's in an object, and NULL in an array and for the outermost value.
 */
#ifndef KELVIN_METRICS_DOCUMENT_H
#define KELVIN_METRICS_DOCUMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"

struct document {
    struct buffer *out;
    bool is_next;               /* a comma comes before the next value */
};

/* '{' and '}', or '[' and ']'. */
void document_open(struct document *json, const char *name, char bracket);
void document_close(struct document *json, char bracket);

void document_integer(struct document *json, const char *name, uint64_t number);
void document_number(struct document *json, const char *name, double number);       /* three decimals; null if it is not finite */
void document_number_if(struct document *json, const char *name, double number);    /* null if it is below 0, too */
void document_bool(struct document *json, const char *name, bool value);
void document_null(struct document *json, const char *name);
void document_text(struct document *json, const char *name, const char *text);      /* NULL: null. What is not UTF-8 becomes U+FFFD */
/* Any bytes, as redis-cli shows them, without the quotes: "\" as \\, control characters and what is not UTF-8 as \xNN. */
void document_bytes(struct document *json, const char *name, struct bytes bytes);

#endif
