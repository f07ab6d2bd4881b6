/* View: what INFO and ROLE show of replication, as of one moment. Plain numbers and text; all memory is in the struct.
 *
 * Any thread; takes leaf locks for a short time.
 */
#ifndef KELVIN_REPLICATION_VIEW_H
#define KELVIN_REPLICATION_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "replication/primary.h"
#include "stream/history.h"

struct engine;

enum { VIEW_HOST_SIZE = 256, VIEW_REPLICAS = 128 };

/* State of the link to the primary, as ROLE names it. */
enum view_link { VIEW_LINK_CONNECT, VIEW_LINK_CONNECTING, VIEW_LINK_HANDSHAKE, VIEW_LINK_SYNC, VIEW_LINK_CONNECTED };

enum view_failover { VIEW_NO_FAILOVER, VIEW_FAILOVER_WAITS, VIEW_FAILOVER_RUNS };

/* The primary of a replica. */
struct view_upstream {
    char host[VIEW_HOST_SIZE];
    int port;
    enum view_link link;
    int64_t last_io_s;          /* since something came from the primary; -1: the link is down */
    int64_t link_down_s;        /* -1: it is up, or has not been up yet */
    int64_t received, applied;  /* offsets */
    bool is_syncing;            /* an RDB is being received or loaded: */
    int64_t sync_size;          /* -1: not known */
    int64_t sync_received;
    int64_t sync_last_io_s;
    const char *last_sync;      /* how the last full synchronization was received: none, rdb, image */
};

struct replication_view {
    bool is_replica;
    struct view_upstream upstream;
    enum view_failover failover;
    struct history_point point;         /* the end of the stream */
    struct primary_stats stats;
    int good_replicas;
    int replica_count;                  /* of all; the first VIEW_REPLICAS are in `replicas` */
    struct replica_view replicas[VIEW_REPLICAS];
};

void replication_view(struct engine *engine, struct replication_view *view);

/* How many of `replicas` are filled in. */
static inline int view_shown(const struct replication_view *view)
{
    return view->replica_count < VIEW_REPLICAS ? view->replica_count : VIEW_REPLICAS;
}

/* The offset that a replica has acknowledged; 0: none yet. */
static inline int64_t view_acknowledged(const struct replica_view *replica)
{
    return replica->offset > 0 ? replica->offset : 0;
}

/* Returns how much of the stream it has not acknowledged. */
static inline uint64_t view_lag_bytes(const struct replication_view *view, const struct replica_view *replica)
{
    int64_t lag = view->point.offset - view_acknowledged(replica);

    return lag > 0 ? (uint64_t)lag : 0;
}

/* Connections of clients, as INFO counts them: without replicas, and with a link to the primary that is up. */
int64_t view_client_count(const struct engine *engine);

/* In the words of INFO and ROLE. */
const char *view_link_name(enum view_link link);
const char *view_failover_name(enum view_failover failover);

#endif
