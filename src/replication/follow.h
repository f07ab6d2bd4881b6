/* Follow: this server as a replica. REPLICAOF starts and ends it; it connects the link, the inbox, the load of a full synchronization, the
 * applier and the role.
 *
 *     link -> received RDB (a file) -> loader thread -> data set, and the history becomes the primary's
 *          -> stream -> inbox (memory, then disk) -> applier -> data set and history
 *
 * The position is the history's end: what was applied. While the link is broken and comes back, the inbox stays, so the stream is asked for from
 * the inbox's end on. A new primary is asked for what follows the last unit that was applied. A promotion applies first what the inbox has, within
 * repl-promotion-timeout.
 *
 * A full synchronization is received into a file while clients read what is there (or get MASTERDOWN: replica-serve-stale-data), and then
 * loaded while they get LOADING. With appendonly yes the log is switched off before the load, and begun again after it: a new log
 * takes the place of the old one in one step, so a crash leaves the old data or the new. REPLICAOF ends the load as long as the old data is there;
 * once it is being replaced nothing but the end of the server ends the load, and a change of the primary is refused as all else is: LOADING.
 *
 * Threads: any. Locks: `turn` is held during a change of the primary, which takes milliseconds, by a thread that is no worker and has no locks;
 * `lock` is a leaf.
 */
#ifndef KELVIN_REPLICATION_FOLLOW_H
#define KELVIN_REPLICATION_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/endpoint.h"
#include "replication/link.h"

struct command;
struct engine;
struct follow;
struct tls;
struct tls_context;

enum { FOLLOW_HOST_SIZE = 256 };

/* `hold_tls`: a reference to the context of connections that the server opens; NULL: it has none. */
struct follow *follow_create(struct engine *engine, struct tls_context *(*hold_tls)(void *context), void *context);
/* A reference to that context, which the caller drops; NULL: there is none. Any thread. */
struct tls_context *follow_hold_tls(const struct follow *follow);
/* Ends it, and waits for its threads. Before what the engine is made of goes. */
void follow_stop(struct follow *follow);
void follow_destroy(struct follow *follow);         /* NULL is fine */

/* REPLICAOF: follows another primary, or none (NULL). Blocks some milliseconds, a promotion as long as repl-promotion-timeout; not on a worker,
 * no locks. */
enum follow_result {
    FOLLOW_OK,
    FOLLOW_ALREADY,
    FOLLOW_NO_THREAD,               /* the system has none now; it is tried again from time to time */
    FOLLOW_LOADING,                 /* nothing was changed: the data is just being replaced */
};
enum follow_result follow_primary(struct follow *follow, const char *host, int port);

/* FAILOVER, on the primary: becomes a replica of one of its replicas, which is asked to take over at each try to connect. The data stays, so
 * follow_take_back can undo it. `lsn`: only if the history ends there. Blocks some milliseconds, as follow_primary. */
#define FOLLOW_ANY_LSN UINT64_MAX
enum follow_ask {
    FOLLOW_ASK_BEGUN,
    FOLLOW_ASK_LONGER,              /* nothing was changed: the history has more */
    FOLLOW_ASK_NO_PRIMARY,          /* nothing was changed: this server is a replica */
};
enum follow_ask follow_hand_over(struct follow *follow, const char *host, int port, uint64_t lsn);
enum follow_hand {
    FOLLOW_HAND_NONE,               /* nothing is handed over, or REPLICAOF came in between */
    FOLLOW_HAND_ASKED,
    FOLLOW_HAND_TAKEN,              /* it is the primary now */
    FOLLOW_HAND_REFUSED,            /* by an error, or the system gives no thread */
};
enum follow_hand follow_hand(const struct follow *follow);      /* any thread */
/* Ends what follow_hand_over began. True: this server is a primary again. False: the other one is, or REPLICAOF came in between. */
bool follow_take_back(struct follow *follow);

/* PSYNC with FAILOVER, on the replica: becomes a primary if its history is that of this ID. As long as follow_primary. */
enum follow_take_over { FOLLOW_TAKEN_OVER, FOLLOW_IS_PRIMARY, FOLLOW_HAS_OTHER_ID };
enum follow_take_over follow_take_over(struct follow *follow, struct bytes id);

/* The data has been loaded at the start: begins with what `replicaof` says. */
void follow_begin(struct follow *follow);

/* Another directive than replicaof was changed that the link needs (masterauth ...). Any thread. */
void follow_configure(struct follow *follow);

/* TLS can be used with the present configuration; else the log says why not. Any thread. */
bool follow_has_tls(struct follow *follow);

/* About ten times a second, on the main worker. */
void follow_cron(struct follow *follow);

/* The link as a client, as CLIENT LIST shows it. */
struct follow_client {
    uint64_t id;
    char address[ENDPOINT_SIZE], local_address[ENDPOINT_SIZE];
    int fd, db;
    int64_t created_us, active_us;  /* monotonic */
    const struct command *last_command;     /* NULL: none yet */
};
/* False: it is not connected, or has no data yet. */
bool follow_client(struct follow *follow, struct follow_client *client);
/* Breaks the connection of this client, which comes back. False: it is not there any more. */
bool follow_kill(struct follow *follow, uint64_t id);

/* How the last full synchronization was received. */
enum follow_sync { FOLLOW_SYNC_NONE, FOLLOW_SYNC_RDB, FOLLOW_SYNC_IMAGE };

struct follow_view {
    char host[FOLLOW_HOST_SIZE];    /* "": no primary */
    int port;
    enum link_state state;
    bool is_syncing;                /* an RDB is received or loaded */
    int64_t io_s;                   /* since something came from the primary; -1: nothing did yet */
    int64_t applied, received;      /* offsets */
    int64_t sync_received, sync_total;      /* bytes of the RDB; total -1: not known */
    uint64_t errors;                /* of commands in the stream */
    enum follow_sync last_sync;
};
void follow_view(struct follow *follow, struct follow_view *view);

#endif
