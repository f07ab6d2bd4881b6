/* Subcommands of CLUSTER that change the cluster, or this node's part in it. */
#include <stdio.h>

#include <arpa/inet.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cluster/managed.h"
#include "commands/cluster_call.h"
#include "commands/cluster_keys.h"
#include "commands/handlers.h"

/* Starts a command without arguments. */
static void start_plain(struct call *call, struct cluster_call *asked)
{
    if (asked != NULL)
        cluster_call_start(call, asked);
}

static void reply_usage(struct call *call)
{
    reply_errorf(call, "ERR unknown subcommand or wrong number of arguments for '%.*s'. Try CLUSTER HELP.", (int)call->args[1].size, call->args[1].data);
}

/* --- The nodes --- */

static void meet(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    (void)engine;
    cluster_call_accept(asked, bus_meet(bus, asked->ip, asked->port, asked->bus_port, clock_wall_ms()));
}

/* In the form in which nodes write it. */
static bool read_address(struct bytes text, char ip[NODE_IP_SIZE])
{
    char copy[NODE_IP_SIZE], bits[sizeof(struct in6_addr)];
    int family;

    if (text.size >= sizeof(copy))
        return false;
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    family = inet_pton(AF_INET, copy, bits) == 1 ? AF_INET : AF_INET6;
    return (family == AF_INET || inet_pton(AF_INET6, copy, bits) == 1) && inet_ntop(family, bits, ip, NODE_IP_SIZE) != NULL;
}

static void read_meet(struct call *call, struct cluster_call *asked)
{
    enum { BUS_PORT_DISTANCE = 10000 };
    struct bytes ip = call->args[2], port_text = call->args[3];
    int64_t port, bus_port;

    if (!text_to_int(port_text, &port)) {
        reply_errorf(call, "ERR Invalid base port specified: %.*s", (int)port_text.size, port_text.data);
        return;
    }
    bus_port = port <= UINT16_MAX ? port + BUS_PORT_DISTANCE : port;
    if (call->arg_count > 4 && !text_to_int(call->args[4], &bus_port)) {
        reply_errorf(call, "ERR Invalid bus port specified: %.*s", (int)call->args[4].size, call->args[4].data);
        return;
    }
    if (!read_address(ip, asked->ip) || port <= 0 || port > UINT16_MAX || bus_port <= 0 || bus_port > UINT16_MAX) {
        reply_errorf(call, "ERR Invalid node address specified: %.*s:%.*s", (int)ip.size, ip.data, (int)port_text.size, port_text.data);
        return;
    }
    asked->port = (uint16_t)port;
    asked->bus_port = (uint16_t)bus_port;
}

void cluster_meet_command(struct call *call)
{
    struct cluster_call *asked = cluster_call_new_gossip(call, meet, NULL);

    if (asked == NULL)
        return;
    if (call->arg_count > 5)
        reply_usage(call);
    else
        read_meet(call, asked);
    cluster_call_start(call, asked);
}

/* A node that was forgotten a moment ago, maybe by another node, is no error: bus_forget knows. */
static void forget(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    (void)engine;
    if (!node_id_is_none(&asked->id) || cluster_call_node(asked, bus, "Unknown node") != NULL)
        cluster_call_accept(asked, bus_forget(bus, &asked->id, clock_wall_ms()));
}

void cluster_forget_command(struct call *call)
{
    struct cluster_call *asked = cluster_call_new_gossip(call, forget, NULL);

    if (asked == NULL)
        return;
    cluster_call_take_node(call, asked, 2);
    cluster_call_start(call, asked);
}

static void replicate(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    bool has_keys;

    if (cluster_call_node(asked, bus, "Unknown node") != NULL && cluster_keys_has_any(asked, engine, bus, &has_keys))
        cluster_call_accept(asked, bus_replicate(bus, &asked->id, has_keys, clock_wall_ms()));
}

void cluster_replicate_command(struct call *call)
{
    struct cluster_call *asked = cluster_call_new_gossip(call, replicate, NULL);

    if (asked == NULL)
        return;
    asked->awaits_lost = true;
    cluster_call_take_node(call, asked, 2);
    cluster_call_start(call, asked);
}

static void fail_over(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    (void)engine;
    cluster_call_accept(asked, bus_failover(bus, (enum bus_failover)asked->choice, clock_wall_ms()));
}

void cluster_failover_command(struct call *call)
{
    struct cluster_call *asked = cluster_call_new_gossip(call, fail_over, NULL);

    if (asked == NULL)
        return;
    asked->choice = BUS_FAILOVER_AGREED;
    if (call->arg_count > 3)
        reply_usage(call);
    else if (call->arg_count == 3 && arg_is(call, 2, "force"))
        asked->choice = BUS_FAILOVER_FORCED;
    else if (call->arg_count == 3 && arg_is(call, 2, "takeover"))
        asked->choice = BUS_FAILOVER_TAKEOVER;
    else if (call->arg_count == 3)
        reply_error(call, ERR_SYNTAX);
    cluster_call_start(call, asked);
}

