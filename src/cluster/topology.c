#include "cluster/topology.h"

#include <string.h>

#include "base/mem.h"

static bool is_shown(const struct node *node)
{
    return (node->flags & NODE_HANDSHAKE) == 0;
}

/* The table of the members is in the order of the IDs, and so is this one. -1: NULL, or not shown. */
static int index_of(const struct topology *topology, const struct node *node)
{
    int low = 0, high = topology->count;

    if (node == NULL)
        return -1;
    while (low < high) {
        int middle = low + (high - low) / 2, order = node_id_compare(&topology->nodes[middle].id, &node->id);

        if (order == 0)
            return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

static void copy_node(struct topology_node *to, const struct node *from, char **texts)
{
    to->id = from->id;
    to->shard_id = from->shard_id;
    to->flags = from->flags;
    memcpy(to->ip, from->ip, sizeof(to->ip));
    to->port = from->port;
    to->tls_port = from->tls_port;
    to->bus_port = from->bus_port;
    to->offset = from->offset;
    to->slot_count = from->slot_count;
    to->host_name = bytes_of(*texts, from->host_name.size);
    if (from->host_name.size > 0)
        memcpy(*texts, from->host_name.data, from->host_name.size);
    *texts += from->host_name.size;
}

static void copy_nodes(struct topology *topology, const struct members *members)
{
    size_t text_size = 0;
    char *texts;

    for (unsigned i = 0; i < members->count; i++)
        text_size += members->all[i]->host_name.size;
    topology->nodes = mem_zalloc(members->count * sizeof(*topology->nodes));
    topology->texts = texts = mem_alloc(text_size + 1);
    for (unsigned i = 0; i < members->count; i++) {
        if (is_shown(members->all[i]))
            copy_node(&topology->nodes[topology->count++], members->all[i], &texts);
    }
}

static void find_masters(struct topology *topology, const struct members *members)
{
    int at = 0;

    for (unsigned i = 0; i < members->count; i++) {
        if (is_shown(members->all[i]))
            topology->nodes[at++].master = index_of(topology, members->all[i]->master);
    }
}

/* A run of slots mostly has one owner. */
static void copy_owners(struct topology *topology, const struct members *members)
{
    const struct node *owner = NULL;
    int16_t index = -1;

    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        if (members->owners[slot] != owner) {
            owner = members->owners[slot];
            index = (int16_t)index_of(topology, owner);
        }
        topology->owners[slot] = index;
    }
}

struct topology *topology_create(const struct members *members, bool is_ok)
{
    struct topology *topology = mem_zalloc(sizeof(*topology));

    topology->references = 1;
    topology->is_ok = is_ok;
    topology->version = members->current_epoch;
    topology->has_leases = members->last_vote_epoch > 0;
    copy_nodes(topology, members);
    find_masters(topology, members);
    topology->received = members->received;
    topology->handed_over = members->handed_over;
    topology->handed_to = members->handed_to;
    topology->handed_epoch = members->handed_epoch;
    topology->handed_receipt = members->handed_receipt;
    topology->receipt = members->receipt;
    topology->myself = index_of(topology, members->myself);
    copy_owners(topology, members);
    memset(topology->moves, 0xff, sizeof(topology->moves));             /* -1 */
    for (unsigned i = 0; i < members->move_count; i++)
        topology->moves[members->moves[i].slot] = (int16_t)index_of(topology, members->moves[i].other);
    return topology;
}

struct topology *topology_keep(struct topology *topology)
{
    atomic_fetch_add_explicit(&topology->references, 1, memory_order_relaxed);
    return topology;
}

void topology_release(struct topology *topology)
{
    if (topology == NULL || atomic_fetch_sub_explicit(&topology->references, 1, memory_order_acq_rel) > 1)
        return;
    mem_free(topology->nodes);
    mem_free(topology->texts);
    mem_free(topology);
}

uint16_t topology_port(const struct topology_node *node, bool is_tls)
{
    if (node->port == 0 || (is_tls && node->tls_port != 0))
        return node->tls_port;
    return node->port;
}
