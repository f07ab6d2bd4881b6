#include <string.h>

#include "base/mem.h"
#include "cluster/bus_private.h"
#include "cluster/suspect.h"

enum { GOSSIP_MIN = 3, GOSSIP_MAX = 2000, HANDSHAKES_MAX = 1024, FORGOTTEN_MAX = 1024, FORGOTTEN_MS_MAX = 60000, PONG_AHEAD_MS_MAX = 500 };

/* --- What is sent */

static void add_gossip(struct bus *bus, size_t begin, struct node *node)
{
    int64_t skew_ms = bus->own->real_ms - bus->own->now_ms;
    struct bus_gossip gossip = {
        .id = node->id, .port = bus->options.is_tls ? node->tls_port : node->port, .other_port = bus->options.is_tls ? node->port : node->tls_port,
        .ping_sent_s = node->ping_sent_ms != 0 ? (uint32_t)((node->ping_sent_ms + skew_ms) / 1000) : 0,
        .pong_s = node->pong_ms != 0 ? (uint32_t)((node->pong_ms + skew_ms) / 1000) : 0, .bus_port = node->bus_port, .flags = node->flags,
    };

    memcpy(gossip.ip, node->ip, NODE_IP_SIZE);
    bus_message_add_gossip(&bus->outcome.bytes, begin, &gossip);
    node->peer.gossip_stamp = bus->own->gossip_stamp;
}

/* Suspected nodes are added by themselves. */
static bool is_worth_gossip(const struct node *node)
{
    return !(node->flags & (NODE_MYSELF | NODE_PFAIL | NODE_HANDSHAKE | NODE_NO_ADDRESS)) && (node->is_connected || node->slot_count > 0);
}

static unsigned add_random_gossip(struct bus *bus, size_t begin)
{
    struct members *members = bus->members;
    unsigned wanted = members->count / 10 < GOSSIP_MIN ? GOSSIP_MIN : members->count / 10, added = 0;

    for (unsigned tries = wanted * 3; tries > 0 && added < wanted && added + 2 < members->count; tries--) {
        struct node *node = members->all[random_below(&bus->own->random, members->count)];

        if (!is_worth_gossip(node) || node->peer.gossip_stamp == bus->own->gossip_stamp)
            continue;
        add_gossip(bus, begin, node);
        added++;
    }
    return added;
}

/* Mentions all suspected nodes, so that the majority agrees soon. */
static void add_suspects(struct bus *bus, size_t begin, unsigned added)
{
    struct members *members = bus->members;
    unsigned from = (unsigned)random_below(&bus->own->random, members->count);

    for (unsigned i = 0; i < members->count && added < GOSSIP_MAX && bus->own->suspect_count > 0; i++) {
        struct node *node = members->all[(from + i) % members->count];

        if (!(node->flags & NODE_PFAIL) || node->flags & (NODE_HANDSHAKE | NODE_NO_ADDRESS))
            continue;
        add_gossip(bus, begin, node);
        added++;
    }
}

static void add_extensions(struct bus *bus, size_t begin)
{
    const struct bus_private *own = bus->own;
    const struct node *myself = bus->members->myself;
    struct buffer *out = &bus->outcome.bytes;

    if (myself->host_name.size > 0)
        bus_message_add_host_name(out, begin, buffer_bytes(&myself->host_name));
    if (myself->name.size > 0)
        bus_message_add_name(out, begin, buffer_bytes(&myself->name));
    for (unsigned i = 0; i < own->forgotten_count; i++) {
        if (own->forgotten[i].until_ms > own->now_ms)
            bus_message_add_forgotten(out, begin, &own->forgotten[i].id, (uint64_t)(own->forgotten[i].until_ms - own->now_ms + 999) / 1000);
    }
    bus_message_add_shard_id(out, begin, &myself->shard_id);
}

