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

const char *bus_refuse(struct bus *bus, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    message_set_args(&bus->own->error, format, arguments);
    va_end(arguments);
    return bus->own->error.text;
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

void bus_end_migrations(struct bus *bus)
{
    struct members *members = bus->members;

    members->unwanted = members->received = members->handed_over = (struct slots){ { 0 } };
    members->receipt = members->handed_epoch = 0;
    moved_slots_release(&members->moved);
}

bool bus_hands_over_to(const struct bus *bus, const struct node_id *id)
{
    return slots_count(&bus->members->handed_over) > 0 && node_id_equal(&bus->members->handed_to, id);
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

/* Timeouts after the start: by the first a replica that lives has been heard, by the second it would have been elected. */
enum { UNHEARD_TIMEOUTS = 2, SILENT_TIMEOUTS = 10 };

bool bus_is_silent(const struct bus *bus)
{
    const struct members *members = bus->members;
    int64_t age_ms = bus->own->started_ms != 0 ? bus->own->now_ms - bus->own->started_ms : 0;

    if (!bus->facts.has_lost_data || !node_is_voter(members->myself) || age_ms > SILENT_TIMEOUTS * bus->options.timeout_ms)
        return false;
    for (unsigned i = 0; i < members->count; i++) {
        const struct node *node = members->all[i];

        if (node->master != members->myself || node->flags & NODE_NO_FAILOVER)
            continue;
        if (node->peer.heard_ms == 0 ? age_ms <= UNHEARD_TIMEOUTS * bus->options.timeout_ms : node->offset > bus->facts.offset)
            return true;
    }
    return false;
}
