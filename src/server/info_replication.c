/* INFO replication, and the fields about replication of other sections. */
#include "server/info_rows.h"

#include <inttypes.h>

#include "base/mem.h"
#include "engine/engine.h"
#include "engine/role.h"
#include "replication/view.h"

static struct replication_view *take_view(struct engine *engine)
{
    struct replication_view *view = mem_alloc(sizeof(*view));

    replication_view(engine, view);
    return view;
}

static void write_sync(struct buffer *out, const struct view_upstream *upstream)
{
    int64_t size = upstream->sync_size > 0 ? upstream->sync_size : 0;

    info_number(out, "master_sync_total_bytes", size);
    info_number(out, "master_sync_read_bytes", upstream->sync_received);
    info_number(out, "master_sync_left_bytes", size - upstream->sync_received);
    info_float(out, "master_sync_perc", 100 * info_ratio((double)upstream->sync_received, (double)size));
    info_number(out, "master_sync_last_io_seconds_ago", upstream->sync_last_io_s);
}

static void write_upstream(struct buffer *out, const struct engine *engine, const struct view_upstream *upstream)
{
    bool is_up = upstream->link == VIEW_LINK_CONNECTED;

    info_text(out, "master_host", upstream->host);
    info_number(out, "master_port", upstream->port);
    info_text(out, "master_link_status", is_up ? "up" : "down");
    info_number(out, "master_last_io_seconds_ago", upstream->last_io_s);
    info_number(out, "master_sync_in_progress", upstream->is_syncing);
    info_number(out, "slave_read_repl_offset", upstream->received);
    info_number(out, "slave_repl_offset", upstream->applied);
    info_text(out, "master_last_sync", upstream->last_sync);
    if (upstream->is_syncing)
        write_sync(out, upstream);
    if (!is_up)
        info_number(out, "master_link_down_since_seconds", upstream->link_down_s);
    info_number(out, "slave_priority", config_number(engine->config, CONFIG_REPLICA_PRIORITY));
    info_number(out, "slave_read_only", config_number(engine->config, CONFIG_REPLICA_READ_ONLY));
    info_number(out, "replica_announced", config_number(engine->config, CONFIG_REPLICA_ANNOUNCED));
}

static void write_replicas(struct buffer *out, const struct engine *engine, const struct replication_view *view)
{
    info_number(out, "connected_slaves", view->replica_count);
    if (config_number(engine->config, CONFIG_MIN_REPLICAS_TO_WRITE) > 0 && config_number(engine->config, CONFIG_MIN_REPLICAS_MAX_LAG) > 0)
        info_number(out, "min_slaves_good_slaves", view->good_replicas);
    for (int i = 0; i < view_shown(view); i++) {
        const struct replica_view *replica = &view->replicas[i];

        buffer_append_format(out, "slave%d:ip=%s,port=%d,state=%s,offset=%" PRId64 ",lag=%" PRId64 "\r\n", i, replica->ip, replica->port,
            replica_state_name(replica->state), view_acknowledged(replica),
            replica->state == REPLICA_ONLINE ? replica->lag_s : 0);
    }
}

void info_replication(struct buffer *out, void *context)
{
    struct engine *engine = context;
    struct replication_view *view = take_view(engine);

    info_text(out, "role", view->is_replica ? "slave" : "master");
    if (view->is_replica)
        write_upstream(out, engine, &view->upstream);
    write_replicas(out, engine, view);
    info_text(out, "master_failover_state", view_failover_name(view->failover));
    info_text(out, "master_replid", view->point.identity.id);
    info_text(out, "master_replid2", view->point.identity.second_id);
    info_number(out, "master_repl_offset", view->point.offset);
    if (config_number(engine->config, CONFIG_CLUSTER_CONTROL) == CONFIG_CONTROL_MANAGED)        /* controllers compare it when they choose a replica */
        info_number(out, "sequence", role_is_syncing(engine) ? 0 : view->point.offset);
    info_number(out, "second_repl_offset", view->point.identity.second_offset);
    info_number(out, "repl_backlog_active", view->stats.has_backlog);
    info_number(out, "repl_backlog_size", (int64_t)view->stats.backlog_size);
    info_number(out, "repl_backlog_first_byte_offset", view->stats.backlog_first);
    info_number(out, "repl_backlog_histlen", (int64_t)view->stats.backlog_length);
    info_number(out, "repl_backlog_disk_bytes", (int64_t)view->stats.backlog_disk);
    mem_free(view);
}

void info_write_syncs(struct buffer *out, struct engine *engine)
{
    struct primary_stats stats;

    primary_stats(engine, &stats);
    info_number(out, "sync_full", (int64_t)stats.full);
    info_number(out, "sync_full_image", (int64_t)stats.full_image);
    info_number(out, "sync_partial_ok", (int64_t)stats.partial);
    info_number(out, "sync_partial_err", (int64_t)stats.refused);
}

/* A replica has no queue of its own: it is a position in the backlog. Its connection's buffer counts with those of all clients. */
void info_write_backlog_memory(struct buffer *out, struct engine *engine)
{
    struct primary_stats stats;

    primary_stats(engine, &stats);
    info_number(out, "mem_replication_backlog", (int64_t)stats.backlog_memory);
    info_number(out, "mem_total_replication_buffers", (int64_t)stats.backlog_memory);
    info_number(out, "mem_clients_slaves", 0);
}
