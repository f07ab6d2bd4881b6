/* Request: takes requests out of a client's query buffer, in place.
 *
 * Understands RESP arrays of bulks and inline commands (with Redis' quoting). Incremental: it remembers how far it got,
 * so a request that comes in a thousand pieces is scanned once. Owner: one thread; one parser a client.
 *
 * On REQUEST_COMPLETE args[0..arg_count) point into the data that was given (inline commands with quotes into memory
 * of the parser); they are valid until the data moves or the next call. An empty request (`*0`, `*-1`, an empty
 * line) is consumed silently: REQUEST_COMPLETE with arg_count 0.
 */
#ifndef KELVIN_RESP_REQUEST_H
#define KELVIN_RESP_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/blob.h"
#include "base/buffer.h"
#include "base/bytes.h"

enum { REQUEST_ERROR_SIZE = 128, REQUEST_LARGE_MIN = 64 * 1024 };

/* An argument that was received into memory of its own: args[arg] is its blob's bytes. */
struct request_large {
    struct blob *blob;          /* held by the parser until the next request begins */
    int arg;
};

struct request_limits {
    int64_t bulk_size_max;      /* proto-max-bulk-len */
    int64_t arg_count_max;      /* INT32_MAX in Redis 7.2; never more */
    int64_t inline_size_max;    /* 64 KiB; of a line with a count or length too. At least 32 */
    bool authenticated;         /* false: bulks over 16 KiB and more than 10 arguments are errors, as in Redis */
};

struct request_parser {
    struct bytes *args;
    int arg_count;
    /* Private: where we are in a request that is not complete. Offsets count from the start of the request; between
     * calls args[].data are such offsets too, as the data may move. */
    int arg_capacity;
    int64_t args_expected;      /* -1: the header is not read yet */
    int64_t bulk_expected;      /* -1: the $ header of the next bulk is not read yet */
    size_t scanned;             /* bytes of the request that are done with */
    size_t line_scanned;        /* no line that is still open ends before this */
    struct buffer inline_text;  /* arguments that had quotes or escapes */
    struct request_large *large;    /* in the order of `arg`; the last one may still be filling: its `arg` is arg_count then */
    int large_count, large_capacity;
    size_t large_size;          /* bytes of all of them */
    char error[REQUEST_ERROR_SIZE];
};

enum request_result { REQUEST_COMPLETE, REQUEST_MORE, REQUEST_ERROR };

void request_init(struct request_parser *parser);
void request_release(struct request_parser *parser);

/* Gives back the memory a big request left behind. Only between requests; the arguments are gone afterwards. What is
 * beyond a few pages goes by itself when the next request begins: this is for clients that fall idle. */
void request_trim(struct request_parser *parser);

/* Forgets what was read of a request that is not complete: the next call starts at a request's first byte again. For who reads
 * ahead and then has to go back. */
void request_restart(struct request_parser *parser);

/* Large arguments need not be in `data`. After REQUEST_MORE: the size of the argument that is incomplete, with its line end, if it is
 * worth to be received apart from the others (REQUEST_LARGE_MIN and more); else 0. */
size_t request_large_wanted(const struct request_parser *parser);
/* Begins that: what has come of the argument is copied. Returns how many bytes of `data`, counted from the request's first one, are to be kept for
 * the next call of request_parse; those after them are done with. */
size_t request_large_begin(struct request_parser *parser, const char *data, size_t size);
/* Where the next bytes of the argument go, `*room` of them; NULL: none is being received. Then: so many have come; true if it is complete. */
char *request_large_room(struct request_parser *parser, size_t *room);
bool request_large_add(struct request_parser *parser, size_t size);
/* The request that was complete is to be given once more by the next call, with the same data: request_restart for one with large
 * arguments. `size` is what request_parse said it consumed. */
void request_again(struct request_parser *parser, const char *data, size_t size);
/* The blob of the large argument that these bytes are; NULL: they are none. */
struct blob *request_large_find(const struct request_large *large, int count, struct bytes bytes);
/* The request has run: its large arguments are not needed any more. */
void request_drop_large(struct request_parser *parser);

/* `data` begins where the current request begins (the same bytes as last time, maybe more of them, maybe elsewhere in
 * memory). REQUEST_COMPLETE: `*consumed` is the request's size. REQUEST_MORE: `*wanted` is a hint of how many bytes
 * are missing at least (>= 1). REQUEST_ERROR: parser->error is the text after "-ERR ", as Redis words it; the client
 * gets it and is closed. */
enum request_result request_parse(struct request_parser *parser, const struct request_limits *limits,
    const char *data, size_t size, size_t *consumed, size_t *wanted);

#endif
