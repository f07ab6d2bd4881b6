/* Reply: what a client is told, written as RESP2 or RESP3 into a buffer.
 *
 * Owner: the thread that runs the call. One reply a client; replies of a pipeline follow each other in `out`.
 * In RESP2 the newer shapes fall back as Redis does it: a map is a flat array, a set an array, a double a bulk string,
 * a boolean 1 or 0, null is a null bulk, a big number and a verbatim string are bulks, a push is an array.
 */
#ifndef KELVIN_RESP_REPLY_H
#define KELVIN_RESP_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"

struct reply {
    struct buffer out;
    int protocol;           /* 2 or 3 */
};

void reply_status(struct reply *reply, struct bytes text);          /* +text */
void reply_ok(struct reply *reply);
void reply_error_text(struct reply *reply, struct bytes text);      /* -text; CR and LF in it become spaces */
void reply_integer(struct reply *reply, int64_t number);
void reply_bulk(struct reply *reply, struct bytes bytes);
void reply_bulk_string(struct reply *reply, const char *string);
void reply_bulk_integer(struct reply *reply, int64_t number);       /* the number as a bulk string */
void reply_bulk_format(struct reply *reply, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Room for a bulk of exactly `size` bytes; the caller fills all of it at once. */
char *reply_bulk_reserve(struct reply *reply, size_t size);
void reply_null(struct reply *reply);                               /* $-1 or _ */
void reply_null_array(struct reply *reply);                         /* *-1 or _ */
void reply_array(struct reply *reply, size_t count);                /* then `count` replies */
void reply_map(struct reply *reply, size_t pair_count);             /* then `pair_count` times two replies */
void reply_set(struct reply *reply, size_t count);
void reply_push(struct reply *reply, size_t count);
void reply_attribute(struct reply *reply, size_t pair_count);       /* RESP3 only; CHECKs */
void reply_double(struct reply *reply, double number);
void reply_bool(struct reply *reply, bool value);
void reply_big_number(struct reply *reply, struct bytes digits);
/* `kind` has three letters, "txt" or "mkd". */
void reply_verbatim(struct reply *reply, const char *kind, struct bytes text);

/* When the number of elements is known only afterwards: reserve, write elements, then fix. Nests. */
struct reply_later {
    size_t at;              /* offset in `out` of the gap */
};
struct reply_later reply_later_begin(struct reply *reply);
void reply_later_array(struct reply *reply, struct reply_later later, size_t count);
void reply_later_map(struct reply *reply, struct reply_later later, size_t pair_count);
void reply_later_set(struct reply *reply, struct reply_later later, size_t count);

#endif