void bus_gossip_send(struct bus *bus, uint64_t link, enum bus_type type, enum bus_extensions extensions)
{
    struct buffer *out = &bus->outcome.bytes;
    struct bus_message message;
    size_t begin;

    bus_send_header(bus, type, &message);
    message.message_flags |= BUS_HAS_EXTENSIONS;        /* this node knows them: that is how two of this kind learn of each other */
    begin = bus_message_write(&message, out);
    bus->own->gossip_stamp++;
    add_suspects(bus, begin, add_random_gossip(bus, begin));
    if (extensions == BUS_EXTENSIONS_SENT)
        add_extensions(bus, begin);
    bus_send_bytes(bus, link, type, begin, out->size - begin);
}

void bus_gossip_ping(struct bus *bus, struct node *node)
{
    bool is_meet = node->flags & NODE_MEET || node->peer.is_met;

    if (!node->is_connected || bus_is_silent(bus))          /* no reply would come to one that is not sent */
        return;
    bus_gossip_send(bus, node->peer.link, is_meet ? BUS_MEET : BUS_PING, node->peer.takes_extensions ? BUS_EXTENSIONS_SENT : BUS_EXTENSIONS_NOT);
    if (node->ping_sent_ms == 0)
        node->ping_sent_ms = bus->own->now_ms;
}

static void send_pong(struct bus *bus, const struct node *node)
{
    if (node->is_connected && !(node->flags & NODE_HANDSHAKE))
        bus_gossip_send(bus, node->peer.link, BUS_PONG, node->peer.takes_extensions ? BUS_EXTENSIONS_SENT : BUS_EXTENSIONS_NOT);
}

void bus_gossip_pong_to_all(struct bus *bus)
{
    for (unsigned i = 0; i < bus->members->count; i++)
        send_pong(bus, bus->members->all[i]);
}

void bus_gossip_pong_to_shard(struct bus *bus)
{
    const struct members *members = bus->members;

    for (unsigned i = 0; i < members->count; i++) {
        if (members->all[i]->master != NULL && (members->all[i]->master == members->myself || members->all[i]->master == members->myself->master))
            send_pong(bus, members->all[i]);
    }
}

/* --- What is heard */

void bus_gossip_judge(struct bus *bus, struct node *node)
{
    if (!suspect_judge(bus->members, node, bus->own->now_ms, bus->options.timeout_ms))
        return;
    bus_log(bus, "Node %.40s has failed: a majority does not reach it", node->id.text);
    bus_send_fail(bus, node);
    bus_note(bus, BUS_CHANGE_FILE | BUS_CHANGE_MAP);
}

static bool says_failed(const struct bus_gossip *gossip)
{
    return (gossip->flags & (NODE_PFAIL | NODE_FAIL)) != 0;
}

static void hear_report(struct bus *bus, struct node *sender, struct node *about, const struct bus_gossip *gossip)
{
    if (!(sender->flags & NODE_MASTER) || about == sender)
        return;
    if (says_failed(gossip)) {
        suspect_report(about, sender, bus->own->now_ms);
        bus_gossip_judge(bus, about);
    } else {
        suspect_withdraw(about, sender);
    }
}

/* A PONG that another got is as good as one that this node got, if all is well. */
static void hear_pong_time(struct bus *bus, struct node *about, const struct bus_gossip *gossip)
{
    int64_t pong_ms = (int64_t)gossip->pong_s * 1000 - (bus->own->real_ms - bus->own->now_ms);

    if (says_failed(gossip) || about->ping_sent_ms != 0 || suspect_report_count(about, bus->own->now_ms, bus->options.timeout_ms) > 0)
        return;
    if (pong_ms <= bus->own->now_ms + PONG_AHEAD_MS_MAX && pong_ms > about->pong_ms)
        about->pong_ms = pong_ms;
}

