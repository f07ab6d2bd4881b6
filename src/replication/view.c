#include "replication/view.h"

#include "engine/role.h"

void replication_view(struct engine *engine, struct replication_view *view)
{
    *view = (struct replication_view){ .is_replica = role_is_replica(engine), .good_replicas = engine->role.good_replicas };
    history_point(&engine->history, &view->point);
    primary_stats(engine, &view->stats);
    view->replica_count = primary_view(engine->primary, view->replicas, VIEW_REPLICAS);
    if (view->replica_count == VIEW_REPLICAS)
        view->replica_count = primary_count(engine->primary);
    if (view->is_replica)
        follow_view(engine->follow, &view->upstream);
}

const char *view_failover_name(enum view_failover failover)
{
    static const char *const names[] = {
        [VIEW_NO_FAILOVER] = "no-failover", [VIEW_FAILOVER_WAITS] = "waiting-for-sync", [VIEW_FAILOVER_RUNS] = "failover-in-progress",
    };

    return names[failover];
}

const char *view_state_name(enum replica_state state)
{
    if (state == REPLICA_ONLINE)
        return "online";
    return state == REPLICA_RECEIVES || state == REPLICA_LOADS ? "send_bulk" : "wait_bgsave";
}
