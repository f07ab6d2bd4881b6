#include <arpa/inet.h>
#include <string.h>

#include "base/check.h"
#include "cluster/bus_private.h"

enum { FORGET_S = 60 };

/* The usual form of an address; false if it is none. */
static bool normalize_ip(const char *ip, char normal[NODE_IP_SIZE])
{
    struct in6_addr address;

    if (inet_pton(AF_INET, ip, &address) == 1)
        return inet_ntop(AF_INET, &address, normal, NODE_IP_SIZE) != NULL;
    return inet_pton(AF_INET6, ip, &address) == 1 && inet_ntop(AF_INET6, &address, normal, NODE_IP_SIZE) != NULL;
}

const char *bus_meet(struct bus *bus, const char *ip, uint16_t port, uint16_t bus_port, int64_t now_ms)
{
    char normal[NODE_IP_SIZE] = { 0 };

    bus_begin(bus, now_ms);
    if (port == 0 || bus_port == 0 || !normalize_ip(ip, normal))
        return bus_refuse(bus, "ERR Invalid node address specified: %s:%u", ip, port);
    bus_gossip_start_handshake(bus, normal, port, 0, bus_port, NODE_MEET);
    bus_finish(bus);
    return NULL;
}

const char *bus_forget(struct bus *bus, const struct node_id *id, int64_t now_ms)
{
    struct node *node = members_find(bus->members, id), *myself = bus->members->myself;

    bus_begin(bus, now_ms);
    if (node == NULL)
        return bus_gossip_is_forgotten(bus, id) ? NULL : bus_refuse(bus, "ERR Unknown node %.40s", id->text);
    if (node == myself)
        return "ERR I tried hard but I can't forget myself...";
    if (node == myself->master)
        return "ERR Can't forget my master!";
    if (bus_hands_over_to(bus, id))
        return "ERR slots are being handed over to this node: it is not known whether it has them";
    bus_gossip_forget(bus, id, FORGET_S);
    bus_remove_node(bus, node);
    bus_note(bus, BUS_CHANGE_FILE | BUS_CHANGE_MAP);
    bus_finish(bus);
    return NULL;
}

/* --- Slots */

/* A conceded slot would come back. */
static void unbind_slot(struct bus *bus, unsigned slot)
{
    slots_remove(&bus->members->conceded, slot);
    members_bind(bus->members, slot, NULL);
}

static void end_import(struct bus *bus, unsigned slot)
{
    const struct node_move *move = members_move_of(bus->members, slot);

    if (move != NULL && move->is_import)
        members_end_move(bus->members, slot);
}

const char *bus_add_slots(struct bus *bus, const struct slots *slots)
{
    struct slot_range range;

    if (!(bus->members->myself->flags & NODE_MASTER))
        return "ERR Slots can be assigned only to masters.";
    for (unsigned at = 0; slots_next(slots, at, &range); at = range.last + 1U) {
        for (unsigned slot = range.first; slot <= range.last; slot++) {
            end_import(bus, slot);
            members_bind(bus->members, slot, bus->members->myself);
        }
    }
    bus_note(bus, BUS_CHANGE_FILE | BUS_CHANGE_MAP);
    bus_finish(bus);
    return NULL;
}

const char *bus_remove_slots(struct bus *bus, const struct slots *slots)
{
    struct slot_range range;

    for (unsigned at = 0; slots_next(slots, at, &range); at = range.last + 1U) {
        for (unsigned slot = range.first; slot <= range.last; slot++) {
            end_import(bus, slot);
            unbind_slot(bus, slot);
        }
    }
    bus_note(bus, BUS_CHANGE_FILE | BUS_CHANGE_MAP);
    bus_finish(bus);
    return NULL;
}

const char *bus_flush_slots(struct bus *bus)
{
    struct slots slots = bus->members->myself->slots;
    struct slot_range range;

    for (unsigned at = 0; slots_next(&slots, at, &range); at = range.last + 1U) {
        for (unsigned slot = range.first; slot <= range.last; slot++)
            unbind_slot(bus, slot);
    }
    bus_note(bus, BUS_CHANGE_FILE | BUS_CHANGE_MAP);
    bus_finish(bus);
    return NULL;
}

/* --- Moving slots. Errors in the order of Redis. */

static const char not_a_primary[] = "ERR Please use SETSLOT only with masters.";
static const char not_a_target[] = "ERR Target node is not a master";

