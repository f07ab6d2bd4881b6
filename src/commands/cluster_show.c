/* Subcommands of CLUSTER that show the cluster. SLOTS, SHARDS and MYID are formatted from the topology without a lock: after a failover all clients ask
 * for them at once. The others show what only the bus knows.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cluster/managed.h"
#include "cluster/slot_export.h"
#include "commands/cluster_call.h"
#include "commands/handlers.h"
#include "keyspace/slot.h"

/* --- From the topology --- */

/* NULL: an error was replied. */
static struct topology *take_topology(struct call *call)
{
    struct cluster *cluster = cluster_call_cluster(call);

    return cluster != NULL ? cluster_topology(cluster) : NULL;
}

static void show_own_id(struct call *call, size_t offset)
{
    struct topology *topology = take_topology(call);

    if (topology == NULL)
        return;
    reply_bulk(call->reply, node_id_bytes((const struct node_id *)((const char *)&topology->nodes[topology->myself] + offset)));
    topology_release(topology);
}

void cluster_myid_command(struct call *call) { show_own_id(call, offsetof(struct topology_node, id)); }
void cluster_myshardid_command(struct call *call) { show_own_id(call, offsetof(struct topology_node, shard_id)); }

/* Ranges of slots with one owner, in their order, and lists of what belongs to a node, by its index. An index of -1 ends a list. */
struct slot_map {
    struct slot_range *ranges;
    int *owners, *next_range;           /* of each range */
    int range_count;
    int *first_range;                   /* of each node */
    int *first_replica, *next_replica;  /* of each node */
};

static void map_ranges(struct slot_map *map, const struct topology *topology)
{
    int slot = 0;

    while (slot < SLOT_COUNT) {
        int first = slot, owner = topology->owners[slot];

        while (slot < SLOT_COUNT && topology->owners[slot] == owner)
            slot++;
        if (owner < 0)
            continue;
        map->ranges[map->range_count] = (struct slot_range){ (uint16_t)first, (uint16_t)(slot - 1) };
        map->owners[map->range_count++] = owner;
    }
}

/* From the last one on, so that each list is in order. */
static void map_lists(struct slot_map *map, const struct topology *topology)
{
    for (int i = 0; i < topology->count; i++)
        map->first_range[i] = map->first_replica[i] = -1;
    for (int i = map->range_count - 1; i >= 0; i--) {
        map->next_range[i] = map->first_range[map->owners[i]];
        map->first_range[map->owners[i]] = i;
    }
    for (int i = topology->count - 1; i >= 0; i--) {
        int master = topology->nodes[i].master;

        map->next_replica[i] = master < 0 ? -1 : map->first_replica[master];
        if (master >= 0)
            map->first_replica[master] = i;
    }
}

static struct slot_map map_create(const struct topology *topology)
{
    size_t nodes = (size_t)topology->count * sizeof(int), ranges = SLOT_COUNT * sizeof(int);
    struct slot_map map = {
        .ranges = mem_alloc(SLOT_COUNT * sizeof(*map.ranges)), .owners = mem_alloc(ranges), .next_range = mem_alloc(ranges),
        .first_range = mem_alloc(nodes), .first_replica = mem_alloc(nodes), .next_replica = mem_alloc(nodes),
    };

    map_ranges(&map, topology);
    map_lists(&map, topology);
    return map;
}

static void map_release(struct slot_map *map)
{
    mem_free(map->ranges);
    mem_free(map->owners);
    mem_free(map->next_range);
    mem_free(map->first_range);
    mem_free(map->first_replica);
    mem_free(map->next_replica);
}

/* The picture of the other nodes is as old as the last change; this node knows its own offset. */
static uint64_t offset_of(struct call *call, const struct topology *topology, int index)
{
    struct history_point point;

    if (index != topology->myself)
        return topology->nodes[index].offset;
    history_point(&call->engine->history, &point);
    return (uint64_t)point.offset;
}

static enum config_endpoint preferred_endpoint(const struct call *call)
{
    return (enum config_endpoint)config_number(call->engine->config, CONFIG_CLUSTER_PREFERRED_ENDPOINT_TYPE);
}

