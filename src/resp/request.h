/* Request: parses requests in a client's query buffer, in place.
 *
 * Accepts RESP arrays of bulk strings and inline commands (with Redis' quoting). The parser is incremental: it
 * remembers how far it has read, so a request that arrives in a thousand pieces is scanned once. Owner: one thread;
 * each client has one parser.
 *
 * After REQUEST_COMPLETE args[0..arg_count) point into the given data (for inline commands with quotes: into the
 * parser's memory); they are valid until the data moves or until the next call. An empty request (`*0`, `*-1`, an empty
 * line) is consumed without a reply: REQUEST_COMPLETE with arg_count 0.
 */
#ifndef KELVIN_RESP_REQUEST_H
#define KELVIN_RESP_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/blob.h"
#include "base/buffer.h"
#include "base/bytes.h"

enum { REQUEST_ERROR_SIZE = 128, REQUEST_LARGE_MIN = 64 * 1024 };

/* An argument that was received into memory of its own: args[arg] is the bytes of its blob. */
struct request_large {
    struct blob *blob;          /* held by the parser until the next request begins */
    int arg;
};

struct request_limits {
    int64_t bulk_size_max;      /* proto-max-bulk-len */
    int64_t arg_count_max;      /* INT32_MAX in Redis 7.2; not more than that */
    int64_t inline_size_max;    /* 64 KiB; also for a line with a count or a length. At least 32 */
    bool authenticated;         /* false: bulk strings over 16 KiB and more than 10 arguments are errors, as in Redis */
};

struct request_parser {
    struct bytes *args;
    int arg_count;
    /* Private: the position in an incomplete request. Offsets count from the start of the request. Between calls
     * args[].data are such offsets too, because the data may move. */
    int arg_capacity;
    int64_t args_expected;      /* -1: the header has not been read */
    int64_t bulk_expected;      /* -1: the $ header of the next bulk string has not been read */
    size_t scanned;             /* bytes of the request that have been processed */
    size_t line_scanned;        /* no line that is still incomplete ends before this offset */
    struct buffer inline_text;  /* arguments that had quotes or escapes */
    struct request_large *large;    /* ordered by `arg`; while the last one is being received, its `arg` is arg_count */
    int large_count, large_capacity;
    size_t large_size;          /* total size of their bytes */
    char error[REQUEST_ERROR_SIZE];
};

enum request_result { REQUEST_COMPLETE, REQUEST_MORE, REQUEST_ERROR };

void request_init(struct request_parser *parser);
void request_release(struct request_parser *parser);

/* Frees the memory that a large request needed. Only between requests; the arguments are not valid afterwards. Memory
 * beyond a few pages is freed anyway when the next request begins: this function is for clients that become idle. */
void request_trim(struct request_parser *parser);

/* Forgets what was read of an incomplete request: the next call starts at the first byte of a request. For callers that
 * read ahead and then have to go back. */
void request_restart(struct request_parser *parser);

/* Large arguments can be received outside `data`. After REQUEST_MORE: the size of the incomplete argument with its line
 * end, if it is large enough to be received separately (REQUEST_LARGE_MIN or more); otherwise 0. */
size_t request_large_wanted(const struct request_parser *parser);
/* Starts to receive it separately; the part that is already in `data` is copied. Returns how many bytes of `data`, from
 * the start of the request, must be kept for the next call of request_parse; the bytes after them have been processed. */
size_t request_large_begin(struct request_parser *parser, const char *data, size_t size);
/* Returns where the next bytes of the argument go, with room for `*room` of them; NULL if no argument is being
 * received. The caller then passes the number of bytes received to request_large_add, which returns true if the
 * argument is complete. */
char *request_large_room(struct request_parser *parser, size_t *room);
bool request_large_add(struct request_parser *parser, size_t size);
/* How much of a large argument has been received, and in `*room` how much is missing; 0 and 0: none is being received. */
size_t request_large_received(const struct request_parser *parser, size_t *room);
/* Bytes that the parser has allocated. */
size_t request_memory(const struct request_parser *parser);
/* Makes the next call return the completed request once more, with the same data: request_restart for a request with
 * large arguments. `size` is what request_parse returned in `*consumed`. */
void request_again(struct request_parser *parser, const char *data, size_t size);
/* The blob of the large argument whose bytes these are; NULL if there is none. */
struct blob *request_large_find(const struct request_large *large, int count, struct bytes bytes);
/* The request has run: releases its large arguments. */
void request_drop_large(struct request_parser *parser);

/* `data` begins at the start of the current request (the same bytes as in the last call, possibly followed by more,
 * possibly at another address). REQUEST_COMPLETE: `*consumed` is the size of the request. REQUEST_MORE: `*wanted` is a
 * lower bound of the number of missing bytes (>= 1). REQUEST_ERROR: parser->error is the text after "-ERR " as in
 * Redis; the caller sends it to the client and closes the connection. */
enum request_result request_parse(struct request_parser *parser, const struct request_limits *limits,
    const char *data, size_t size, size_t *consumed, size_t *wanted);

#endif