static void set_address(struct bus *bus, struct node *node, const struct bus_gossip *gossip)
{
    memcpy(node->ip, gossip->ip, NODE_IP_SIZE);
    node->port = bus->options.is_tls ? gossip->other_port : gossip->port;
    node->tls_port = bus->options.is_tls ? gossip->port : gossip->other_port;
    node->bus_port = gossip->bus_port;
    node->flags &= (uint16_t)~NODE_NO_ADDRESS;
}

static bool has_address(const struct bus_gossip *gossip)
{
    return !(gossip->flags & (NODE_NO_ADDRESS | NODE_HANDSHAKE)) && gossip->ip[0] != '\0' && gossip->bus_port != 0;
}

/* This node does not reach it, the sender does, by another address. */
static void hear_address(struct bus *bus, struct node *about, const struct bus_gossip *gossip)
{
    uint16_t port = bus->options.is_tls ? about->tls_port : about->port, other_port = bus->options.is_tls ? about->port : about->tls_port;

    if (!(about->flags & (NODE_PFAIL | NODE_FAIL | NODE_NO_ADDRESS)) || says_failed(gossip) || !has_address(gossip))
        return;
    if (strcmp(about->ip, gossip->ip) == 0 && port == gossip->port && other_port == gossip->other_port && about->bus_port == gossip->bus_port)
        return;
    bus_links_close(bus, about->peer.link);
    set_address(bus, about, gossip);
    bus_note(bus, BUS_CHANGE_FILE | BUS_CHANGE_MAP);
}

static void add_known(struct bus *bus, const struct bus_gossip *gossip)
{
    uint16_t role = gossip->flags & NODE_REPLICA ? NODE_REPLICA : NODE_MASTER;
    struct node *node;

    if (!has_address(gossip) || bus_gossip_is_forgotten(bus, &gossip->id))
        return;
    node = members_add(bus->members, &gossip->id, (uint16_t)(role | (gossip->flags & NODE_NO_FAILOVER)), &bus->own->random);
    if (node == NULL)
        return;
    node->peer.added_ms = bus->own->now_ms;
    set_address(bus, node, gossip);
    bus_note(bus, BUS_CHANGE_FILE | BUS_CHANGE_MAP);
}

void bus_gossip_hear(struct bus *bus, struct node *sender, const struct bus_message *message)
{
    struct bus_gossip gossip;

    for (unsigned i = 0; i < message->gossip_count; i++) {
        struct node *about;

        bus_message_gossip(message, i, &gossip);
        about = members_find(bus->members, &gossip.id);
        if (about == NULL) {
            add_known(bus, &gossip);
        } else if (about != bus->members->myself && !(about->flags & NODE_HANDSHAKE)) {
            hear_report(bus, sender, about, &gossip);
            hear_pong_time(bus, about, &gossip);
            hear_address(bus, about, &gossip);
        }
    }
}

static void hear_text(struct bus *bus, struct buffer *known, struct bytes said)
{
    if (bytes_equal(buffer_bytes(known), said))
        return;
    known->size = 0;
    buffer_append_bytes(known, said);
    bus_note(bus, BUS_CHANGE_FILE | BUS_CHANGE_MAP);
}

/* A replica's shard is that of its master. */
static void hear_shard(struct bus *bus, struct node *sender, const struct node_id *said)
{
    if (node_id_is_none(said) || sender->master != NULL || node_id_equal(said, &sender->shard_id))
        return;
    members_set_shard(bus->members, sender, said);
    bus_note(bus, BUS_CHANGE_FILE | BUS_CHANGE_MAP);
}

static void hear_forgotten(struct bus *bus, const struct bus_message *message)
{
    struct node *myself = bus->members->myself;
    struct node_id id;
    uint64_t seconds;

    for (size_t at = 0; bus_message_forgotten(message, &at, &id, &seconds); ) {
        struct node *node = bus_known(bus, &id);

        if (node == NULL || node == myself || node == myself->master || bus_hands_over_to(bus, &id))
            continue;
        bus_gossip_forget(bus, &id, seconds > INT32_MAX ? INT32_MAX : (int64_t)seconds);
        bus_remove_node(bus, node);
        bus_note(bus, BUS_CHANGE_FILE | BUS_CHANGE_MAP);
    }
}