/* [endpoint, port, ID, the other addresses] */
static void show_slot_node(struct call *call, const struct topology_node *node)
{
    struct reply *reply = call->reply;
    enum config_endpoint type = preferred_endpoint(call);
    bool with_ip = type != CONFIG_ENDPOINT_IP, with_name = type != CONFIG_ENDPOINT_HOSTNAME && node->host_name.size > 0;

    reply_array(reply, 4);
    if (type == CONFIG_ENDPOINT_UNKNOWN)
        reply_null(reply);
    else if (type == CONFIG_ENDPOINT_IP)
        reply_bulk_string(reply, node->ip);
    else
        reply_bulk(reply, node->host_name.size > 0 ? node->host_name : BYTES("?"));
    reply_integer(reply, topology_port(node, call->requester->flags & CLIENT_TLS));
    reply_bulk(reply, node_id_bytes(&node->id));
    reply_map(reply, with_ip + with_name);
    if (with_ip) {
        reply_bulk_string(reply, "ip");
        reply_bulk_string(reply, node->ip);
    }
    if (with_name) {
        reply_bulk_string(reply, "hostname");
        reply_bulk(reply, node->host_name);
    }
}

/* The offsets of others are known only by the bus. */
static bool has_data(struct call *call, const struct topology *topology, int index)
{
    return offset_of(call, topology, index) != 0 || (topology->is_managed && index != topology->myself);
}

/* A replica is shown once it has data. */
static bool is_available(struct call *call, const struct topology *topology, int index)
{
    return !(topology->nodes[index].flags & NODE_FAIL) && has_data(call, topology, index);
}

static void show_range(struct call *call, const struct topology *topology, const struct slot_map *map, int range)
{
    int owner = map->owners[range], replicas = 0;

    for (int i = map->first_replica[owner]; i >= 0; i = map->next_replica[i])
        replicas += is_available(call, topology, i);
    reply_array(call->reply, 3 + (size_t)replicas);
    reply_integer(call->reply, map->ranges[range].first);
    reply_integer(call->reply, map->ranges[range].last);
    show_slot_node(call, &topology->nodes[owner]);
    for (int i = map->first_replica[owner]; i >= 0 && replicas > 0; i = map->next_replica[i]) {
        if (!is_available(call, topology, i))
            continue;
        show_slot_node(call, &topology->nodes[i]);
        replicas--;
    }
    CHECK(replicas == 0);
}

void cluster_slots_command(struct call *call)
{
    struct topology *topology = take_topology(call);
    struct slot_map map;

    if (topology == NULL)
        return;
    map = map_create(topology);
    reply_array(call->reply, (size_t)map.range_count);
    for (int i = 0; i < map.range_count; i++)
        show_range(call, topology, &map, i);
    map_release(&map);
    topology_release(topology);
}

static void show_pair(struct reply *reply, const char *name, const char *text)
{
    reply_bulk_string(reply, name);
    reply_bulk_string(reply, text);
}

static void show_endpoint(struct call *call, const struct topology_node *node)
{
    enum config_endpoint type = preferred_endpoint(call);

    reply_bulk_string(call->reply, "endpoint");
    if (type == CONFIG_ENDPOINT_HOSTNAME)
        reply_bulk(call->reply, node->host_name.size > 0 ? node->host_name : BYTES("?"));
    else
        reply_bulk_string(call->reply, type == CONFIG_ENDPOINT_IP ? node->ip : "");
}

static void show_shard_node(struct call *call, const struct topology *topology, int index)
{
    const struct topology_node *node = &topology->nodes[index];
    bool is_replica = node->flags & NODE_REPLICA;
    uint64_t offset = offset_of(call, topology, index);
    struct reply *reply = call->reply;

    reply_map(reply, 6 + (node->port != 0) + (node->tls_port != 0) + (node->host_name.size > 0));
    reply_bulk_string(reply, "id");
    reply_bulk(reply, node_id_bytes(&node->id));
    if (node->port != 0) {
        reply_bulk_string(reply, "port");
        reply_integer(reply, node->port);
    }
    if (node->tls_port != 0) {
        reply_bulk_string(reply, "tls-port");
        reply_integer(reply, node->tls_port);
    }
    show_pair(reply, "ip", node->ip);
    show_endpoint(call, node);
    if (node->host_name.size > 0) {
        reply_bulk_string(reply, "hostname");
        reply_bulk(reply, node->host_name);
    }
    show_pair(reply, "role", is_replica ? "replica" : "master");
    reply_bulk_string(reply, "replication-offset");
    reply_integer(reply, (int64_t)offset);
    show_pair(reply, "health", node->flags & NODE_FAIL ? "fail" : is_replica && !has_data(call, topology, index) ? "loading" : "online");
}

