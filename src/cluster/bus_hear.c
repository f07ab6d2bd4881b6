#include <string.h>

#include "cluster/bus_private.h"
#include "cluster/suspect.h"

/* --- Links */

void bus_link_opened(struct bus *bus, uint64_t number, int64_t now_ms)
{
    struct bus_link *link = bus_links_find(bus, number);

    if (link == NULL || link->is_open)
        return;
    bus_begin(bus, now_ms);
    link->is_open = true;
    link->opened_ms = bus->own->now_ms;
    link->node->is_connected = true;
    bus_gossip_ping(bus, link->node);
    if (link->node->flags & NODE_MEET)
        link->node->peer.is_met = true;
    link->node->flags &= (uint16_t)~NODE_MEET;
    bus_finish(bus);
}

/* A node that can't be connected is as silent as one that does not reply to a PING. */
void bus_link_closed(struct bus *bus, uint64_t number)
{
    struct bus_link *link = bus_links_find(bus, number);

    if (link == NULL)
        return;
    if (!link->is_open && link->node->ping_sent_ms == 0)
        link->node->ping_sent_ms = bus->own->now_ms;
    bus_links_remove(bus, number);
}

/* --- PING, PONG, MEET */

/* Notes the address by which others reach this node, unless it is an option. */
static void learn_own_address(struct bus *bus, const struct bus_message *message, const char *own_ip)
{
    struct node *myself = bus->members->myself;

    if (bus->options.ip[0] != '\0' || own_ip[0] == '\0' || (message->type != BUS_MEET && myself->ip[0] != '\0') || strcmp(myself->ip, own_ip) == 0)
        return;
    memset(myself->ip, 0, NODE_IP_SIZE);
    memcpy(myself->ip, own_ip, strnlen(own_ip, NODE_IP_SIZE - 1));
    bus_log(bus, "This node's address is %s", myself->ip);
    bus_note(bus, BUS_CHANGE_FILE | BUS_CHANGE_MAP);
}

static const char *sender_ip(const struct bus_message *message, const char *from_ip)
{
    return message->ip[0] != '\0' ? message->ip : from_ip;
}

/* A PING by a link that the sender opened. */
static void update_address(struct bus *bus, struct node *sender, const struct bus_message *message, const char *from_ip)
{
    const char *ip = sender_ip(message, from_ip);
    uint16_t port = bus->options.is_tls ? message->other_port : message->port, tls_port = bus->options.is_tls ? message->port : message->other_port;

    if (ip[0] == '\0' || strlen(ip) >= NODE_IP_SIZE || message->bus_port == 0 ||
        (sender->port == port && sender->tls_port == tls_port && sender->bus_port == message->bus_port && strcmp(sender->ip, ip) == 0))
        return;
    bus_links_close(bus, sender->peer.link);
    memset(sender->ip, 0, NODE_IP_SIZE);
    memcpy(sender->ip, ip, strlen(ip));
    sender->port = port;
    sender->tls_port = tls_port;
    sender->bus_port = message->bus_port;
    sender->flags &= (uint16_t)~NODE_NO_ADDRESS;
    bus_log(bus, "Node %.40s has a new address: %s:%u", sender->id.text, sender->ip, message->port);
    bus_note(bus, BUS_CHANGE_FILE | BUS_CHANGE_MAP);
}

static void meet_stranger(struct bus *bus, const struct bus_message *message, const char *from_ip)
{
    const char *ip = sender_ip(message, from_ip);

    if (ip[0] != '\0' && strlen(ip) < NODE_IP_SIZE && message->bus_port != 0)
        bus_gossip_start_handshake(bus, ip, message->port, message->other_port, message->bus_port, 0);
}

static void hear_ping(struct bus *bus, const struct bus_link *link, struct node *sender, const struct bus_message *message, const char *from_ip,
                      const char *own_ip)
{
    learn_own_address(bus, message, own_ip);
    if (sender == NULL && message->type == BUS_MEET)
        meet_stranger(bus, message, from_ip);
    bus_gossip_send(bus, link->number, BUS_PONG, message->message_flags & BUS_HAS_EXTENSIONS ? BUS_EXTENSIONS_SENT : BUS_EXTENSIONS_NOT);
    if (sender == NULL || sender == bus->members->myself || link->is_outgoing)
        return;
    sender->peer.is_met = false;
    update_address(bus, sender, message, from_ip);
}

/* The node at the other end of a new link says its ID. NULL: it was known already, or is this node; the link is closed. */
static struct node *end_handshake(struct bus *bus, struct bus_link *link, struct node *sender, const struct bus_message *message, const char *from_ip)
{
    struct node *node = link->node;

    if (sender != NULL) {
        if (sender != bus->members->myself)
            update_address(bus, sender, message, from_ip);
        bus_remove_node(bus, node);
        return NULL;
    }
    if (members_find(bus->members, &message->sender) != NULL)
        return NULL;                                    /* the random ID of another handshake */
    members_rename(bus->members, node, &message->sender);
    node->flags = (uint16_t)((node->flags & ~NODE_HANDSHAKE) | (message->flags & NODE_REPLICA ? NODE_REPLICA : NODE_MASTER));
    bus->own->handshake_count--;
    bus_note(bus, BUS_CHANGE_FILE | BUS_CHANGE_MAP);
    return node;
}

