/* Migrate link: a connection to another server, over which commands are sent and lines are read. It blocks, so it belongs to a job's thread.
 *
 * Every step has the same timeout: to connect, to write each 64 KiB, to read each line. A link that has failed stays so: what was read
 * so far can't be distinguished from what belongs to a later command. When the server ends, the step that waits fails within a tenth of a second.
 *
 * Owner: one thread at a time.
 */
#ifndef KELVIN_COMMANDS_MIGRATE_LINK_H
#define KELVIN_COMMANDS_MIGRATE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct engine;

enum { LINK_LINE_MAX = 1024 };      /* a longer line, with its end, is an error */

/* LINK_WRITE_FAILED: also if the other server refuses the connection. LINK_NO_CONNECTION: its name is not known, or it did not respond. */
enum link_result { LINK_OK, LINK_NO_CONNECTION, LINK_WRITE_FAILED, LINK_READ_FAILED };

struct link {
    const struct engine *engine;    /* asked whether the server ends */
    int fd;                         /* -1: not open */
    int64_t timeout_ms;
    size_t from, to;                /* of `in`: read, and not returned yet */
    char in[LINK_LINE_MAX];
};

void link_init(struct link *link, int64_t timeout_ms);
void link_close(struct link *link);         /* if it is open */

/* `port` is text. Names are looked up in place, with the system's own timeouts. */
enum link_result link_open(struct link *link, const struct engine *engine, const char *host, const char *port);
enum link_result link_write(struct link *link, struct bytes bytes);
/* The line, without its CR LF, is valid until the next read. */
enum link_result link_read_line(struct link *link, struct bytes *line);

#endif
