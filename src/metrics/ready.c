#include "metrics/ready.h"

#include <stddef.h>

#include "cluster/cluster.h"
#include "cluster/topology.h"
#include "engine/engine.h"
#include "engine/role.h"

static const struct reason loading = {
    "The data is being loaded.", "Wait until it is there; clients get -LOADING until then.",
}, stopping = {
    "The server is ending.", "Nothing, if that is wanted.",
}, syncing = {
    "A full synchronization from the primary is being loaded.", "Wait until it is there; clients get -LOADING until then.",
}, stale = {
    "The link to the primary is down, and replica-serve-stale-data is no.",
    "See whether the primary runs and is reached from here (INFO replication has its address). replica-serve-stale-data yes serves the data as they are.",
}, lease = {
    "The lease of this primary has ended.", "See why the controller of the cluster does not renew it.",
}, few_replicas = {
    "Fewer replicas than min-replicas-to-write are good: writes are refused.", "See why replicas are missing or lag (INFO replication), or lower min-replicas-to-write.",
}, log_fails = {
    "The log can't be written: writes are refused.",
    "Look at the disk of the log: the server's log file has the reason. Writes go on by themselves when the disk takes them again.",
}, dump_fails = {
    "The last dump has failed: writes are refused.", "The server's log file has the reason. After a BGSAVE that succeeds, or with stop-writes-on-bgsave-error no, writes go on.",
}, disk_is_full = {
    "The disk is full: writes are refused, but those that remove.", "Make room on the disk, or delete keys.",
}, memory_is_out = {
    "Memory is used up and can't be freed: writes are refused.",
    "Raise maxmemory, delete keys, or choose a maxmemory-policy that evicts. MEMORY DOCTOR says what has the memory.",
}, cluster_is_down = {
    "The cluster is down, as this node sees it.", "CLUSTER NODES says which nodes fail; CLUSTER INFO how many slots no node serves.",
};

static const struct reason *look_at_role(struct engine *engine)
{
    uint32_t bits = role_bits(engine);

    if (bits & ROLE_SYNCING)
        return &syncing;
    if (bits & ROLE_STALE)
        return &stale;
    if (bits & ROLE_LEASED && role_lease_has_ended(engine))
        return &lease;
    return bits & ROLE_FEW_REPLICAS ? &few_replicas : NULL;
}

static const struct reason *look_at_cluster(struct engine *engine)
{
    struct cluster *cluster = engine->replication.cluster;
    struct topology *topology;
    bool is_ok;

    if (cluster == NULL)
        return NULL;
    topology = cluster_topology(cluster);
    is_ok = topology->is_ok;
    topology_release(topology);
    return is_ok ? NULL : &cluster_is_down;
}

const struct reason *ready_look(struct engine *engine)
{
    const struct reason *reason;
    int number;

    if (engine->state == ENGINE_LOADING)
        return &loading;
    if (engine->state == ENGINE_STOPPING)
        return &stopping;
    reason = look_at_role(engine);
    if (reason != NULL)
        return reason;
    if (engine_disks_fail(engine, &number))
        return number != 0 ? &log_fails : &dump_fails;
    if (engine_disk_refuses_growth(engine))
        return &disk_is_full;
    if (memory_state(engine) == MEMORY_OUT && config_number(engine->config, CONFIG_MAXMEMORY_POLICY) == CONFIG_POLICY_NOEVICTION)
        return &memory_is_out;
    return look_at_cluster(engine);
}
