/* Link: the connection of a replica to its primary, on a thread of its own ("kelvin-link"). It connects, does the handshake, asks for the
 * stream, receives an RDB into a file if the primary sends one, then passes on the stream and acknowledges what the host has applied.
 * When the connection breaks it starts again, once a second, until it is stopped.
 *
 * It knows nothing about the data set: the host, a struct of callbacks, does. All callbacks run on the link's
 * thread, one at a time, in this order for each try:
 *
 *     state_changed(CONNECTING)  connected  state_changed(HANDSHAKE)  position
 *         +CONTINUE:    continued                                              state_changed(CONNECTED)  received*
 *         +FULLRESYNC:  full_resync  state_changed(SYNC)  rdb_progress*  rdb_received  state_changed(CONNECTED)  received*
 *                                                                       or image_received
 *     failed  state_changed(WAITING)                                      at any point, or never
 *
 * After rdb_received the host loads the file on another thread. Meanwhile the link goes on: it passes on the stream, for the host to keep,
 * and acknowledges what `progress` returns, which has to be 0 until the load is done. This first ACK is what a primary that sent the RDB
 * without a file waits for before it sends the stream. When a load has failed, the host changes its position and calls link_reconnect.
 *
 * Memory: two buffers of 64 KiB, and TLS. Nothing that the primary sends makes it more.
 */
#ifndef KELVIN_REPLICATION_LINK_H
#define KELVIN_REPLICATION_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

struct disk;
struct meter;
struct tls_context;

struct link;

enum { LINK_ID_SIZE = 40 };         /* hex digits of a replication ID */

/* All strings are copied, and never NULL; "" is: none. */
struct link_options {
    const char *host;               /* name or address of the primary */
    uint16_t port;
    const char *source_address;     /* to connect from */
    const char *user, *password;    /* no password: no AUTH; no user: AUTH with the password only */
    bool with_tls;                  /* nothing is sent without TLS */
    struct tls_context *tls;        /* held by the link; NULL: there is none, and with TLS each try fails */
    uint16_t listening_port;        /* what the primary shows as this replica's port; 0: it is not sent */
    const char *announce_ip;
    int64_t timeout_ms;             /* repl-timeout: of connecting, of each step of the handshake, of silence; > 0 */
    const struct disk *disk;
    const char *dir;                /* where the RDB is received, as a file that has no name */
    const char *image_offer;        /* as replication/image_offer.h; "": only an RDB is accepted */
    const char *image_dir;          /* where the files of an image are received: a directory that is removed first */
};

/* Where the data set is in the history of a primary: the next byte wanted is offset + 1. */
struct link_position {
    char id[LINK_ID_SIZE + 1];      /* "": no position; the primary is asked for all data */
    int64_t offset;                 /* >= 0 */
    bool failover;                  /* the primary has to take this role over first (FAILOVER); only with an ID */
    bool continues_only;            /* it is refused if it can't continue from here: no RDB is taken */
};

struct link_progress {
    int64_t applied;                /* the offset up to which the data set has the changes; 0 while an RDB is being loaded */
    int64_t synced;                 /* the same for what a crash leaves; -1: nothing is written to a log, and it is not sent */
};

enum link_state {
    LINK_WAITING,                   /* between two tries */
    LINK_CONNECTING,
    LINK_HANDSHAKE,                 /* connected, up to the reply to PSYNC */
    LINK_SYNC,                      /* an RDB is awaited or received */
    LINK_CONNECTED,                 /* the stream is passed on */
};

enum link_failure {
    LINK_FAILED_CONNECT,            /* no address, refused, unreachable, TLS refused */
    LINK_FAILED_TIMEOUT,            /* connecting took too long, or nothing came for timeout_ms */
    LINK_FAILED_CLOSED,             /* the primary closed the connection, or the network did */
    LINK_FAILED_AUTH,               /* user or password are refused or missing */
    LINK_FAILED_REFUSED,            /* PING or PSYNC is another error; or it can't continue, and continues_only */
    LINK_FAILED_IS_PRIMARY,         /* PSYNC ... FAILOVER is refused, as it is a primary already */
    LINK_FAILED_NOT_YET,            /* the primary is loading, or is a replica without a link of its own */
    LINK_FAILED_PROTOCOL,           /* bytes that a primary does not send */
    LINK_FAILED_DISK,               /* the RDB could not be written; the next try is after ten seconds */
    LINK_FAILED_IMAGE,              /* bytes that are no image: the host should ask for an RDB */
    LINK_FAILED_REQUESTED,          /* link_reconnect; the next try is at once */
};

struct link_host {
    void *context;
    /* There is a connection, with this descriptor, which is the link's. NULL: the host is not interested. */
    void (*connected)(void *context, int fd);
    /* Asked at each try, right before PSYNC. What is received after `continued` begins after this offset. */
    void (*position)(void *context, struct link_position *position);
    void (*state_changed)(void *context, enum link_state state);
    /* `reason` is a sentence without a full stop, for the log; it has no password. */
    void (*failed)(void *context, enum link_failure failure, const char *reason);
    /* `id`: the primary's new one, from this offset on; NULL: it is the position's. */
    void (*continued)(void *context, const char *id);
    /* The data set is to be replaced with one at `offset` of `id`, and all that was received before is void. It may be served until
     * the new one has been loaded. What is received after the RDB begins after `offset`. */
    void (*full_resync)(void *context, const char *id, int64_t offset);
    /* Before the first byte of an RDB, then about ten times a second. `total` is -1 if it is not known. */
    void (*rdb_progress)(void *context, uint64_t received, int64_t total);
    /* The whole RDB, unchecked. The host owns `fd` from now on: open for reading and writing, at its beginning, without a name;
     * it is read and closed by options.disk. */
    void (*rdb_received)(void *context, int fd, uint64_t size);
    /* The same of an image: its files are in options.image_dir, verified one by one, and are the host's from now on. NULL: image_offer is "". */
    void (*image_received)(void *context, uint64_t size);
    /* The next bytes of the stream, cut anywhere. False: none were taken, as there is no room; the link stops to read and offers them again
     * some milliseconds later. */
    bool (*received)(void *context, struct bytes bytes);
    /* Asked for each ACK. */
    void (*progress)(void *context, struct link_progress *progress);
    struct meter *meter;            /* counts the memory of the link's threads; NULL: it is not counted */
};

/* NULL with errno: the system has no thread or no descriptor. `host` is copied. */
struct link *link_start(const struct link_options *options, const struct link_host *host);
/* Ends the connection and the thread, within milliseconds unless a callback is slow, and frees the link. Any thread but the link's own,
 * which a callback must not wait for. After that no callback runs. */
void link_stop(struct link *link);

/* The functions below return at once. Any thread, callbacks included; any lock. */

/* The options of the next try, copied. timeout_ms has effect at once. */
void link_configure(struct link *link, const struct link_options *options);
/* Sends an ACK now: GETACK was applied, or the host has applied what it was waiting for. */
void link_ack_now(struct link *link);
/* Breaks the connection, if there is one, and tries again at once. */
void link_reconnect(struct link *link);

#endif
