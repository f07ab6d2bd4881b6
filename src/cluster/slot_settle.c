#include "cluster/slot_settle.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/text.h"
#include "cluster/managed_move.h"
#include "engine/job.h"
#include "persist/aof.h"
#include "replication/primary.h"

enum {
    VERSION_MS = 60000,             /* for the controller's topology to reach both nodes */
    ACK_MS = 1,
};

bool slot_settle_compare_versions(struct slot_run *run, bool *is_due)
{
    struct topology *topology = cluster_topology(run->cluster);
    int64_t now_ms = clock_mono_us() / 1000;

    *is_due = !run->is_managed || run->epoch == topology->version;
    topology_release(topology);
    if (run->ready_ms == 0)
        run->ready_ms = now_ms;
    return *is_due || now_ms - run->ready_ms < VERSION_MS || slot_run_fail(run, "the other node has another version of the topology");
}

/* Saved, and said to this node's replicas. */
static bool let_take_managed(struct slot_run *run)
{
    struct cluster *cluster = run->cluster;
    struct bus *bus = cluster_lock(cluster);
    bool is_same = bus->members->current_epoch == run->epoch && bus->is_ok;

    if (is_same)
        bus_let_take(bus, run->epoch);
    if (cluster_unlock(cluster) != STATUS_OK)
        return slot_run_fail(run, "nodes.conf can't be saved");
    return is_same || slot_run_fail(run, "the topology is another one, or the cluster is down");
}

/* The replicas of that node, by the topology, have saved what they have acknowledged of the stream, but for `except`. */
static bool have_saved(struct slot_run *run, const struct node_id *of, const struct node_id *except)
{
    static const struct bytes words[] = { BYTES("CLUSTER"), BYTES("SAVECONFIG") };
    struct topology *topology = cluster_topology(run->cluster);
    bool have = true;

    for (int i = 0; i < topology->count && have; i++) {
        struct peer_link peer;
        char reply[SLOT_RUN_WORD_SIZE];

        if (!slot_run_is_replica(topology, i, of) || node_id_equal(&topology->nodes[i].id, except))
            continue;
        peer_link_init(&peer, run->engine, run->cluster, &topology->nodes[i].id, "a replica");
        have = (peer_link_open(&peer, SLOT_RUN_LINK_MS) && peer_link_ask(&peer, words, 2, reply, sizeof(reply))) || slot_run_fail(run, peer.message.text);
        peer_link_close(&peer);
    }
    topology_release(topology);
    return have;
}

/* Has the stream sent on: it does not get ahead of the log, which is written when a client has written something, or within a second. */
static void send_stream(struct engine *engine)
{
    if (engine->aof != NULL)
        aof_request_sync(engine->aof, history_end(&engine->history));
}

/* Any of them may be promoted next, and would serve what it does not know to have been given away. */
static bool await_own_replicas(struct slot_run *run)
{
    struct engine *engine = run->engine;
    struct topology *topology = cluster_topology(run->cluster);
    struct node_id own = topology->nodes[topology->myself].id;
    uint64_t lsn = history_end(&engine->history);
    int64_t begin_us = clock_mono_us(), wanted = slot_run_count_replicas(run, &own, &own);
    int count;

    topology_release(topology);
    (void)primary_ask(engine);
    send_stream(engine);
    while (primary_lagging(engine, lsn, false, &count) > 0 || count < wanted) {
        if (*run->stopping || job_must_end(engine) || clock_mono_us() - begin_us > SLOT_RUN_SYNC_MS * 1000LL)
            return slot_run_fail(run, "a replica of this node does not reply: it would not know that the slots are given away");
        waiting_wait(run->changed, waiting_version(run->changed), ACK_MS);
    }
    return have_saved(run, &own, &own);
}

/* A node has the slots, and has just said so: its replicas know it, too, whichever of them is promoted or has been promoted already. Until then this node keeps the keys. `to`: knows
 * it anyway. */
static bool is_confirmed(struct slot_run *run, const struct node_id *node, const struct node_id *to)
{
    char wanted[TEXT_INT_SIZE], limit[TEXT_INT_SIZE], reply[SLOT_RUN_WORD_SIZE];
    int64_t count = slot_run_count_replicas(run, node, to);
    struct bytes words[] = { BYTES("WAIT"), bytes_of(wanted, text_of_int(count, wanted)), bytes_of(limit, text_of_int(SLOT_RUN_SYNC_MS, limit)) };

    if (count == 0)
        return true;
    return peer_link_ask(&run->peer, words, 3, reply, sizeof(reply)) && strtoll(reply + 1, NULL, 10) >= count && have_saved(run, node, to);
}

