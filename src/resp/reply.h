/* Reply: a reply to a client, written into a buffer as RESP2 or RESP3.
 *
 * Owner: the thread that runs the call. Each client has one; the replies of a pipeline follow each other in `out`. In
 * RESP2 the types of RESP3 fall back as in Redis: a map becomes a flat array, a set an array, a double a bulk string, a
 * boolean 1 or 0, null a null bulk string, a big number and a verbatim string bulk strings, a push an array.
 */
#ifndef KELVIN_RESP_REPLY_H
#define KELVIN_RESP_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/blob.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/text.h"

enum { REPLY_HEADER_SIZE = TEXT_INT_SIZE + 3 };     /* the longest ":-9223372036854775808" with CRLF */

/* A string that is not copied into `out`: it is sent before out.data[offset]. */
struct reply_share {
    struct blob *blob;      /* held by the reply */
    size_t offset;
};

enum { REPLY_SHARE_MIN = 64 * 1024 };

struct reply {
    struct buffer out;
    int protocol;           /* 2 or 3 */
    bool may_share;         /* the reader of the reply sends shares; otherwise everything is in `out` */
    struct reply_share *shares;     /* ordered by `offset` */
    size_t share_count, share_capacity;
    uint64_t shared_size;   /* bytes of all shares */
    _Atomic uint64_t *held; /* owned by the server: bytes of all strings held by replies, each string counted once; NULL: not counted */
};

void reply_init(struct reply *reply, int protocol);                 /* allocates nothing */
void reply_release(struct reply *reply);

/* The bytes that remain to be sent. */
static inline uint64_t reply_size(const struct reply *reply) { return reply->out.size + reply->shared_size; }
/* Removes what was written since out.size was `size`. */
void reply_truncate(struct reply *reply, size_t size);

/* Moves all of `from` to the end of the reply; `from` holds no shares. */
void reply_append(struct reply *reply, struct reply *from);

void reply_status(struct reply *reply, struct bytes text);          /* +text; CR and LF in it become spaces */
static inline void reply_ok(struct reply *reply);
void reply_error_text(struct reply *reply, struct bytes text);      /* -text; likewise, and those at its end are removed */
static inline void reply_integer(struct reply *reply, int64_t number);
static inline void reply_bulk(struct reply *reply, struct bytes bytes);
/* If may_share is set, a long blob is not copied: the reply holds it until it is sent. */
void reply_bulk_blob(struct reply *reply, struct blob *blob);
void reply_bulk_string(struct reply *reply, const char *string);
void reply_bulk_integer(struct reply *reply, int64_t number);       /* the number as a bulk string */
void reply_bulk_format(struct reply *reply, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Reserves a bulk string of exactly `size` bytes and returns where they go; the caller writes all of them at once. */
char *reply_bulk_reserve(struct reply *reply, size_t size);
void reply_null(struct reply *reply);                               /* $-1 or _ */
void reply_null_array(struct reply *reply);                         /* *-1 or _ */
void reply_array(struct reply *reply, size_t count);                /* then `count` replies */
void reply_map(struct reply *reply, size_t pair_count);             /* then `pair_count` keys and values */
void reply_set(struct reply *reply, size_t count);
void reply_push(struct reply *reply, size_t count);
void reply_attribute(struct reply *reply, size_t pair_count);       /* RESP3 only, which is CHECKed */
void reply_double(struct reply *reply, double number);
void reply_long_double(struct reply *reply, long double number);     /* 17 digits after the point, as in INCRBYFLOAT */
void reply_bool(struct reply *reply, bool value);
void reply_big_number(struct reply *reply, struct bytes digits);
/* `kind` has three letters, "txt" or "mkd". */
void reply_verbatim(struct reply *reply, const char *kind, struct bytes text);

/* For arrays whose number of elements is known only at the end: begin, write the elements, then state the type and the
 * count. Calls nest: the inner one ends first. If the count has more than one digit, the elements are moved once. */
struct reply_later {
    size_t offset;          /* of the gap in `out` */
};
struct reply_later reply_later_begin(struct reply *reply);
void reply_later_array(struct reply *reply, struct reply_later later, size_t count);
void reply_later_map(struct reply *reply, struct reply_later later, size_t pair_count);
void reply_later_set(struct reply *reply, struct reply_later later, size_t count);

/* Private from here on: the frequent functions, inline. */

/* Writes the type, the number and CRLF; returns the address after them. */
static inline char *reply_header_write(char *at, char type, int64_t number)
{
    *at++ = type;
    if (number >= 0 && number < 10)
        *at++ = (char)('0' + number);
    else
        at += text_of_int(number, at);
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

static inline void reply_ok(struct reply *reply)
{
    buffer_append(&reply->out, "+OK\r\n", 5);
}

static inline void reply_integer(struct reply *reply, int64_t number)
{
    char *at = buffer_reserve(&reply->out, REPLY_HEADER_SIZE);

    at = reply_header_write(at, ':', number);
    reply->out.size = (size_t)(at - reply->out.data);
}

static inline void reply_bulk(struct reply *reply, struct bytes bytes)
{
    char *at = buffer_reserve(&reply->out, REPLY_HEADER_SIZE + bytes.size + 2);

    at = reply_header_write(at, '$', (int64_t)bytes.size);
    if (bytes.size > 0)
        memcpy(at, bytes.data, bytes.size);
    at += bytes.size;
    *at++ = '\r';
    *at++ = '\n';
    reply->out.size = (size_t)(at - reply->out.data);
}

#endif
