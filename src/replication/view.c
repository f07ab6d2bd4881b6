#include "replication/view.h"

#include <stdio.h>

#include "engine/role.h"
#include "replication/failover.h"
#include "replication/follow.h"

static enum view_link link_of(const struct follow_view *follow)
{
    switch (follow->state) {
    case LINK_WAITING: return VIEW_LINK_CONNECT;
    case LINK_CONNECTING: return VIEW_LINK_CONNECTING;
    case LINK_HANDSHAKE: return VIEW_LINK_HANDSHAKE;
    case LINK_SYNC: return VIEW_LINK_SYNC;
    case LINK_CONNECTED: return follow->is_syncing ? VIEW_LINK_SYNC : VIEW_LINK_CONNECTED;
    }
    return VIEW_LINK_CONNECT;
}

static const char *name_of_sync(enum follow_sync sync)
{
    static const char *const names[] = { [FOLLOW_SYNC_NONE] = "none", [FOLLOW_SYNC_RDB] = "rdb", [FOLLOW_SYNC_IMAGE] = "image" };

    return names[sync];
}

static void view_upstream(struct engine *engine, struct view_upstream *upstream)
{
    struct follow_view follow;

    follow_view(engine->replication.follow, &follow);
    *upstream = (struct view_upstream){
        .port = follow.port, .link = link_of(&follow), .last_io_s = role_link_is_up(engine) ? follow.io_s : -1,
        .link_down_s = role_link_down_s(engine), .received = follow.received, .applied = follow.applied, .is_syncing = follow.is_syncing,
        .sync_size = follow.sync_total, .sync_received = follow.sync_received, .sync_last_io_s = follow.io_s,
        .last_sync = name_of_sync(follow.last_sync),
    };
    snprintf(upstream->host, sizeof(upstream->host), "%s", follow.host);
}

void replication_view(struct engine *engine, struct replication_view *view)
{
    *view = (struct replication_view){ .is_replica = role_is_replica(engine), .good_replicas = engine->role.good_replicas,
        .failover = failover_state(engine->replication.failover) };
    history_point(&engine->history, &view->point);
    primary_stats(engine, &view->stats);
    view->replica_count = primary_view(engine->replication.primary, view->replicas, VIEW_REPLICAS);
    if (view->replica_count == VIEW_REPLICAS)
        view->replica_count = primary_count(engine->replication.primary);
    if (view->is_replica)
        view_upstream(engine, &view->upstream);
}

/* The three numbers are not of one moment. */
int64_t view_client_count(const struct engine *engine)
{
    struct follow_client link;
    int64_t count = engine->clients.count - primary_count(engine->replication.primary) + follow_client(engine->replication.follow, &link);

    return count > 0 ? count : 0;
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