enum { RESET_SOFT, RESET_HARD };

static void reset(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    const char *(*run)(struct bus *bus, bool is_hard, bool has_keys, int64_t now_ms) = bus->options.is_managed ? managed_reset : bus_reset;
    bool has_keys = false;

    /* The keys of a replica do not matter. */
    if (bus->members->myself->flags & NODE_REPLICA || cluster_keys_has_any(asked, engine, bus, &has_keys))
        cluster_call_accept(asked, run(bus, asked->choice == RESET_HARD, has_keys, clock_wall_ms()));
}

void cluster_reset_command(struct call *call)
{
    struct cluster_call *asked = cluster_call_new(call, reset, NULL);

    if (asked == NULL)
        return;
    if (call->arg_count > 3)
        reply_usage(call);
    else if (call->arg_count == 3 && !arg_is(call, 2, "soft") && !arg_is(call, 2, "hard"))
        reply_error(call, ERR_SYNTAX);
    asked->choice = call->arg_count == 3 && arg_is(call, 2, "hard") ? RESET_HARD : RESET_SOFT;
    asked->awaits_lost = true;
    cluster_call_start(call, asked);
}

/* --- Epochs, nodes.conf --- */

static void set_epoch(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    (void)engine;
    cluster_call_accept(asked, bus_set_config_epoch(bus, (uint64_t)asked->number));
}

void cluster_set_config_epoch_command(struct call *call)
{
    struct cluster_call *asked = cluster_call_new_gossip(call, set_epoch, NULL);

    if (asked == NULL)
        return;
    if (arg_integer(call, 2, &asked->number) && asked->number < 0)
        reply_errorf(call, "ERR Invalid config epoch specified: %lld", (long long)asked->number);
    cluster_call_start(call, asked);
}

static void bump_epoch(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    bool bumped;

    (void)engine;
    bus_bump_epoch(bus, &bumped);
    buffer_append_format(&asked->text, "%s %llu", bumped ? "BUMPED" : "STILL", (unsigned long long)bus->members->myself->config_epoch);
}

static void reply_status_text(struct call *call, const struct cluster_call *done)
{
    reply_status(call->reply, buffer_bytes(&done->text));
}

void cluster_bumpepoch_command(struct call *call) { start_plain(call, cluster_call_new_gossip(call, bump_epoch, reply_status_text)); }

/* Writes it although nothing has changed: an administrator may have removed the file. */
static void save_config(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    (void)bus;
    if (cluster_save(engine->replication.cluster) != STATUS_OK)
        cluster_call_fail(asked, "ERR error saving the cluster node config: see the log; it is tried again");
}

void cluster_saveconfig_command(struct call *call) { start_plain(call, cluster_call_new(call, save_config, NULL)); }

/* --- Slots --- */

static bool read_slot(struct bytes text, int64_t *slot)
{
    return text_to_int(text, slot) && *slot >= 0 && *slot < SLOT_COUNT;
}

static const char *const bad_slot = "ERR Invalid or out of range slot";

enum { SLOTS_ADDED, SLOTS_REMOVED };

/* All or nothing. */
static bool check_ranges(struct cluster_call *asked, const struct bus *bus)
{
    for (int i = 0; i < asked->range_count; i++) {
        for (unsigned slot = asked->ranges[i].first; slot <= asked->ranges[i].last; slot++) {
            bool has_owner = bus->members->owners[slot] != NULL;

            if (has_owner == (asked->choice == SLOTS_ADDED))
                cluster_call_fail(asked, has_owner ? "ERR Slot %u is already busy" : "ERR Slot %u is already unassigned", slot);
            else if (slots_has(&asked->slots, slot))
                cluster_call_fail(asked, "ERR Slot %u specified multiple times", slot);
            if (asked->error.size > 0)
                return false;
            slots_add(&asked->slots, slot);
        }
    }
    return cluster_call_accept(asked, asked->later_error);
}

static void change_slots(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    (void)engine;
    if (check_ranges(asked, bus))
        cluster_call_accept(asked, asked->choice == SLOTS_ADDED ? bus_add_slots(bus, &asked->slots) : bus_remove_slots(bus, &asked->slots));
}

static void read_slots(struct call *call, struct cluster_call *asked)
{
    int64_t slot;

    for (int i = 2; i < call->arg_count; i++) {
        if (!read_slot(call->args[i], &slot)) {
            reply_errorf(call, "%s", bad_slot);
            return;
        }
        asked->ranges[asked->range_count++] = (struct slot_range){ (uint16_t)slot, (uint16_t)slot };
    }
}

/* Ranges before a bad one are looked at first, as in Redis. */
static void read_ranges(struct call *call, struct cluster_call *asked)
{
    int64_t first, last;

    if (call->arg_count % 2 == 1) {
        reply_wrong_arity(call);
        return;
    }
    for (int i = 2; i < call->arg_count && asked->later_error == NULL; i += 2) {
        if (!read_slot(call->args[i], &first) || !read_slot(call->args[i + 1], &last))
            asked->later_error = mem_string(bytes_of_string(bad_slot));
        else if (first > last)
            asked->later_error = mem_string(call_format(call, "ERR start slot number %d is greater than end slot number %d", (int)first, (int)last));
        else
            asked->ranges[asked->range_count++] = (struct slot_range){ (uint16_t)first, (uint16_t)last };
    }
}