static int compare_shards(const void *a, const void *b)
{
    const struct topology_node *const *one = a, *const *other = b;
    int order = node_id_compare(&(*one)->shard_id, &(*other)->shard_id);

    return order != 0 ? order : (*one > *other) - (*one < *other);
}

static void show_shard(struct call *call, const struct topology *topology, const struct slot_map *map, const struct topology_node **nodes, int count)
{
    int first = (int)(nodes[0] - topology->nodes), primary = nodes[0]->master >= 0 ? nodes[0]->master : first;
    size_t ranges = 0;

    for (int i = map->first_range[primary]; i >= 0; i = map->next_range[i])
        ranges++;
    reply_map(call->reply, 2);
    reply_bulk_string(call->reply, "slots");
    reply_array(call->reply, ranges * 2);
    for (int i = map->first_range[primary]; i >= 0; i = map->next_range[i]) {
        reply_integer(call->reply, map->ranges[i].first);
        reply_integer(call->reply, map->ranges[i].last);
    }
    reply_bulk_string(call->reply, "nodes");
    reply_array(call->reply, (size_t)count);
    for (int i = 0; i < count; i++)
        show_shard_node(call, topology, (int)(nodes[i] - topology->nodes));
}

/* The number of nodes from `at` on that are of one shard. */
static int shard_size(const struct topology_node **nodes, int at, int count)
{
    int end = at + 1;

    while (end < count && node_id_equal(&nodes[end]->shard_id, &nodes[at]->shard_id))
        end++;
    return end - at;
}

void cluster_shards_command(struct call *call)
{
    struct topology *topology = take_topology(call);
    const struct topology_node **nodes;
    struct reply_later later;
    struct slot_map map;
    size_t shards = 0;

    if (topology == NULL)
        return;
    map = map_create(topology);
    nodes = mem_alloc((size_t)topology->count * sizeof(*nodes));
    for (int i = 0; i < topology->count; i++)
        nodes[i] = &topology->nodes[i];
    qsort(nodes, (size_t)topology->count, sizeof(*nodes), compare_shards);
    later = reply_later_begin(call->reply);
    for (int i = 0, size; i < topology->count; i += size, shards++) {
        size = shard_size(nodes, i, topology->count);
        show_shard(call, topology, &map, nodes + i, size);
    }
    reply_later_array(call->reply, later, shards);
    mem_free(nodes);
    map_release(&map);
    topology_release(topology);
}

/* --- From the bus --- */

static enum nodes_file_port port_for(const struct cluster_call *asked)
{
    return asked->is_tls ? NODES_FILE_PORT_TLS : NODES_FILE_PORT_PLAIN;
}

static void describe_nodes(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    (void)engine;
    bus_describe_nodes(bus, NULL, port_for(asked), &asked->text);
}

void cluster_nodes_command(struct call *call)
{
    struct cluster_call *asked = cluster_call_new(call, describe_nodes, cluster_call_reply_text);

    if (asked != NULL)
        cluster_call_start(call, asked);
}

static const char *kvrocks_state(enum slot_export_state state)
{
    if (!slot_export_has_ended(state))
        return "start";
    return state == EXPORT_SUCCESS ? "success" : "fail";
}

/* As the Kvrocks controller reads it; early ones have another name for the slots. */
static void append_migration(struct buffer *text, const struct slots *slots, const struct node_id *to, const char *state)
{
    struct buffer ranges = { 0 };

    slots_write(slots, &ranges);
    buffer_append_format(text, "migrating_slot: %.*s\r\nmigrating_slot(s): %.*s\r\ndestination_node: %.40s\r\nmigrating_state: %s\r\n", (int)ranges.size,
        ranges.data, (int)ranges.size, ranges.data, to->text, state);
    buffer_release(&ranges);
}

/* The last one; after a start, or on a node that has replaced another one, that of which the topology does not know yet. */
static void describe_migration(struct engine *engine, const struct bus *bus, struct buffer *text)
{
    const struct moved_slots *moved = &bus->members->moved;
    struct slot_export_job *jobs;
    int count = slot_export_list(engine->replication.slot_export, &jobs);

    if (count > 0)
        append_migration(text, &jobs[0].slots, &jobs[0].to, kvrocks_state(jobs[0].state));
    for (unsigned i = 0; i < moved->count && count == 0; i++) {
        if (node_id_equal(&moved->all[i].from, &bus->members->myself->id)) {
            append_migration(text, &moved->all[i].slots, &moved->all[i].to, "success");
            break;
        }
    }
    mem_free(jobs);
}

