#include "replication/view.h"

#include <stdio.h>

#include "engine/role.h"

/* What the role and the configuration say of the primary. */
static void view_upstream(struct engine *engine, struct view_upstream *upstream, int64_t offset)
{
    struct buffer host = { 0 };
    bool is_up = role_link_is_up(engine);

    *upstream = (struct view_upstream){
        .link = is_up ? VIEW_LINK_CONNECTED : VIEW_LINK_CONNECT, .last_io_s = is_up ? 0 : -1, .link_down_s = role_link_down_s(engine),
        .received = offset, .applied = offset, .is_syncing = role_is_syncing(engine), .sync_size = -1, .sync_last_io_s = -1,
    };
    if (config_replicaof(engine->config, &host, &upstream->port))
        snprintf(upstream->host, sizeof(upstream->host), "%.*s", (int)host.size, host.data);
    buffer_release(&host);
}

void replication_view(struct engine *engine, struct replication_view *view)
{
    *view = (struct replication_view){ .is_replica = role_is_replica(engine), .good_replicas = engine->role.good_replicas };
    history_point(&engine->history, &view->point);
    primary_stats(engine, &view->stats);
    view->replica_count = primary_view(engine->primary, view->replicas, VIEW_REPLICAS);
    if (view->replica_count == VIEW_REPLICAS)
        view->replica_count = primary_count(engine->primary);
    if (view->is_replica)
        view_upstream(engine, &view->upstream, view->point.offset);
}

const char *view_link_name(enum view_link link)
{
    static const char *const names[] = {
        [VIEW_LINK_CONNECT] = "connect", [VIEW_LINK_CONNECTING] = "connecting", [VIEW_LINK_HANDSHAKE] = "handshake",
        [VIEW_LINK_SYNC] = "sync", [VIEW_LINK_CONNECTED] = "connected",
    };

    return names[link];
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
