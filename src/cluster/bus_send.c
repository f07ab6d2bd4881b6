#include <string.h>

#include "cluster/bus_private.h"

/* The node whose slots and epoch this node's headers have. */
static const struct node *claimer(const struct bus *bus)
{
    const struct node *myself = bus->members->myself;

    return myself->master != NULL ? myself->master : myself;
}

/* A primary says that it is paused only when its offset does not grow any more: the replica waits for that offset. */
static uint8_t message_flags(const struct bus *bus)
{
    bool is_paused = bus->members->myself->flags & NODE_MASTER && bus->own->manual.until_ms != 0 && bus->facts.holds_writes;

    return is_paused ? BUS_PAUSED : 0;
}

void bus_send_header(const struct bus *bus, enum bus_type type, struct bus_message *message)
{
    const struct node *myself = bus->members->myself;
    const struct bus_options *options = &bus->options;

    *message = (struct bus_message){
        .type = (uint16_t)type, .flags = myself->flags, .port = options->is_tls ? options->tls_port : options->port,
        .other_port = options->is_tls ? options->port : options->tls_port, .bus_port = options->bus_port, .state = !bus->is_ok,
        .message_flags = message_flags(bus), .current_epoch = bus->members->current_epoch, .config_epoch = claimer(bus)->config_epoch,
        .offset = bus->facts.offset, .sender = myself->id, .slots = &claimer(bus)->slots,
    };
    if (myself->master != NULL)
        message->master = myself->master->id;
    memcpy(message->ip, options->ip, NODE_IP_SIZE);
}

void bus_send_bytes(struct bus *bus, uint64_t number, enum bus_type type, size_t begin, size_t size)
{
    const struct bus_link *link = bus_links_find(bus, number);
    struct bus_action *action;

    if (link == NULL || !link->is_open || bus_is_silent(bus))
        return;
    action = bus_links_act(bus, BUS_SEND, number);
    action->begin = begin;
    action->size = size;
    action->type = (uint16_t)type;
    bus->own->sent[type]++;
}

static void send_message(struct bus *bus, struct node *to, const struct bus_message *message)
{
    size_t begin = bus_message_write(message, &bus->outcome.bytes);

    bus_send_bytes(bus, to->peer.link, message->type, begin, bus->outcome.bytes.size - begin);
}

/* To all, or to those of the shard: the same bytes. */
static void send_to_all(struct bus *bus, const struct bus_message *message, const struct node_id *shard)
{
    const struct members *members = bus->members;
    size_t begin = bus_message_write(message, &bus->outcome.bytes), size = bus->outcome.bytes.size - begin;

    for (unsigned i = 0; i < members->count; i++) {
        const struct node *node = members->all[i];

        if (!(node->flags & (NODE_HANDSHAKE | NODE_MYSELF)) && (shard == NULL || node_id_equal(shard, &node->shard_id)))
            bus_send_bytes(bus, node->peer.link, message->type, begin, size);
    }
}

void bus_send_simple(struct bus *bus, struct node *to, enum bus_type type)
{
    struct bus_message message;

    bus_send_header(bus, type, &message);
    send_message(bus, to, &message);
}

void bus_send_update(struct bus *bus, struct node *to, const struct node *about)
{
    struct bus_message message;

    bus_send_header(bus, BUS_UPDATE, &message);
    message.about = about->id;
    message.about_epoch = about->config_epoch;
    message.about_slots = &about->slots;
    send_message(bus, to, &message);
}

void bus_send_fail(struct bus *bus, const struct node *about)
{
    struct bus_message message;

    bus_send_header(bus, BUS_FAIL, &message);
    message.about = about->id;
    send_to_all(bus, &message, NULL);
}

void bus_send_request(struct bus *bus)
{
    struct bus_message message;

    bus_send_header(bus, BUS_FAILOVER_AUTH_REQUEST, &message);
    if (bus->own->manual.until_ms != 0)
        message.message_flags |= BUS_FORCE_ACK;
    send_to_all(bus, &message, NULL);
}

void bus_publish(struct bus *bus, struct bytes channel, struct bytes text, bool is_shard)
{
    struct bus_message message;

    bus_send_header(bus, is_shard ? BUS_PUBLISHSHARD : BUS_PUBLISH, &message);
    message.channel = channel;
    message.text = text;
    send_to_all(bus, &message, is_shard ? &bus->members->myself->shard_id : NULL);
}
