#include "cluster/bus_private.h"
#include "cluster/suspect.h"

enum { TICKS_PER_SECOND = 10, RANDOM_PINGS = 5, UNREACHED_MAX = 256 };

static int64_t handshake_ms(const struct bus *bus)
{
    return bus->options.timeout_ms < BUS_HANDSHAKE_MS_MIN ? BUS_HANDSHAKE_MS_MIN : bus->options.timeout_ms;
}

/* Nodes may be removed on the way: from the end. */
static void end_handshakes(struct bus *bus)
{
    struct members *members = bus->members;

    for (unsigned i = members->count; i > 0; i--) {
        struct node *node = members->all[i - 1];

        if (node->flags & NODE_HANDSHAKE && bus->own->now_ms - node->peer.added_ms > handshake_ms(bus))
            bus_remove_node(bus, node);
    }
}

/* A message with the ID of a known node can make thousands of nodes known that are none. So links to nodes that have never replied are few at a time, or
 * they would take all the process' descriptors and threads for names; an administrator's MEET is not counted. */
static bool is_doubtful(const struct node *node)
{
    return !node->peer.has_replied && !(node->flags & NODE_MEET);
}

static unsigned count_doubtful(const struct bus_private *own)
{
    unsigned count = 0;

    for (unsigned i = 0; i < own->link_count; i++)
        count += own->links[i]->is_outgoing && is_doubtful(own->links[i]->node);
    return count;
}

/* Begins anywhere, so that each node's turn comes. */
static void keep_links(struct bus *bus)
{
    struct members *members = bus->members;
    unsigned from = (unsigned)random_below(&bus->own->random, members->count), doubtful = count_doubtful(bus->own);

    bus->own->suspect_count = 0;
    for (unsigned i = 0; i < members->count; i++) {
        struct node *node = members->all[(from + i) % members->count];

        bus->own->suspect_count += (node->flags & NODE_PFAIL) != 0;
        if (node->flags & (NODE_MYSELF | NODE_NO_ADDRESS) || node->ip[0] == '\0' || node->peer.link != 0 ||
            (is_doubtful(node) && doubtful >= UNREACHED_MAX))
            continue;
        doubtful += is_doubtful(node);
        bus_links_open(bus, node);
    }
}

/* Connections by which no node of the cluster has sent anything: their number is bounded. */
static void close_strangers(struct bus *bus)
{
    const struct bus_private *own = bus->own;

    for (unsigned i = own->link_count; i > 0 && own->stranger_count > 0; i--) {
        const struct bus_link *link = own->links[i - 1];

        if (!link->is_outgoing && link->node == NULL && own->now_ms - link->opened_ms > 2 * handshake_ms(bus))
            bus_links_close(bus, link->number);
    }
}

static void ping_random(struct bus *bus)
{
    struct members *members = bus->members;
    struct node *oldest = NULL;

    for (unsigned i = 0; i < RANDOM_PINGS; i++) {
        struct node *node = members->all[random_below(&bus->own->random, members->count)];

        if (node->is_connected && node->ping_sent_ms == 0 && !(node->flags & (NODE_MYSELF | NODE_HANDSHAKE)) &&
            (oldest == NULL || node->pong_ms < oldest->pong_ms))
            oldest = node;
    }
    if (oldest != NULL)
        bus_gossip_ping(bus, oldest);
}

/* A link that does not open. The node is as silent then as one that does not reply to a PING. */
static void give_up_opening(struct bus *bus, struct node *node, const struct bus_link *link)
{
    if (bus->own->now_ms - link->opened_ms <= bus->options.timeout_ms / 2)
        return;
    if (node->ping_sent_ms == 0)
        node->ping_sent_ms = bus->own->now_ms;
    bus_links_close(bus, link->number);
}

/* A link by which nothing comes, though a PING was sent: another connection may do. */
static void close_silent_link(struct bus *bus, struct node *node)
{
    const struct bus_link *link = node->peer.link != 0 ? bus_links_find(bus, node->peer.link) : NULL;
    int64_t now_ms = bus->own->now_ms, timeout_ms = bus->options.timeout_ms;

    if (link == NULL)
        return;
    if (!link->is_open)
        give_up_opening(bus, node, link);
    else if (now_ms - link->opened_ms > timeout_ms && node->ping_sent_ms != 0 && now_ms - node->ping_sent_ms > timeout_ms / 2 &&
             now_ms - node->peer.heard_ms > timeout_ms / 2)
        bus_links_close(bus, link->number);
}

static void suspect(struct bus *bus, struct node *node)
{
    int64_t silent_ms = bus->own->now_ms - (node->ping_sent_ms > node->peer.heard_ms ? node->ping_sent_ms : node->peer.heard_ms);

    if (node->ping_sent_ms == 0 || silent_ms <= bus->options.timeout_ms || node->flags & (NODE_PFAIL | NODE_FAIL))
        return;
    node->flags |= NODE_PFAIL;
    bus_note(bus, BUS_CHANGE_FILE | BUS_CHANGE_MAP);
    bus_gossip_judge(bus, node);
}

static void watch_node(struct bus *bus, struct node *node)
{
    const struct bus_manual *manual = &bus->own->manual;
    bool is_due = node->ping_sent_ms == 0 && bus->own->now_ms - node->pong_ms > bus->options.timeout_ms / 2;
    bool is_asking = manual->until_ms != 0 && node_id_equal(&manual->replica, &node->id);

    close_silent_link(bus, node);
    if (is_due || is_asking)
        bus_gossip_ping(bus, node);
    suspect(bus, node);
}

/* The primary of this replica may have become one itself, without a claim that says which node to follow. That has to last: an old message may say so. */
static void leave_chain(struct bus *bus)
{
    const struct node *myself = bus->members->myself, *master = myself->master;
    struct node *grand = master != NULL ? master->master : NULL;

    if (grand == NULL || grand == myself || !(grand->flags & NODE_MASTER))
        bus->own->chained_ms = 0;
    else if (bus->own->chained_ms == 0)
        bus->own->chained_ms = bus->own->now_ms;
    else if (bus->own->now_ms - bus->own->chained_ms > bus->options.timeout_ms)
        bus_role_follow(bus, grand);
}

void bus_tick(struct bus *bus, int64_t now_ms)
{
    struct bus_private *own = bus->own;
    struct members *members = bus->members;

    bus_begin(bus, now_ms);
    if (own->started_ms == 0)
        own->started_ms = own->now_ms;
    end_handshakes(bus);
    keep_links(bus);
    if (own->tick_count++ % TICKS_PER_SECOND == 0)
        ping_random(bus);
    for (unsigned i = 0; i < members->count; i++) {
        if (!(members->all[i]->flags & (NODE_MYSELF | NODE_NO_ADDRESS | NODE_HANDSHAKE)))
            watch_node(bus, members->all[i]);
    }
    leave_chain(bus);
    bus_receipt_step(bus);
    if (own->tick_count % TICKS_PER_SECOND == 0) {
        close_strangers(bus);
        bus_orphan_step(bus);
    }
    own->state_is_stale |= !bus->is_ok;
    bus_finish(bus);
}
