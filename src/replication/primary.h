/* Primary: this server's replicas. Each is a client that has called PSYNC or SYNC.
 *
 *   NEW -> WAITS -> RECEIVES (-> LOADS) -> ONLINE          or, if all that it lacks is in the backlog: NEW -> ONLINE
 *
 * WAITS: for a full synchronization to begin. RECEIVES: it is sent the RDB. LOADS: it has all of it, and the stream begins with its first ACK (an
 * RDB without a length ends where its reader looks for the mark, so nothing may follow at once). ONLINE: it is sent the stream.
 *
 * A replica has no queue of output. It is a position: in the file of the full synchronization (lifecycle/full_sync.h), then in the backlog
 * (stream/backlog.h). Whenever its socket takes more, its connection calls primary_fill. So memory does not grow with what a
 * replica lacks, and several replicas are served from one image.
 *
 * The stream goes out up to what the log covers: what a power cut could take from this server is not sent.
 *
 * Threads: a replica belongs to its client's worker; what other threads look at is atomic. Lock: primary (a leaf; guards the list).
 */
#ifndef KELVIN_REPLICATION_PRIMARY_H
#define KELVIN_REPLICATION_PRIMARY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "stream/history.h"

struct call;
struct client;
struct engine;
struct primary;
struct worker;

enum replica_state { REPLICA_NEW, REPLICA_WAITS, REPLICA_RECEIVES, REPLICA_LOADS, REPLICA_ONLINE };
/* In the words of INFO. */
const char *replica_state_name(enum replica_state state);
enum { REPLICA_IP_SIZE = 64 };

struct primary *primary_create(struct engine *engine);
void primary_destroy(struct primary *primary);      /* after the clients are gone; NULL is fine */

/* --- commands of replicas, on the client's worker --- */

/* Options that REPLCONF sets. */
enum replica_option {
    REPLICA_PORT,               /* listening-port */
    REPLICA_CAN_EOF,            /* capa eof */
    REPLICA_CAN_PSYNC2,         /* capa psync2 */
    REPLICA_CAN_IMAGE,          /* capa kelvin-image, Kelvin's own (replication/image_offer.h) */
    REPLICA_CAN_RDB12,          /* capa rdb12, Kelvin's own: RDB files with field times */
    REPLICA_RDB_ONLY,           /* rdb-only: no stream follows, and the connection is closed */
    REPLICA_WITHOUT_KEYS, REPLICA_WITHOUT_FUNCTIONS,        /* rdb-filter-only */
};
void replica_set(struct client *client, enum replica_option option, int64_t value);
void replica_set_ip(struct client *client, struct bytes ip);
/* REPLCONF ACK: it has applied the stream up to an offset; synced: and has that on its disk, -1: it does not say. */
void replica_acknowledge(struct client *client, int64_t offset, int64_t synced);

/* PSYNC id offset: `offset` is that of the first byte that it lacks. The reply is written to the client's output when it is due. */
void primary_psync(struct client *client, struct bytes id, int64_t offset);
/* SYNC, of tools and very old replicas. */
void primary_sync(struct client *client);

/* --- net --- */

/* Appends what is to be sent next, some hundred KiB at most, to the client's output, which is empty. REPLICA_FILL_CLOSE: the connection is to be
 * closed; the log says why. */
enum replica_fill { REPLICA_FILL_NOTHING, REPLICA_FILL_SOME, REPLICA_FILL_CLOSE };
enum replica_fill primary_fill(struct client *client, uint64_t covered);
/* In each turn, also while its socket is full: notes signs of life. False: the connection is to be closed. */
bool primary_attend(struct client *client);
/* The client is about to go. */
void primary_forget(struct client *client);
/* The turn of a worker has ended: workers with replicas are notified if there is something for them. */
void primary_end_turn(struct worker *worker);

/* repl-backlog-size or repl-backlog-disk-size was changed. Any thread. */
void primary_configure(struct engine *engine);
/* About ten times a second, on the first worker. */
void primary_cron(struct engine *engine);

/* --- what others ask; any thread --- */

struct replica_view {
    uint64_t client_id;
    char ip[REPLICA_IP_SIZE];
    int port;
    enum replica_state state;
    int64_t offset, synced;     /* acknowledged; -1: never */
    int64_t lag_s;              /* since its last ACK */
};
/* Fills in up to `max`; returns their number. */
int primary_view(struct primary *primary, struct replica_view *views, int max);
int primary_count(const struct primary *primary);
/* Full synchronizations that are under way, or whose replicas have not gone yet. */
int primary_sync_count(const struct primary *primary);
/* Replicas that have acknowledged the history up to `lsn`; `on_disk`: that have it on their disks. */
int primary_acknowledged(struct engine *engine, uint64_t lsn, bool on_disk);
/* Replicas that have not acknowledged the history up to `lsn`, of `*count`; `logs`: each is named in the log.
 * Bytes that have not been sent to them yet are sent. */
int primary_lagging(struct engine *engine, uint64_t lsn, bool logs, int *count);
/* The request for an ACK, as bytes of the stream. */
#define PRIMARY_GETACK "*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n"
/* Asks all replicas for an ACK now. Returns the LSN that the log has to cover first; 0: there are none, or a failover
 * is under way, which asks itself. */
uint64_t primary_ask(struct engine *engine);

struct primary_stats {
    uint64_t full, partial, refused;    /* requests of replicas: full, partial, and partial ones that were refused */
    uint64_t full_image;                /* of the full ones: by image, not by RDB */
    bool has_backlog;
    int64_t backlog_first;              /* offset of its first byte */
    uint64_t backlog_size, backlog_length, backlog_memory, backlog_disk;
};
void primary_stats(struct engine *engine, struct primary_stats *stats);

/* From the first replica on, and on a replica, the stream is kept. Both with all partitions locked; become: it is another stream from here
 * on, at `offset` of the stream `id`. False: there still are replicas, or what they were sent. */
void primary_need_backlog(struct engine *engine);
/* The same without locks, and the backlog, which is there then, stays until primary_release_backlog: for a reader that is no replica's. It counts as a
 * synchronization: this server does not become a replica meanwhile. */
void primary_keep_backlog(struct engine *engine);
void primary_release_backlog(struct engine *engine);
bool primary_become(struct engine *engine, const char *id, int64_t offset, int db);

/* Disconnects all: the stream is another one (a new primary), or this server has no data that can be given away. Any thread. */
void primary_drop_all(struct primary *primary);

#endif
