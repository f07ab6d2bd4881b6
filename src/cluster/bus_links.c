#include "base/check.h"
#include "base/mem.h"
#include "cluster/bus_private.h"

enum { STRANGERS_MAX = 1024 };

/* The index of the first link whose number is not below this one. */
static unsigned link_place(const struct bus_private *own, uint64_t number)
{
    unsigned low = 0, high = own->link_count;

    while (low < high) {
        unsigned middle = (low + high) / 2;

        if (own->links[middle]->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct bus_link *bus_links_find(const struct bus *bus, uint64_t number)
{
    const struct bus_private *own = bus->own;
    unsigned at = link_place(own, number);

    return at < own->link_count && own->links[at]->number == number ? own->links[at] : NULL;
}

static struct bus_link *add_link(struct bus_private *own, uint64_t number)
{
    struct bus_link *link = mem_zalloc(sizeof(*link));
    unsigned at = link_place(own, number);

    CHECK(number <= own->last_link && (at == own->link_count || own->links[at]->number != number));
    if (own->link_count == own->link_room) {
        own->link_room = own->link_room * 2 + 8;
        own->links = mem_realloc(own->links, own->link_room * sizeof(struct bus_link *));
    }
    memmove(own->links + at + 1, own->links + at, (own->link_count - at) * sizeof(struct bus_link *));
    own->links[at] = link;
    own->link_count++;
    *link = (struct bus_link){ .number = number, .opened_ms = own->now_ms };
    return link;
}

struct bus_action *bus_links_act(struct bus *bus, enum bus_action_kind kind, uint64_t link)
{
    struct bus_outcome *outcome = &bus->outcome;

    if (outcome->action_count == outcome->action_room) {
        outcome->action_room = outcome->action_room * 2 + 8;
        outcome->actions = mem_realloc(outcome->actions, outcome->action_room * sizeof(*outcome->actions));
    }
    outcome->actions[outcome->action_count] = (struct bus_action){ .kind = kind, .link = link };
    return &outcome->actions[outcome->action_count++];
}

void bus_links_open(struct bus *bus, struct node *node)
{
    struct bus_link *link = add_link(bus->own, ++bus->own->last_link);
    struct bus_action *action = bus_links_act(bus, BUS_OPEN, link->number);

    CHECK(node->peer.link == 0);
    link->is_outgoing = true;
    link->node = node;
    node->peer.link = link->number;
    memcpy(action->ip, node->ip, NODE_IP_SIZE);
    action->port = node->bus_port;
}

uint64_t bus_new_link(struct bus *bus)
{
    return ++bus->own->last_link;
}

void bus_link_accepted(struct bus *bus, uint64_t number, bool *is_refused)
{
    *is_refused = bus->own->stranger_count >= STRANGERS_MAX;
    if (*is_refused)
        return;
    add_link(bus->own, number)->is_open = true;
    bus->own->stranger_count++;
}

/* The other end opens a new link because it has lost the old one, which this end may not have seen. */
void bus_links_recognize(struct bus *bus, struct bus_link *link, struct node *node)
{
    if (link->is_outgoing || link->node == node)
        return;
    if (link->node == NULL)
        bus->own->stranger_count--;
    else
        link->node->peer.accepted = 0;
    bus_links_close(bus, node->peer.accepted);
    link->node = node;
    node->peer.accepted = link->number;
}

static void forget_link(struct bus *bus, const struct bus_link *link)
{
    if (link->is_outgoing) {
        link->node->peer.link = 0;
        link->node->is_connected = false;
    } else if (link->node != NULL) {
        link->node->peer.accepted = 0;
    } else {
        bus->own->stranger_count--;
    }
}

void bus_links_remove(struct bus *bus, uint64_t number)
{
    struct bus_private *own = bus->own;
    unsigned at = link_place(own, number);
    struct bus_link *link;

    if (at == own->link_count || own->links[at]->number != number)
        return;
    link = own->links[at];
    forget_link(bus, link);
    own->link_count--;
    memmove(own->links + at, own->links + at + 1, (own->link_count - at) * sizeof(struct bus_link *));
    mem_free(link);
}

void bus_links_close(struct bus *bus, uint64_t number)
{
    if (number == 0)
        return;
    bus_links_remove(bus, number);
    bus_links_act(bus, BUS_CLOSE, number);
}

size_t bus_link_size_max(const struct bus *bus, uint64_t number)
{
    const struct bus_link *link = bus_links_find(bus, number);
    bool is_known = link != NULL && link->node != NULL && !(link->node->flags & NODE_HANDSHAKE);

    return is_known ? BUS_KNOWN_SIZE_MAX : BUS_STRANGER_SIZE_MAX;
}

bool bus_link_view(const struct bus *bus, unsigned index, struct bus_link_view *view)
{
    const struct node *node;
    const struct bus_link *link;

    if (index / 2 >= bus->members->count)
        return false;
    node = bus->members->all[index / 2];
    link = bus_links_find(bus, index % 2 == 0 ? node->peer.link : node->peer.accepted);
    *view = (struct bus_link_view){ .node = NULL };
    if (link != NULL && link->is_open)
        *view = (struct bus_link_view){ link->number, link->is_outgoing, node, link->opened_ms + bus->own->real_ms - bus->own->now_ms };
    return true;
}