static void start_slots(struct call *call, int choice, void (*read)(struct call *call, struct cluster_call *asked))
{
    struct cluster_call *asked = cluster_call_new_gossip(call, change_slots, NULL);

    if (asked == NULL)
        return;
    asked->choice = choice;
    asked->awaits_lost = choice == SLOTS_ADDED;
    asked->ranges = mem_alloc((size_t)call->arg_count * sizeof(*asked->ranges));
    read(call, asked);
    cluster_call_start(call, asked);
}

void cluster_addslots_command(struct call *call) { start_slots(call, SLOTS_ADDED, read_slots); }
void cluster_delslots_command(struct call *call) { start_slots(call, SLOTS_REMOVED, read_slots); }
void cluster_addslotsrange_command(struct call *call) { start_slots(call, SLOTS_ADDED, read_ranges); }
void cluster_delslotsrange_command(struct call *call) { start_slots(call, SLOTS_REMOVED, read_ranges); }

static void flush_slots(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    bool has_keys;

    if (!cluster_keys_has_any(asked, engine, bus, &has_keys))
        return;
    if (has_keys)
        cluster_call_fail(asked, "ERR DB must be empty to perform CLUSTER FLUSHSLOTS.");
    else
        cluster_call_accept(asked, bus_flush_slots(bus));
}

void cluster_flushslots_command(struct call *call)
{
    struct cluster_call *asked = cluster_call_new_gossip(call, flush_slots, NULL);

    if (asked == NULL)
        return;
    asked->awaits_lost = true;
    cluster_call_start(call, asked);
}

/* --- SETSLOT --- */

enum move { MOVE_EXPORT, MOVE_IMPORT, MOVE_STABLE, MOVE_ASSIGN, MOVE_UNKNOWN };

static void assign_slot(struct cluster_call *asked, struct engine *engine, struct bus *bus, unsigned slot)
{
    bool has_keys;

    if (cluster_call_node(asked, bus, "Unknown node") != NULL && cluster_keys_has_in_slot(asked, engine, bus, (uint16_t)slot, &has_keys))
        cluster_call_accept(asked, bus_assign_slot(bus, slot, &asked->id, has_keys, clock_wall_ms()));
}

static void begin_move(struct cluster_call *asked, struct bus *bus, unsigned slot)
{
    bool is_export = asked->choice == MOVE_EXPORT, is_mine = bus->members->owners[slot] == bus->members->myself;

    if (is_export != is_mine)
        cluster_call_fail(asked, is_mine ? "ERR I'm already the owner of hash slot %u" : "ERR I'm not the owner of hash slot %u", slot);
    else if (cluster_call_node(asked, bus, "I don't know about node") != NULL)
        cluster_call_accept(asked, is_export ? bus_begin_export(bus, slot, &asked->id) : bus_begin_import(bus, slot, &asked->id));
}

/* Errors in the order of Redis. */
static void set_slot(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    unsigned slot = (unsigned)asked->number;

    if (bus->members->myself->flags & NODE_REPLICA)
        cluster_call_fail(asked, "ERR Please use SETSLOT only with masters.");
    else if (!cluster_call_accept(asked, asked->later_error))
        return;
    else if (asked->choice == MOVE_ASSIGN)
        assign_slot(asked, engine, bus, slot);
    else if (asked->choice == MOVE_STABLE)
        cluster_call_accept(asked, bus_end_move(bus, slot));
    else
        begin_move(asked, bus, slot);
}

static enum move move_of(const struct call *call)
{
    if (call->arg_count == 4)
        return arg_is(call, 3, "stable") ? MOVE_STABLE : MOVE_UNKNOWN;
    if (call->arg_count != 5)
        return MOVE_UNKNOWN;
    return arg_is(call, 3, "migrating") ? MOVE_EXPORT : arg_is(call, 3, "importing") ? MOVE_IMPORT : arg_is(call, 3, "node") ? MOVE_ASSIGN : MOVE_UNKNOWN;
}

void cluster_setslot_command(struct call *call)
{
    struct cluster_call *asked = cluster_call_new_gossip(call, set_slot, NULL);

    if (asked == NULL)
        return;
    asked->choice = move_of(call);
    asked->awaits_lost = asked->choice == MOVE_IMPORT || asked->choice == MOVE_ASSIGN;
    if (!read_slot(call->args[2], &asked->number))
        asked->later_error = mem_string(bytes_of_string(bad_slot));
    else if (asked->choice == MOVE_UNKNOWN)
        asked->later_error = mem_string(BYTES("ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP"));
    if (call->arg_count == 5)
        cluster_call_take_node(call, asked, 4);
    cluster_call_start(call, asked);
}