/* NULL: no atomic migration has it. */
static const char *check_migrations(struct bus *bus, unsigned slot)
{
    if (slots_has(&bus->members->received, slot))
        return bus_refuse(bus, "ERR slot %u is being received from another node", slot);
    if (slots_has(&bus->members->handed_over, slot))
        return bus_refuse(bus, "ERR slot %u is being handed over to another node", slot);
    return NULL;
}

static const char *begin_move(struct bus *bus, unsigned slot, const struct node_id *id, bool is_import)
{
    struct node *other = bus_known(bus, id), *myself = bus->members->myself;

    if (!(myself->flags & NODE_MASTER))
        return not_a_primary;
    if (!is_import && bus->members->owners[slot] != myself)
        return bus_refuse(bus, "ERR I'm not the owner of hash slot %u", slot);
    if (is_import && bus->members->owners[slot] == myself)
        return bus_refuse(bus, "ERR I'm already the owner of hash slot %u", slot);
    if (other == NULL)
        return bus_refuse(bus, "ERR I don't know about node %.40s", id->text);
    if (!(other->flags & NODE_MASTER))
        return not_a_target;
    if (check_migrations(bus, slot) != NULL)
        return bus->own->error.text;
    members_begin_move(bus->members, &(struct node_move){ other, (uint16_t)slot, is_import });
    bus_note(bus, BUS_CHANGE_FILE | BUS_CHANGE_MAP);
    bus_finish(bus);
    return NULL;
}

const char *bus_begin_export(struct bus *bus, unsigned slot, const struct node_id *to)
{
    return begin_move(bus, slot, to, false);
}

const char *bus_begin_import(struct bus *bus, unsigned slot, const struct node_id *from)
{
    return begin_move(bus, slot, from, true);
}

const char *bus_end_move(struct bus *bus, unsigned slot)
{
    if (!(bus->members->myself->flags & NODE_MASTER))
        return not_a_primary;
    members_end_move(bus->members, slot);
    bus_note(bus, BUS_CHANGE_FILE | BUS_CHANGE_MAP);
    bus_finish(bus);
    return NULL;
}

static void raise_epoch(struct bus *bus)
{
    if (!claim_raise_epoch(bus->members))
        return;
    bus_note(bus, BUS_CHANGE_PROMISE | BUS_CHANGE_MAP);
    bus_log(bus, "New epoch of this node: %llu", (unsigned long long)bus->members->myself->config_epoch);
}

/* The slot is this node's now, with an epoch by which the others will believe it. */
static void finish_import(struct bus *bus, unsigned slot)
{
    members_end_move(bus->members, slot);
    raise_epoch(bus);
    bus_gossip_pong_to_all(bus);
}

const char *bus_assign_slot(struct bus *bus, unsigned slot, const struct node_id *id, bool has_keys, int64_t now_ms)
{
    struct members *members = bus->members;
    struct node *owner = bus_known(bus, id), *myself = members->myself;
    const struct node_move *move = members_move_of(members, slot);
    bool was_mine = members->owners[slot] == myself, is_import = move != NULL && move->is_import;

    bus_begin(bus, now_ms);
    if (!(myself->flags & NODE_MASTER))
        return not_a_primary;
    if (owner == NULL)
        return bus_refuse(bus, "ERR Unknown node %.40s", id->text);
    if (!(owner->flags & NODE_MASTER))
        return not_a_target;
    if (was_mine && owner != myself && has_keys)
        return bus_refuse(bus, "ERR Can't assign hashslot %u to a different node while I still hold keys for this hash slot.", slot);
    if (check_migrations(bus, slot) != NULL)
        return bus->own->error.text;
    if (owner == myself && is_import && members->handed_epoch != 0)
        return "TRYAGAIN Slots of this node are being handed over";             /* it would need a new epoch */
    if (!has_keys && move != NULL && !is_import)
        members_end_move(members, slot);
    slots_remove(&members->conceded, slot);
    members_bind(members, slot, owner);
    bus_note(bus, BUS_CHANGE_FILE | BUS_CHANGE_MAP);
    if (was_mine && owner != myself && myself->slot_count == 0 && bus->options.allows_replica_migration)
        bus_role_follow(bus, owner);
    else if (owner == myself && is_import)
        finish_import(bus, slot);
    bus_finish(bus);
    return NULL;
}

/* --- Roles */

