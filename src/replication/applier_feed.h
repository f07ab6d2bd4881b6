/* Feed: the commands of a primary's stream, one after the other, out of a backlog. What it reads is not trusted.
 *
 *   text    [keep ... at ... ]        what is before `keep` is dropped by the next feed_read; the next command begins at `at`
 *
 * Only arrays with at least one argument are commands: a primary sends no inline commands and no empty ones. Memory is bounded: a command,
 * with what its parsers need for it, may take FEED_COMMAND_MAX; an argument that announces more is refused at once.
 *
 * Owner: one thread.
 */
#ifndef KELVIN_REPLICATION_APPLIER_FEED_H
#define KELVIN_REPLICATION_APPLIER_FEED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "call/streamed.h"
#include "resp/request.h"

struct backlog;
struct backlog_reader;

enum { FEED_READ_SIZE = 256 << 10 };

/* As large as the requests that a primary accepts (client-query-buffer-limit, 1 GiB by default). */
#define FEED_COMMAND_MAX ((size_t)STREAMED_SIZE_MAX)

struct feed {
    struct backlog_reader *reader;
    uint64_t limit;                 /* nothing is read at or after this position */
    size_t command_max;             /* FEED_COMMAND_MAX; tests need less */
    struct buffer text;
    size_t keep, at;
    size_t scout_at;                /* the next command that feed_scout parses, ahead of `at` */
    struct request_parser parser;   /* args: of the command that feed_next has returned, valid until the next call for this feed */
    struct request_parser scout;    /* the same of feed_scout */
    const char *problem;            /* of FEED_BAD */
};

/* False: the position is not in the backlog. */
bool feed_open(struct feed *feed, struct backlog *backlog, uint64_t position, uint64_t limit);
void feed_close(struct feed *feed);

/* FEED_MORE: the text ends before the command does. FEED_BAD: `problem`; the stream can't be read on. */
enum feed_result { FEED_COMMAND, FEED_MORE, FEED_BAD };

/* The command at `at`, of `*size` bytes; `at` stays. */
enum feed_result feed_next(struct feed *feed, size_t *size);
/* Goes on to the next one. */
void feed_pass(struct feed *feed, size_t size);
/* The next command that was not seen ahead yet. False: there is none in the text. */
bool feed_scout(struct feed *feed);

/* Drops what is before `keep`, and reads up to FEED_READ_SIZE bytes. FEED_COMMAND: it has read some; FEED_MORE: there are none. */
enum feed_result feed_read(struct feed *feed);

/* Position of the command at `at`. */
uint64_t feed_position(const struct feed *feed);

#endif
