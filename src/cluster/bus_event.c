#include <stdarg.h>
#include <stdio.h>

#include "cluster/bus_private.h"

void bus_log(struct bus *bus, const char *format, ...)
{
    char line[MESSAGE_SIZE];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    buffer_append_format(&bus->outcome.log, "%s\n", line);
}

void bus_note(struct bus *bus, unsigned changes)
{
    bus->outcome.has_changed |= (changes & BUS_CHANGE_FILE) != 0;
    bus->outcome.has_promised |= (changes & BUS_CHANGE_PROMISE) == BUS_CHANGE_PROMISE;
    bus->outcome.topology_changed |= (changes & BUS_CHANGE_MAP) != 0;
    bus->own->state_is_stale |= (changes & BUS_CHANGE_MAP) != 0;
}

void bus_end_manual(struct bus *bus)
{
    bus->own->manual = (struct bus_manual){ 0 };
    bus->hold_writes_until_ms = 0;
}

struct node *bus_known(const struct bus *bus, const struct node_id *id)
{
    struct node *node = members_find(bus->members, id);

    return node != NULL && !(node->flags & NODE_HANDSHAKE) ? node : NULL;
}

void bus_remove_node(struct bus *bus, struct node *node)
{
    bus_links_close(bus, node->peer.link);
    bus_links_close(bus, node->peer.accepted);
    bus->own->handshake_count -= (node->flags & NODE_HANDSHAKE) != 0;
    if (node_id_equal(&bus->own->manual.replica, &node->id))
        bus_end_manual(bus);
    members_remove(bus->members, node);
}

/* A replica counts until it has not been heard for a number of timeouts: by then it would have been elected. */
enum { SILENT_TIMEOUTS = 10 };

bool bus_is_silent(const struct bus *bus)
{
    const struct members *members = bus->members;

    if (!bus->facts.has_lost_data || !node_is_voter(members->myself))
        return false;
    for (unsigned i = 0; i < members->count; i++) {
        const struct node *node = members->all[i];
        int64_t heard_ms = node->peer.heard_ms > node->peer.added_ms ? node->peer.heard_ms : node->peer.added_ms;

        if (node->master == members->myself && bus->own->now_ms - heard_ms <= SILENT_TIMEOUTS * bus->options.timeout_ms)
            return true;
    }
    return false;
}
