/* View: what INFO and ROLE show of replication, as of one moment. Plain numbers and text; all memory is in the struct.
 *
 * Any thread; takes leaf locks for a short time.
 */
#ifndef KELVIN_REPLICATION_VIEW_H
#define KELVIN_REPLICATION_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "replication/follow.h"
#include "replication/primary.h"
#include "stream/history.h"

struct engine;

enum { VIEW_REPLICAS = 128 };

enum view_failover { VIEW_NO_FAILOVER, VIEW_FAILOVER_WAITS, VIEW_FAILOVER_RUNS };

struct replication_view {
    bool is_replica;
    struct follow_view upstream;        /* of a replica: its primary */
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

/* In the words of INFO and ROLE. */
const char *view_failover_name(enum view_failover failover);
const char *view_state_name(enum replica_state state);

#endif