/* May remove nodes, the sender too. */
void bus_gossip_hear_extensions(struct bus *bus, struct node *sender, const struct bus_message *message)
{
    bool has_flag = message->message_flags & BUS_HAS_EXTENSIONS;

    if (has_flag && !sender->peer.takes_extensions) {
        sender->peer.takes_extensions = true;
        send_pong(bus, sender);                         /* its PING was sent without them: clients must not see slots without host names for long */
    }
    if (has_flag && message->extensions.size == 0)
        return;                                         /* only says that it knows them */
    hear_text(bus, &sender->host_name, message->host_name);
    hear_text(bus, &sender->name, message->name);
    hear_shard(bus, sender, &message->shard_id);
    hear_forgotten(bus, message);
}

/* --- What is forgotten */

static void drop_old(struct bus_private *own)
{
    for (unsigned i = 0; i < own->forgotten_count; i++) {
        if (own->forgotten[i].until_ms <= own->now_ms)
            own->forgotten[i--] = own->forgotten[--own->forgotten_count];
    }
}

bool bus_gossip_is_forgotten(const struct bus *bus, const struct node_id *id)
{
    for (unsigned i = 0; i < bus->own->forgotten_count; i++) {
        const struct bus_forgotten *forgotten = &bus->own->forgotten[i];

        if (forgotten->until_ms > bus->own->now_ms && node_id_equal(&forgotten->id, id))
            return true;
    }
    return false;
}

void bus_gossip_forget(struct bus *bus, const struct node_id *id, int64_t seconds)
{
    struct bus_private *own = bus->own;
    int64_t until_ms = own->now_ms + (seconds * 1000 > FORGOTTEN_MS_MAX ? FORGOTTEN_MS_MAX : seconds * 1000);
    unsigned at = 0;

    drop_old(own);
    while (at < own->forgotten_count && !node_id_equal(&own->forgotten[at].id, id))
        at++;
    if (at == FORGOTTEN_MAX)
        return;
    if (at == own->forgotten_room) {
        own->forgotten_room = own->forgotten_room * 2 + 4;
        own->forgotten = mem_realloc(own->forgotten, own->forgotten_room * sizeof(*own->forgotten));
    }
    own->forgotten[at] = (struct bus_forgotten){ *id, until_ms };
    own->forgotten_count += at == own->forgotten_count;
}

/* --- Handshakes */

static bool is_met_already(const struct bus *bus, const char *ip, uint16_t bus_port)
{
    for (unsigned i = 0; i < bus->members->count && bus->own->handshake_count > 0; i++) {
        const struct node *node = bus->members->all[i];

        if (node->flags & NODE_HANDSHAKE && node->bus_port == bus_port && strcmp(node->ip, ip) == 0)
            return true;
    }
    return false;
}

bool bus_gossip_start_handshake(struct bus *bus, const char *ip, uint16_t port, uint16_t other_port, uint16_t bus_port, uint16_t flags)
{
    struct node_id id;
    struct node *node;

    if (bus->own->handshake_count >= HANDSHAKES_MAX || is_met_already(bus, ip, bus_port))
        return false;
    node_id_make(&bus->own->random, &id);
    node = members_add(bus->members, &id, (uint16_t)(NODE_HANDSHAKE | flags), &bus->own->random);
    if (node == NULL)
        return false;
    memcpy(node->ip, ip, strlen(ip) + 1);
    node->port = bus->options.is_tls ? other_port : port;
    node->tls_port = bus->options.is_tls ? port : other_port;
    node->bus_port = bus_port;
    node->peer.added_ms = bus->own->now_ms;
    bus->own->handshake_count++;
    return true;
}
