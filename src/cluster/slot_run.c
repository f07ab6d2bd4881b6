#include "cluster/slot_run.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

bool slot_run_fail(struct slot_run *run, const char *text) { return peer_link_fail(&run->peer, text); }

bool slot_run_ask(struct slot_run *run, const char *what, const char *more, char *reply, size_t room)
{
    struct bytes words[] = { BYTES("CLUSTER"), BYTES("RECEIVESLOTS"), bytes_of_string(what), bytes_of_string(run->receipt),
                             more != NULL ? bytes_of_string(more) : BYTES("") };

    return peer_link_ask(&run->peer, words, more != NULL ? 5 : 4, reply, room);
}

bool slot_run_keep(struct slot_run *run)
{
    char reply[SLOT_RUN_WORD_SIZE];

    if (!slot_run_ask(run, "KEEP", NULL, reply, sizeof(reply)))
        return false;
    run->epoch = strtoull(reply + 1, NULL, 10);
    run->kept_ms = clock_mono_us() / 1000;
    return true;
}

bool slot_run_end(struct slot_run *run, char *reply, size_t room)
{
    struct topology *topology = cluster_topology(run->cluster);
    struct node_id own = topology->nodes[topology->myself].id;
    char slot[SLOT_RUN_WORD_SIZE];
    struct bytes words[] = { BYTES("CLUSTER"), BYTES("RECEIVESLOTS"), BYTES("END"), bytes_of_string(run->receipt), BYTES(""), bytes_of(own.text, NODE_ID_SIZE) };
    struct slot_range range = { 0, 0 };

    topology_release(topology);
    (void)slots_next(&run->slots, 0, &range);
    snprintf(slot, sizeof(slot), "%u", range.first);
    words[4] = bytes_of_string(slot);
    return peer_link_ask(&run->peer, words, run->is_managed ? 6 : 5, reply, room);
}

enum slot_fate slot_run_look_up(struct slot_run *run)
{
    struct message why = run->peer.message;
    enum slot_fate fate = SLOT_FATE_UNKNOWN;
    char reply[SLOT_RUN_WORD_SIZE];

    if (peer_link_open(&run->peer, SLOT_RUN_LINK_MS) && slot_run_end(run, reply, sizeof(reply)))
        fate = reply[1] == '1' ? SLOT_TAKEN : SLOT_NOT_TAKEN;
    run->peer.message = why;
    return fate;
}

bool slot_run_is_replica(const struct topology *topology, int index, const struct node_id *id)
{
    const struct topology_node *node = &topology->nodes[index];

    return node->master >= 0 && node_id_equal(&topology->nodes[node->master].id, id) && !(node->flags & NODE_FAIL);
}

int64_t slot_run_count_replicas(const struct slot_run *run, const struct node_id *of, const struct node_id *except)
{
    struct topology *topology = cluster_topology(run->cluster);
    int64_t count = 0;

    for (int i = 0; i < topology->count; i++)
        count += slot_run_is_replica(topology, i, of) && !node_id_equal(&topology->nodes[i].id, except);
    topology_release(topology);
    return count;
}
