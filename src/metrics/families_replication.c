/* Metrics of replication and of the cluster. */
#include "metrics/families.h"

#include <stdio.h>

#include "cluster/cluster.h"
#include "cluster/topology.h"
#include "engine/role.h"

enum { REPLICA_NAME_SIZE = REPLICA_IP_SIZE + 16 };

static void write_link(struct exposition *out, const struct replication_view *view)
{
    const struct view_upstream *link = &view->upstream;

    family_gauge(out, "kelvin_replication_link_up", NULL, "1 on a replica whose link to its primary is up.", view->is_replica && link->link == VIEW_LINK_CONNECTED);
    family_gauge(out, "kelvin_replication_link_down_seconds", "seconds", "How long the link to the primary has been down; 0: it is up, or this is a primary.",
        view->is_replica && link->link_down_s > 0 ? (double)link->link_down_s : 0);
    family_gauge(out, "kelvin_replication_syncing", NULL, "1 while a full synchronization from the primary is received or loaded.", view->is_replica && link->is_syncing);
    family_gauge(out, "kelvin_replication_received_offset_bytes", "bytes", "Offset in the primary's stream up to which it was received.",
        view->is_replica ? (double)link->received : (double)view->point.offset);
}

/* "ip:port". One with IPv6 has brackets. */
static void name_replica(const struct replica_view *replica, char name[REPLICA_NAME_SIZE])
{
    bool is_six = strchr(replica->ip, ':') != NULL;

    snprintf(name, REPLICA_NAME_SIZE, "%s%s%s:%d", is_six ? "[" : "", replica->ip, is_six ? "]" : "", replica->port);
}

/* Two replicas behind one address would be two samples of one series. */
static bool is_first_of_name(const struct replication_view *view, int index)
{
    for (int i = 0; i < index; i++) {
        if (strcmp(view->replicas[i].ip, view->replicas[index].ip) == 0 && view->replicas[i].port == view->replicas[index].port)
            return false;
    }
    return true;
}

static void write_replicas(struct exposition *out, const struct replication_view *view)
{
    static const struct metric families[] = {
        { "kelvin_replication_replica_lag_bytes", METRIC_GAUGE, "bytes", "What a replica has not acknowledged of the stream." },
        { "kelvin_replication_replica_lag_seconds", METRIC_GAUGE, "seconds", "Time since a replica's last acknowledgement." },
        { "kelvin_replication_replica_online", METRIC_GAUGE, NULL, "1 for a replica that is sent the stream; 0 while it is synchronized in full." },
    };
    char name[REPLICA_NAME_SIZE];

    for (int family = 0; family < 3; family++) {
        exposition_begin(out, &families[family]);
        for (int i = 0; i < view_shown(view); i++) {
            const struct replica_view *replica = &view->replicas[i];
            bool is_online = replica->state == REPLICA_ONLINE;
            double numbers[] = { (double)view_lag_bytes(view, replica), is_online ? (double)replica->lag_s : 0, is_online };

            if (!is_first_of_name(view, i))
                continue;
            name_replica(replica, name);
            exposition_number(out, &(struct label){ "replica", bytes_of_string(name) }, 1, numbers[family]);
        }
    }
}

void families_replication(struct exposition *out, const struct readings *readings)
{
    struct engine *engine = readings->engine;
    const struct replication_view *view = &readings->replication;
    const struct primary_stats *stats = &view->stats;

    family_gauge(out, "kelvin_replication_is_replica", NULL, "1 if this server is a replica.", view->is_replica);
    write_link(out, view);
    family_gauge(out, "kelvin_replication_offset_bytes", "bytes", "Offset of the end of the stream; on a replica of what was applied.", (double)view->point.offset);
    family_gauge(out, "kelvin_replication_replicas", NULL, "Replicas that are connected.", view->replica_count);
    family_gauge(out, "kelvin_replication_good_replicas", NULL, "Replicas that are online and have acknowledged lately.", view->good_replicas);
    write_replicas(out, view);
    family_labelled(out, &(struct metric){ "kelvin_replication_syncs", METRIC_COUNTER, NULL, "Requests of replicas to continue or to be synchronized." }, "result",
        (struct family_sample[]){
            { "full", (double)stats->full }, { "partial", (double)stats->partial }, { "partial_refused", (double)stats->refused },
        }, 3);
    family_gauge(out, "kelvin_replication_backlog_memory_bytes", "bytes", "Memory of the backlog.", (double)stats->backlog_memory);
    family_gauge(out, "kelvin_replication_backlog_disk_bytes", "bytes", "Files of the backlog.", (double)stats->backlog_disk);
    family_counter(out, "kelvin_replication_input_bytes", "bytes", "Bytes that a primary has sent.", (double)engine->replica_input);
    family_counter(out, "kelvin_replication_output_bytes", "bytes", "Bytes that were sent to replicas.", (double)engine_stat(engine, STAT_REPLICA_OUTPUT));
}

static void write_topology(struct exposition *out, struct cluster *cluster)
{
    struct topology *topology = cluster_topology(cluster);
    int owned = 0, assigned = 0;

    for (int slot = 0; slot < SLOT_COUNT; slot++) {
        assigned += topology->owners[slot] >= 0;
        owned += topology->owners[slot] == topology->myself;
    }
    family_gauge(out, "kelvin_cluster_state", NULL, "1 while the cluster is ok, as this node sees it.", topology->is_ok);
    family_gauge(out, "kelvin_cluster_nodes", NULL, "Nodes that this node knows.", topology->count);
    family_gauge(out, "kelvin_cluster_slots_assigned", NULL, "Slots that some node has.", assigned);
    family_gauge(out, "kelvin_cluster_slots_owned", NULL, "Slots that this node has.", owned);
    topology_release(topology);
}

void families_cluster(struct exposition *out, const struct readings *readings)
{
    struct cluster *cluster = readings->engine->replication.cluster;
    struct cluster_totals totals = cluster_totals(cluster);

    family_gauge(out, "kelvin_cluster_enabled", NULL, "1 if this server is a node of a cluster.", cluster != NULL);
    if (cluster == NULL)
        return;
    write_topology(out, cluster);
    family_gauge(out, "kelvin_cluster_links", NULL, "Connections of the cluster's bus.", (double)totals.link_count);
    family_gauge(out, "kelvin_cluster_link_buffer_bytes", "bytes", "What waits to be sent on them.", (double)totals.link_buffer_bytes);
}
