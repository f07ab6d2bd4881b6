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

#include "base/buffer.h"
#include "base/bytes.h"

enum { REQUEST_ERROR_SIZE = 128 };

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

/* `data` begins where the current request begins (the same bytes as last time, maybe more of them, maybe elsewhere in
 * memory). REQUEST_COMPLETE: `*consumed` is the request's size. REQUEST_MORE: `*wanted` is a hint of how many bytes
 * are missing at least (>= 1). REQUEST_ERROR: parser->error is the text after "-ERR ", as Redis words it; the client
 * gets it and is closed. */
enum request_result request_parse(struct request_parser *parser, const struct request_limits *limits,
    const char *data, size_t size, size_t *consumed, size_t *wanted);

#endif