static void describe_info(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    if (bus->options.is_managed && !managed_is_initialized(bus)) {
        cluster_call_fail(asked, "%s", managed_not_initialized);
        return;
    }
    bus_describe_info(bus, &asked->text);
    if (bus->options.is_managed && bus->members->myself->master == NULL)
        describe_migration(engine, bus, &asked->text);
}

void cluster_info_command(struct call *call)
{
    struct cluster_call *asked = cluster_call_new(call, describe_info, cluster_call_reply_text);

    if (asked != NULL)
        cluster_call_start(call, asked);
}

static void describe_replicas(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    const struct node *node = cluster_call_node(asked, bus, "Unknown node");

    (void)engine;
    if (node == NULL)
        return;
    if (node->flags & NODE_REPLICA) {
        cluster_call_fail(asked, "ERR The specified node is not a master");
        return;
    }
    for (unsigned i = 0; i < bus->members->count; i++) {
        if (bus->members->all[i]->master != node)
            continue;
        bus_describe_nodes(bus, bus->members->all[i], port_for(asked), &asked->text);
        asked->count++;
    }
}

/* A line each, without its end. */
static void reply_lines(struct call *call, const struct cluster_call *done)
{
    const char *at = done->text.data, *end;

    reply_array(call->reply, (size_t)done->count);
    for (int64_t i = 0; i < done->count; i++, at = end + 1) {
        end = memchr(at, '\n', (size_t)(done->text.data + done->text.size - at));
        CHECK(end != NULL);
        reply_bulk(call->reply, bytes_of(at, (size_t)(end - at)));
    }
}

/* CLUSTER REPLICAS and CLUSTER SLAVES. */
void cluster_replicas_command(struct call *call)
{
    struct cluster_call *asked = cluster_call_new(call, describe_replicas, reply_lines);

    if (asked == NULL)
        return;
    cluster_call_take_node(call, asked, 2);
    cluster_call_start(call, asked);
}

static void count_reports(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    const struct node *node = cluster_call_node(asked, bus, "Unknown node");

    (void)engine;
    if (node != NULL)
        asked->count = bus_failure_reports(bus, node, clock_wall_ms());
}

void cluster_count_failure_reports_command(struct call *call)
{
    struct cluster_call *asked = cluster_call_new_gossip(call, count_reports, cluster_call_reply_count);

    if (asked == NULL)
        return;
    cluster_call_take_node(call, asked, 2);
    cluster_call_start(call, asked);
}

/* A link as CLUSTER LINKS shows it. */
struct link_line {
    struct node_id id;
    bool is_outgoing;
    int64_t opened_ms;
    uint64_t allocated, used;
};

/* The text is made of these. */
static void look_at_links(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    struct bus_link_view view;

    for (unsigned i = 0; bus_link_view(bus, i, &view); i++) {
        struct link_line line = { .is_outgoing = view.is_outgoing, .opened_ms = view.opened_ms };

        if (view.node == NULL || !cluster_link_queue(engine->replication.cluster, view.link, &line.allocated, &line.used))
            continue;
        line.id = view.node->id;
        buffer_append(&asked->text, &line, sizeof(line));
        asked->count++;
    }
}

static void reply_links(struct call *call, const struct cluster_call *done)
{
    struct reply *reply = call->reply;

    reply_array(reply, (size_t)done->count);
    for (int64_t i = 0; i < done->count; i++) {
        struct link_line line;

        memcpy(&line, done->text.data + (size_t)i * sizeof(line), sizeof(line));
        reply_map(reply, 6);
        show_pair(reply, "direction", line.is_outgoing ? "to" : "from");
        reply_bulk_string(reply, "node");
        reply_bulk(reply, node_id_bytes(&line.id));
        reply_bulk_string(reply, "create-time");
        reply_integer(reply, line.opened_ms);
        show_pair(reply, "events", line.used > 0 ? "rw" : "r");
        reply_bulk_string(reply, "send-buffer-allocated");
        reply_integer(reply, (int64_t)line.allocated);
        reply_bulk_string(reply, "send-buffer-used");
        reply_integer(reply, (int64_t)line.used);
    }
}

void cluster_links_command(struct call *call)
{
    struct cluster_call *asked = cluster_call_new(call, look_at_links, reply_links);

    if (asked != NULL)
        cluster_call_start(call, asked);
}

/* --- HELP, and connections --- */