/* Another node has the address now. */
static void lose_address(struct bus *bus, struct node *node)
{
    bus_log(bus, "Another node than %.40s is at %s", node->id.text, node->ip);
    node->flags |= NODE_NO_ADDRESS;
    memset(node->ip, 0, NODE_IP_SIZE);
    node->port = node->tls_port = node->bus_port = 0;
    bus_links_close(bus, node->peer.link);
    bus_note(bus, BUS_CHANGE_FILE | BUS_CHANGE_MAP);
}

static void hear_pong(struct bus *bus, struct node *node)
{
    node->peer.has_replied = true;
    node->pong_ms = bus->own->now_ms;
    node->ping_sent_ms = 0;
    if (node->flags & NODE_PFAIL) {
        node->flags &= (uint16_t)~NODE_PFAIL;
        bus_note(bus, BUS_CHANGE_FILE | BUS_CHANGE_MAP);
    } else if (suspect_clear(node, bus->own->now_ms, bus->options.timeout_ms)) {
        bus_log(bus, "Node %.40s replies again", node->id.text);
        bus_note(bus, BUS_CHANGE_FILE | BUS_CHANGE_MAP);
    }
}

/* Notes that a node is a primary in this epoch. */
static void note_lead(struct bus *bus, struct node *node, uint64_t epoch)
{
    node->peer.led_ms = bus->own->now_ms;
    if (node->peer.said_epoch < epoch)
        node->peer.said_epoch = epoch;
}

/* Applies the claims of `about` as a third node has reported them. */
static void hear_hearsay(struct bus *bus, struct node *about, uint64_t epoch, const struct slots *slots)
{
    bool was_replica = about->flags & NODE_REPLICA;
    struct claim_outcome outcome;

    if (!claim_update(bus->members, about, epoch, slots, bus_role_following(bus), &outcome))
        return;
    if (was_replica)
        note_lead(bus, about, epoch);
    bus_note(bus, BUS_CHANGE_FILE | BUS_CHANGE_MAP);
    bus_role_apply_claim(bus, &outcome);
}

/* A primary that has become a replica says what its new master claims: if that one's own header is late, the slots would have no owner until it comes. */
static void hear_role(struct bus *bus, struct node *sender, const struct bus_message *message)
{
    struct node *master = node_id_is_none(&message->master) ? NULL : bus_known(bus, &message->master);

    if (node_id_is_none(&message->master)) {
        if (sender->flags & NODE_MASTER)
            return;
        members_set_primary(bus->members, sender);
        note_lead(bus, sender, message->current_epoch);
    } else {
        if (master == sender || (sender->flags & NODE_REPLICA && sender->master == master))
            return;
        if (master != NULL && sender->flags & NODE_MASTER)
            hear_hearsay(bus, master, message->config_epoch, message->slots);
        members_set_master(bus->members, sender, master);
    }
    bus_note(bus, BUS_CHANGE_FILE | BUS_CHANGE_MAP);
}

static void hear_claims(struct bus *bus, struct node *sender, const struct bus_message *message)
{
    struct claim_outcome outcome;

    if (!(sender->flags & NODE_MASTER))
        return;
    if (message->config_epoch > sender->config_epoch) {
        members_set_epoch(bus->members, sender, message->config_epoch);
        bus_note(bus, BUS_CHANGE_FILE | BUS_CHANGE_MAP);
    }
    claim_slots(bus->members, sender, message->config_epoch, message->slots, bus_role_following(bus), &outcome);
    bus_role_apply_claim(bus, &outcome);
}

/* A header from before one that this node has heard by the other link may not take back what that one said: its epoch is older; or it is of the candidate
 * that the new primary was in the same epoch. */
static bool is_old(const struct bus *bus, struct node *sender, const struct bus_message *message)
{
    bool is_demoted = sender->flags & NODE_MASTER && !node_id_is_none(&message->master);

    if (message->current_epoch < sender->peer.said_epoch)
        return true;
    if (message->current_epoch == sender->peer.said_epoch && is_demoted && sender->peer.led_ms != 0 &&
        bus->own->now_ms - sender->peer.led_ms < bus->options.timeout_ms / 2)
        return true;
    sender->peer.said_epoch = message->current_epoch;
    return false;
}

static void hear_configuration(struct bus *bus, struct node *sender, const struct bus_message *message)
{
    const struct node *newer;

    if (is_old(bus, sender, message))
        return;
    hear_role(bus, sender, message);
    hear_claims(bus, sender, message);
    newer = claim_newer_owner(bus->members, sender, message->config_epoch, message->slots);
    if (newer != NULL)
        bus_send_update(bus, sender, newer);
    if (claim_resolve_collision(bus->members, sender, message->config_epoch, bus->facts.offset)) {
        bus_log(bus, "Node %.40s has the same epoch: this one has %llu now", sender->id.text, (unsigned long long)bus->members->myself->config_epoch);
        bus_note(bus, BUS_CHANGE_PROMISE | BUS_CHANGE_MAP);
        bus_gossip_pong_to_all(bus);
    }
}

