#include "support/bus_again.h"

void bus_again_write(const struct bus_message *message, struct buffer *out)
{
    size_t begin = bus_message_write(message, out), at = 0;
    struct bus_gossip gossip;
    struct node_id id;
    uint64_t seconds;

    for (unsigned i = 0; i < message->gossip_count; i++) {
        bus_message_gossip(message, i, &gossip);
        bus_message_add_gossip(out, begin, &gossip);
    }
    if (message->host_name.size > 0)
        bus_message_add_host_name(out, begin, message->host_name);
    if (message->name.size > 0)
        bus_message_add_name(out, begin, message->name);
    while (bus_message_forgotten(message, &at, &id, &seconds))
        bus_message_add_forgotten(out, begin, &id, seconds);
    if (!node_id_is_none(&message->shard_id))
        bus_message_add_shard_id(out, begin, &message->shard_id);
}