enum slot_fate slot_settle_take(struct slot_run *run)
{
    char version[SLOT_RUN_WORD_SIZE], reply[SLOT_RUN_WORD_SIZE];

    if (!let_take_managed(run) || !await_own_replicas(run))
        return SLOT_NOT_TAKEN;
    snprintf(version, sizeof(version), "%llu", (unsigned long long)run->epoch);
    return slot_run_ask(run, "TAKE", version, reply, sizeof(reply)) && is_confirmed(run, &run->peer.node, &run->peer.node) ? SLOT_TAKEN : SLOT_FATE_UNKNOWN;
}

/* Asks a node whether it has the slots, which `to` was to take; if not, it will not take them. `receipt`: its number of the migration, 0 if it has none. */
static enum slot_fate ask_fate(struct slot_run *run, const struct node_id *node, const struct node_id *to, uint64_t receipt)
{
    struct node_id target = run->peer.node;
    enum slot_fate fate;

    snprintf(run->receipt, sizeof(run->receipt), "%llu", (unsigned long long)receipt);
    run->peer.node = *node;
    fate = slot_run_look_up(run);
    if (fate == SLOT_TAKEN && !is_confirmed(run, node, to))
        fate = SLOT_FATE_UNKNOWN;
    run->peer.node = target;
    return fate;
}

/* The primary of the node's shard, if that is another node now. */
static bool find_successor(const struct topology *topology, const struct node_id *id, struct node_id *successor)
{
    for (int i = 0; i < topology->count; i++) {
        if (!node_id_equal(&topology->nodes[i].id, id) || topology->nodes[i].master < 0)
            continue;
        *successor = topology->nodes[topology->nodes[i].master].id;
        return true;
    }
    return false;
}

/* The slots that may have been taken, as the present topology has them. */
struct doubt {
    bool is_left;                   /* some of it is still this shard's */
    bool is_primary;                /* this node is */
    bool is_theirs;                 /* none is left, and a topology has given the first one to the other node's shard */
    struct node_id to, successor;   /* of it */
    uint64_t receipt;
    bool has_successor;
};

static struct doubt look_at_doubt(struct slot_run *run)
{
    struct topology *topology = cluster_topology(run->cluster);
    struct doubt doubt = { .is_left = topology->handed_epoch != 0, .is_primary = topology->nodes[topology->myself].master < 0, .to = topology->handed_to,
        .receipt = topology->handed_receipt };
    struct node_id owner, successor;
    struct slot_range range;

    if (doubt.is_left)
        run->slots = topology->handed_over;
    doubt.has_successor = find_successor(topology, &doubt.to, &doubt.successor);
    if (slots_next(&run->slots, 0, &range) && topology->owners[range.first] >= 0) {
        owner = topology->nodes[topology->owners[range.first]].id;
        doubt.is_theirs = node_id_equal(&owner, &run->peer.node) || (find_successor(topology, &run->peer.node, &successor) && node_id_equal(&owner, &successor));
    }
    topology_release(topology);
    return doubt;
}

bool slot_settle(struct slot_run *run, enum slot_fate fate)
{
    struct cluster *cluster = run->cluster;

    run->leaves_doubt = true;
    while (!*run->stopping) {
        uint32_t version = waiting_version(run->changed);
        struct doubt doubt = look_at_doubt(run);

        if (fate != SLOT_NOT_TAKEN && !doubt.is_left)
            return doubt.is_theirs || slot_run_fail(run, "a later topology has given the slots to another node");
        if (!doubt.is_primary)
            return slot_run_fail(run, "this node is a replica now");
        if (fate == SLOT_FATE_UNKNOWN && doubt.has_successor)         /* its data is that of the shard, whatever the one before has */
            fate = ask_fate(run, &doubt.successor, &doubt.to, 0);
        else if (fate == SLOT_FATE_UNKNOWN)
            fate = ask_fate(run, &doubt.to, &doubt.to, doubt.receipt);
        if (fate == SLOT_NOT_TAKEN) {
            run->leaves_doubt = false;
            return slot_run_fail(run, "the other node has not taken the slots");
        }
        if (fate == SLOT_TAKEN) {
            managed_end_hand_over(cluster_lock(cluster));
            (void)cluster_unlock(cluster);          /* if it can't be saved, a start asks again */
            send_stream(run->engine);
            run->peer.message.text[0] = '\0';
            return true;
        }
        waiting_wait(run->changed, version, SLOT_RUN_AGAIN_MS);
    }
    return slot_run_fail(run, "the server ends");
}
