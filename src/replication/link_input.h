/* Link input: what a primary sends, taken apart: lines of the handshake, then an RDB, then the stream. It does no I/O.
 *
 *     $<length> CR LF <length bytes>                              an RDB from a file
 *     $EOF:<mark of 40 bytes> CR LF <bytes> <the mark again>      an RDB whose length is not known at the begin
 *     $IMAGE:<length> CR LF <length bytes>                        an image's archive (persist/archive.h), from a Kelvin
 *
 * Before a line, and before these headers, any number of newlines keep the connection alive.
 *
 * Owner: one thread. Memory: fixed; a line that does not fit is an error. Any bytes may come in, cut anywhere.
 */
#ifndef KELVIN_REPLICATION_LINK_INPUT_H
#define KELVIN_REPLICATION_LINK_INPUT_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

enum { LINK_LINE_MAX = 1024, LINK_MARK_SIZE = 40 };

enum link_event_kind {
    LINK_EVENT_NONE,        /* all input has been used */
    LINK_EVENT_ALIVE,       /* an empty line */
    LINK_EVENT_LINE,        /* `bytes` is a line, without its end. In place of an RDB: an error of the primary */
    LINK_EVENT_RDB_BEGIN,   /* of `total` bytes, or -1 */
    LINK_EVENT_IMAGE_BEGIN, /* the same of an archive: what follows are LINK_EVENT_RDB_BYTES and _END, too */
    LINK_EVENT_RDB_BYTES,   /* `bytes` are the next ones */
    LINK_EVENT_RDB_END,     /* what follows is the stream */
    LINK_EVENT_STREAM,      /* `bytes` are the next ones */
    LINK_EVENT_BAD,         /* `problem`: not the protocol; nothing more can be read */
};

struct link_event {
    struct bytes bytes;     /* of the input, or of the link_input until its next call */
    int64_t total;
    const char *problem;    /* a literal: what was wrong */
};

enum link_input_mode { LINK_INPUT_LINES, LINK_INPUT_RDB_HEADER, LINK_INPUT_RDB_SIZED, LINK_INPUT_RDB_MARKED, LINK_INPUT_STREAM, LINK_INPUT_BAD };

struct link_input {
    enum link_input_mode mode;
    const char *problem;        /* bad: what it was */
    size_t line_size;           /* bytes of `line` that belong to a line without its end */
    uint64_t left;              /* sized: bytes of the RDB to come */
    size_t matched;             /* marked: the last bytes were the mark's first ones, and have not been passed on */
    char line[LINK_LINE_MAX];
    char mark[LINK_MARK_SIZE];
};

void link_input_init(struct link_input *input);             /* expects lines */
/* Says what follows the line that was returned last: an RDB. */
void link_input_expect_rdb(struct link_input *input);
void link_input_expect_stream(struct link_input *input);

/* Takes the next event off `in`. */
enum link_event_kind link_input_next(struct link_input *input, struct bytes *in, struct link_event *event);

#endif