const char *bus_replicate(struct bus *bus, const struct node_id *id, bool has_keys, int64_t now_ms)
{
    struct node *master = bus_known(bus, id), *myself = bus->members->myself;

    bus_begin(bus, now_ms);
    if (master == NULL)
        return bus_refuse(bus, "ERR Unknown node %.40s", id->text);
    if (master == myself)
        return "ERR Can't replicate myself";
    if (!(master->flags & NODE_MASTER))
        return "ERR I can only replicate a master, not a replica.";
    if (myself->flags & NODE_MASTER && (myself->slot_count > 0 || has_keys))
        return "ERR To set a master the node must be empty and without assigned slots.";
    bus_role_follow(bus, master);
    bus_finish(bus);
    return NULL;
}

const char *bus_failover(struct bus *bus, enum bus_failover how, int64_t now_ms)
{
    struct node *master = bus->members->myself->master;

    bus_begin(bus, now_ms);
    if (bus->members->myself->flags & NODE_MASTER)
        return "ERR You should send CLUSTER FAILOVER to a replica";
    if (master == NULL)
        return "ERR I'm a replica but my master is unknown to me";
    if (how == BUS_FAILOVER_AGREED && (master->flags & NODE_FAIL || !master->is_connected))
        return "ERR Master is down or failed, please use CLUSTER FAILOVER FORCE";
    bus->own->manual = (struct bus_manual){ .until_ms = bus->own->now_ms + BUS_MANUAL_MS, .until_real_ms = bus->own->real_ms + BUS_MANUAL_MS,
                                            .can_start = how == BUS_FAILOVER_FORCED };
    bus->own->election = (struct bus_election){ 0 };
    bus_log(bus, "Failover requested by a user");
    if (how == BUS_FAILOVER_AGREED)
        bus_send_simple(bus, master, BUS_MFSTART);
    if (how == BUS_FAILOVER_TAKEOVER) {
        raise_epoch(bus);
        bus_role_take_over(bus);
    }
    bus_finish(bus);
    return NULL;
}

static void forget_all(struct bus *bus)
{
    struct members *members = bus->members;

    for (unsigned i = members->count; i > 0; i--) {
        if (members->all[i - 1] != members->myself)
            bus_remove_node(bus, members->all[i - 1]);
    }
    bus->own->forgotten_count = 0;
}

/* Another node, as far as the others can see. */
static void take_new_identity(struct bus *bus)
{
    struct members *members = bus->members;
    struct node_id id;

    members->current_epoch = members->last_vote_epoch = 0;
    members->myself->config_epoch = 0;
    node_id_make(&bus->own->random, &id);
    members_rename(members, members->myself, &id);
    node_id_make(&bus->own->random, &id);
    members_set_shard(members, members->myself, &id);
}

const char *bus_reset(struct bus *bus, bool is_hard, bool has_keys, int64_t now_ms)
{
    struct members *members = bus->members;

    bus_begin(bus, now_ms);
    if (members->myself->flags & NODE_MASTER && has_keys)
        return "ERR CLUSTER RESET can't be called with master nodes containing keys";
    if (!(members->myself->flags & NODE_MASTER)) {
        members_set_primary(members, members->myself);
        bus->outcome.role = BUS_ROLE_LEAD;
        bus->outcome.empties = true;
    }
    bus_end_manual(bus);
    bus_end_migrations(bus);
    bus->own->election = (struct bus_election){ 0 };
    members->move_count = 0;
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        unbind_slot(bus, slot);
    forget_all(bus);
    if (is_hard)
        take_new_identity(bus);
    bus_log(bus, "Cluster reset: this node is %.40s, alone", members->myself->id.text);
    bus_note(bus, BUS_CHANGE_FILE | BUS_CHANGE_MAP);
    bus_finish(bus);
    return NULL;
}

const char *bus_set_config_epoch(struct bus *bus, uint64_t epoch)
{
    if (bus->members->count > 1)
        return "ERR The user can assign a config epoch only when the node does not know any other node.";
    if (bus->members->myself->config_epoch != 0)
        return "ERR Node config epoch is already non-zero";
    members_set_epoch(bus->members, bus->members->myself, epoch);
    bus_note(bus, BUS_CHANGE_PROMISE | BUS_CHANGE_MAP);
    bus_finish(bus);
    return NULL;
}

void bus_bump_epoch(struct bus *bus, bool *bumped)
{
    uint64_t before = bus->members->myself->config_epoch;

    raise_epoch(bus);
    *bumped = bus->members->myself->config_epoch != before;
    if (*bumped)
        bus_gossip_pong_to_all(bus);
    bus_finish(bus);
}
