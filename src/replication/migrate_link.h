/* Migrate link: a connection to another server, over which commands are sent and lines are read. It blocks, so it belongs to a job's thread.
 *
 * With `tls-cluster yes` it speaks TLS, with the certificate and the authorities of the other connections that this server opens; the other server's certificate
 * has to be valid, the name in it is not compared with the host.
 *
 * Every step has the same timeout: to connect, to write each 64 KiB, to read each line. A link that has failed stays so: what was read
 * so far can't be distinguished from what belongs to a later command. When the server ends, the step that waits fails within a tenth of a second.
 *
 * Owner: one thread at a time.
 */
#ifndef KELVIN_REPLICATION_MIGRATE_LINK_H
#define KELVIN_REPLICATION_MIGRATE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/message.h"
#include "replication/wire.h"

struct buffer;
struct engine;

enum { MIGRATE_LINK_LINE_MAX = 1024 };      /* a longer line, with its end, is an error */

/* MIGRATE_LINK_WRITE_FAILED: also if the other server refuses the connection. MIGRATE_LINK_NO_CONNECTION: its name is not known, or it did
 * not respond, or TLS has failed; `reason` of the link says why. */
enum migrate_link_result { MIGRATE_LINK_OK, MIGRATE_LINK_NO_CONNECTION, MIGRATE_LINK_WRITE_FAILED, MIGRATE_LINK_READ_FAILED };

struct migrate_link {
    const struct engine *engine;    /* asked whether the server ends */
    struct wire wire;
    struct message reason;          /* why it could not be opened, if there is more to say than that */
    int64_t timeout_ms;
    size_t from, to;                /* of `in`: read, and not returned yet */
    char in[MIGRATE_LINK_LINE_MAX];
};

/* Appends a command as it is sent. */
void migrate_link_append(struct buffer *out, const struct bytes *words, int count);

void migrate_link_init(struct migrate_link *link, int64_t timeout_ms);
void migrate_link_close(struct migrate_link *link);         /* if it is open */
static inline bool migrate_link_is_open(const struct migrate_link *link) { return link->wire.fd >= 0; }

/* `port` is text. Names are looked up in place, with the system's own timeouts. */
enum migrate_link_result migrate_link_open(struct migrate_link *link, const struct engine *engine, const char *host, const char *port);
enum migrate_link_result migrate_link_write(struct migrate_link *link, struct bytes bytes);
/* The line, without its CR LF, is valid until the next read. */
enum migrate_link_result migrate_link_read_line(struct migrate_link *link, struct bytes *line);

/* Reads this many bytes, and drops them. */
enum migrate_link_result migrate_link_skip(struct migrate_link *link, size_t size);

#endif