static void hear_greeting(struct bus *bus, struct bus_link *link, struct node *sender, const struct bus_message *message, const char *from_ip,
                          const char *own_ip)
{
    if (message->type != BUS_PONG)
        hear_ping(bus, link, sender, message, from_ip, own_ip);
    if (link->is_outgoing && link->node->flags & NODE_HANDSHAKE)
        sender = end_handshake(bus, link, sender, message, from_ip);
    if (sender == NULL || sender == bus->members->myself)
        return;
    sender->flags = (uint16_t)((sender->flags & ~NODE_NO_FAILOVER) | (message->flags & NODE_NO_FAILOVER));
    if (link->is_outgoing && message->type == BUS_PONG)
        hear_pong(bus, sender);
    hear_configuration(bus, sender, message);
    bus_gossip_hear(bus, sender, message);
    bus_gossip_hear_extensions(bus, sender, message);
}

/* --- Others */

static void hear_fail(struct bus *bus, struct node *sender, const struct bus_message *message)
{
    struct node *about = bus_known(bus, &message->about);

    if (about == NULL || about == sender || about->flags & (NODE_FAIL | NODE_MYSELF))
        return;
    suspect_set_failed(about, bus->own->now_ms);
    bus_log(bus, "Node %.40s has failed, says %.40s", about->id.text, sender->id.text);
    bus_note(bus, BUS_CHANGE_FILE | BUS_CHANGE_MAP);
}

static void hear_update(struct bus *bus, const struct bus_message *message)
{
    struct node *about = bus_known(bus, &message->about);

    if (about != NULL)
        hear_hearsay(bus, about, message->about_epoch, message->about_slots);
}

static void deliver(struct bus *bus, const struct bus_message *message)
{
    struct buffer *bytes = &bus->outcome.bytes;
    struct bus_action *action = bus_links_act(bus, BUS_DELIVER, 0);

    action->begin = bytes->size;
    action->size = message->channel.size;
    buffer_append_bytes(bytes, message->channel);
    action->text_begin = bytes->size;
    action->text_size = message->text.size;
    buffer_append_bytes(bytes, message->text);
    action->is_shard = message->type == BUS_PUBLISHSHARD;
}

static void hear_other(struct bus *bus, struct node *sender, const struct bus_message *message)
{
    switch (message->type) {
    case BUS_FAIL:
        hear_fail(bus, sender, message);
        break;
    case BUS_PUBLISH:
    case BUS_PUBLISHSHARD:
        deliver(bus, message);
        break;
    case BUS_FAILOVER_AUTH_REQUEST:
        bus_election_hear_request(bus, sender, message);
        break;
    case BUS_FAILOVER_AUTH_ACK:
        sender->peer.granted_epoch = message->current_epoch;
        break;
    case BUS_UPDATE:
        hear_update(bus, message);
        break;
    case BUS_MFSTART:
        bus_manual_hear_start(bus, sender);
        break;
    default:
        break;
    }
}

/* Notes what every header of a known node says. */
static void hear_header(struct bus *bus, struct node *sender, const struct bus_message *message)
{
    struct bus_manual *manual = &bus->own->manual;

    sender->peer.heard_ms = bus->own->now_ms;
    sender->offset = message->offset;
    if (message->current_epoch > bus->members->current_epoch) {
        bus->members->current_epoch = message->current_epoch;
        bus_note(bus, BUS_CHANGE_FILE);
    }
    if (message->message_flags & BUS_PAUSED && sender == bus->members->myself->master && manual->until_ms != 0 && !manual->knows_offset) {
        manual->knows_offset = true;
        manual->primary_offset = message->offset;
        bus_log(bus, "Manual failover: the primary's history ends at %llu", (unsigned long long)message->offset);
    }
}

void bus_received(struct bus *bus, uint64_t number, const struct bus_message *message, const char *from_ip, const char *own_ip, int64_t now_ms)
{
    struct bus_link *link = bus_links_find(bus, number);
    struct node *sender = bus_known(bus, &message->sender);
    bool is_greeting = message->type == BUS_PING || message->type == BUS_PONG || message->type == BUS_MEET;

    if (link == NULL || !link->is_open || message->type >= BUS_TYPE_COUNT)
        return;
    bus_begin(bus, now_ms);
    bus->own->received[message->type]++;
    if (link->is_outgoing && !(link->node->flags & NODE_HANDSHAKE) && link->node != sender) {
        if (is_greeting)
            lose_address(bus, link->node);
        bus_finish(bus);
        return;
    }
    if (sender != NULL && sender != bus->members->myself) {
        bus_links_recognize(bus, link, sender);
        hear_header(bus, sender, message);
        if (!is_greeting)
            hear_other(bus, sender, message);
    }
    if (is_greeting)
        hear_greeting(bus, link, sender, message, from_ip, own_ip);
    bus_finish(bus);
}