void cluster_help_command(struct call *call)
{
    static const char *const lines[] = {
        "CLUSTER <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "ADDSLOTS <slot> [<slot> ...]",
        "ADDSLOTSRANGE <first> <last> [<first> <last> ...]",
        "    Give slots that no node has to this node.",
        "BUMPEPOCH",
        "    Raises the epoch of this node above that of all others.",
        "CANCELSLOTMIGRATIONS",
        "    Gives up the atomic migrations of this node's slots.",
        "COUNT-FAILURE-REPORTS <node-id>",
        "    Returns how many nodes report that a node has failed.",
        "COUNTKEYSINSLOT <slot>",
        "    Returns the number of keys in a slot.",
        "DELSLOTS <slot> [<slot> ...]",
        "DELSLOTSRANGE <first> <last> [<first> <last> ...]",
        "    Forget which nodes have these slots.",
        "FAILOVER [FORCE|TAKEOVER]",
        "    Makes this replica take over from its primary: with its consent, by a vote of the others, or without asking.",
        "FLUSHSLOTS",
        "    Forgets the slots of this node, which has no keys.",
        "FORGET <node-id>",
        "    Removes a node from those that this one knows, for a minute.",
        "GETKEYSINSLOT <slot> <count>",
        "    Returns names of keys in a slot.",
        "GETSLOTMIGRATIONS",
        "    Returns the atomic migrations of this node's slots, a map each, the newest first.",
        "INFO",
        "    Returns the state of the cluster as this node sees it.",
        "KEYSLOT <key>",
        "    Returns the slot of a key.",
        "LINKS",
        "    Returns the connections to other nodes, a map each.",
        "MEET <ip> <port> [<bus-port>]",
        "    Makes a node known to this one, so that it joins the cluster.",
        "MIGRATESLOTS SLOTSRANGE <first> <last> [<first> <last> ...] NODE <node-id> [SLOTSRANGE ...]",
        "    Begins to migrate slots of this node to another Kelvin, which takes all of them over at one instant.",
        "MIGRATION IMPORT <first> <last> [<first> <last> ...]",
        "    Has the owner of the slots migrate them to this node. Returns the ID of the migration.",
        "MIGRATION (CANCEL|STATUS) (ID <id>|ALL)",
        "    Gives up migrations to and from this node, or returns them, a map each.",
        "MYID",
        "MYSHARDID",
        "    Return the ID of this node, and of its shard.",
        "NODES",
        "    Returns the nodes, a line each:",
        "    <id> <ip:port@bus-port[,hostname]> <flags> <primary> <ping-sent> <pong-received> <epoch> <link> <slots> ...",
        "RECEIVESLOTS DROP <first> <last> [<first> <last> ...]",
        "    Removes keys of slots that are another node's. Other forms are called by the node that migrates slots to this one.",
        "REPLICAS <node-id>",
        "    Returns the replicas of a primary, lines as those of NODES.",
        "REPLICATE <node-id>",
        "    Makes this node a replica of another one.",
        "RESET [HARD|SOFT]",
        "    Makes this node forget its cluster; HARD: also its ID and its epoch.",
        "SAVECONFIG",
        "    Writes nodes.conf.",
        "SET-CONFIG-EPOCH <epoch>",
        "    Sets the epoch of a new node.",
        "SETSLOT <slot> (IMPORTING <node-id>|MIGRATING <node-id>|STABLE|NODE <node-id>)",
        "    Begins to take a slot from a node or to give it to one, ends that, or assigns the slot.",
        "SHARDS",
        "    Returns the shards, with their slots and nodes.",
        "SLOTS",
        "    Returns the ranges of slots, with the nodes that have them.",
        "HELP",
        "    Returns this text.",
        NULL,
    };

    if (cluster_call_cluster(call) != NULL)
        reply_help(call, lines);
}

void cluster_keyslot_command(struct call *call)
{
    if (cluster_call_cluster(call) != NULL)
        reply_integer(call->reply, slot_of_key(call->args[2]));
}

static void set_flag(struct call *call, uint32_t flag, bool is_on)
{
    if (cluster_call_cluster(call) == NULL)
        return;
    call->client->flags = is_on ? call->client->flags | flag : call->client->flags & ~flag;
    reply_ok(call->reply);
}

void readonly_command(struct call *call) { set_flag(call, CLIENT_READONLY_SLOTS, true); }
void readwrite_command(struct call *call) { set_flag(call, CLIENT_READONLY_SLOTS, false); }
void asking_command(struct call *call) { set_flag(call, CLIENT_ASKING, true); }
