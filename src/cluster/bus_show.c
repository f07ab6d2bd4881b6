#include <inttypes.h>

#include "cluster/bus_private.h"
#include "cluster/suspect.h"

static void show_slots(const struct bus *bus, const struct node *node, struct buffer *out)
{
    const struct members *members = bus->members;
    struct slot_range range;

    for (unsigned at = 0; slots_next(&node->slots, at, &range); at = range.last + 1U) {
        if (range.first == range.last)
            buffer_append_format(out, " %u", range.first);
        else
            buffer_append_format(out, " %u-%u", range.first, range.last);
    }
    for (unsigned i = 0; i < members->move_count && node == members->myself; i++)
        buffer_append_format(out, " [%u-%c-%.40s]", members->moves[i].slot, members->moves[i].is_import ? '<' : '>', members->moves[i].other->id.text);
}

/* In the caller's time. */
static int64_t shown_ms(const struct bus *bus, int64_t ms)
{
    return ms == 0 ? 0 : ms + bus->own->real_ms - bus->own->now_ms;
}

static void show_node(const struct bus *bus, const struct node *node, enum nodes_file_port port, struct buffer *out)
{
    bool is_connected = node == bus->members->myself || node->is_connected;

    buffer_append_format(out, "%.40s %s:%u@%u", node->id.text, node->ip, port == NODES_FILE_PORT_TLS ? node->tls_port : node->port, node->bus_port);
    if (node->host_name.size > 0) {
        buffer_append_string(out, ",");
        buffer_append_bytes(out, buffer_bytes(&node->host_name));
    }
    buffer_append_string(out, " ");
    node_flags_append(out, node->flags);
    buffer_append_format(out, " %.40s %" PRId64 " %" PRId64 " %" PRIu64 " %s", node->master != NULL ? node->master->id.text : "-",
                         shown_ms(bus, node->ping_sent_ms), shown_ms(bus, node->pong_ms), node_epoch(node), is_connected ? "connected" : "disconnected");
    show_slots(bus, node, out);
    buffer_append_string(out, "\n");
}

void bus_describe_nodes(const struct bus *bus, const struct node *only, enum nodes_file_port port, struct buffer *out)
{
    if (only != NULL) {
        show_node(bus, only, port, out);
        return;
    }
    for (unsigned i = 0; i < bus->members->count; i++)
        show_node(bus, bus->members->all[i], port, out);
}

static void show_slot_counts(const struct members *members, struct buffer *out)
{
    unsigned ok = 0, suspected = 0, failed = 0;

    for (unsigned i = 0; i < members->count; i++) {
        const struct node *node = members->all[i];
        unsigned *count = node->flags & NODE_FAIL ? &failed : node->flags & NODE_PFAIL ? &suspected : &ok;

        *count += node->slot_count;
    }
    buffer_append_format(out, "cluster_slots_assigned:%u\r\ncluster_slots_ok:%u\r\ncluster_slots_pfail:%u\r\ncluster_slots_fail:%u\r\n", ok + suspected + failed,
                         ok, suspected, failed);
}

static void show_messages(const uint64_t counts[BUS_TYPE_COUNT], const char *direction, struct buffer *out)
{
    uint64_t sum = 0;

    for (uint16_t type = 0; type < BUS_TYPE_COUNT; type++) {
        sum += counts[type];
        if (counts[type] > 0)
            buffer_append_format(out, "cluster_stats_messages_%s_%s:%" PRIu64 "\r\n", bus_type_name(type), direction, counts[type]);
    }
    buffer_append_format(out, "cluster_stats_messages_%s:%" PRIu64 "\r\n", direction, sum);
}

void bus_describe_info(const struct bus *bus, struct buffer *out)
{
    const struct members *members = bus->members;

    /* While a promise can't be saved this node serves nothing. */
    buffer_append_format(out, "cluster_state:%s\r\n", bus->is_ok && !bus->outcome.has_promised ? "ok" : "fail");
    show_slot_counts(members, out);
    buffer_append_format(out, "cluster_known_nodes:%u\r\ncluster_size:%u\r\ncluster_current_epoch:%" PRIu64 "\r\ncluster_my_epoch:%" PRIu64 "\r\n",
                         members->count, members_voters(members), members->current_epoch, node_epoch(members->myself));
    show_messages(bus->own->sent, "sent", out);
    show_messages(bus->own->received, "received", out);
    buffer_append_format(out, "total_cluster_links_buffer_limit_exceeded:%" PRIu64 "\r\n", bus->facts.links_over_limit);
}

unsigned bus_failure_reports(struct bus *bus, const struct node *node, int64_t now_ms)
{
    struct node *known = members_find(bus->members, &node->id);

    bus_begin(bus, now_ms);
    return known != NULL ? suspect_report_count(known, bus->own->now_ms, bus->options.timeout_ms) : 0;
}
