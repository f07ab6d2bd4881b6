#include "cluster/managed_move.h"

#include <inttypes.h>

#include "base/mem.h"
#include "cluster/bus_private.h"
#include "cluster/managed_state.h"

static struct node *primary_of(struct node *node) { return node != NULL && node->master != NULL ? node->master : node; }

void managed_step(struct bus *bus, int64_t now_ms)
{
    bus_begin(bus, now_ms);
    bus_receipt_step(bus);
    bus_finish(bus);
}

/* --- The node that receives --- */

const char *managed_take(struct bus *bus, uint64_t receipt, uint64_t version, int64_t now_ms, struct managed_taken *undo)
{
    struct members *members = bus->members;
    struct bus_receipt *own = &bus->own->receipt;
    struct slot_range range;
    const char *error;

    bus_begin(bus, now_ms);
    *undo = (struct managed_taken){ .slots = { { 0 } } };
    if (receipt != 0 && receipt == own->taken)
        return NULL;
    error = bus_receipt_judge(bus, receipt);
    if (error == NULL && version != members->current_epoch)
        error = bus_refuse(bus, "ERR the topology of this node has version %" PRIu64 ", not %" PRIu64, members->current_epoch, version);
    if (error != NULL)
        return error;
    *undo = (struct managed_taken){ members->received, own->from, receipt, own->taken };
    for (unsigned at = 0; slots_next(&undo->slots, at, &range); at = range.last + 1U) {
        for (unsigned slot = range.first; slot <= range.last; slot++) {
            moved_slots_add(&members->moved, slot, &own->from, &members->myself->id);
            members_bind(members, slot, members->myself);
        }
    }
    own->taken = receipt;
    bus_receipt_forget(bus);
    bus_log(bus, "%u slots of %.40s are this node's", slots_count(&undo->slots), own->from.text);
    bus_finish(bus);
    return NULL;
}

void managed_untake(struct bus *bus, const struct managed_taken *undo)
{
    struct members *members = bus->members;
    struct node *from = members_find(members, &undo->from);
    struct slot_range range;

    if (slots_count(&undo->slots) == 0)
        return;
    for (unsigned at = 0; slots_next(&undo->slots, at, &range); at = range.last + 1U) {
        for (unsigned slot = range.first; slot <= range.last; slot++) {
            moved_slots_remove(&members->moved, slot);
            members_bind(members, slot, from);
        }
    }
    members->received = undo->slots;
    members->receipt = undo->receipt;
    slots_add_all(&members->unwanted, &undo->slots);
    bus->own->receipt.taken = undo->taken_before;
    bus_note(bus, BUS_CHANGE_PROMISE | BUS_CHANGE_MAP);
    bus_log(bus, "They are not: nodes.conf can't be saved");
}

/* The reply is a promise in both cases, and it may not be saved yet. */
const char *managed_end_receipt(struct bus *bus, uint64_t receipt, unsigned slot, const struct node_id *asker, int64_t now_ms, bool *was_taken)
{
    struct members *members = bus->members;
    const struct node *owner = members->owners[slot], *asking = primary_of(members_find(members, asker));

    if (members->myself->master != NULL)
        return "ERR this node is a replica";        /* it may still hear that its primary has them */
    bus_note(bus, BUS_CHANGE_PROMISE);
    if (owner != members->myself && (receipt == 0 || receipt != bus->own->receipt.taken)) {
        if (asking == NULL)
            return bus_refuse(bus, "ERR Unknown node %.40s", asker->text);
        if (owner == NULL)
            return bus_refuse(bus, "ERR no node has slot %u", slot);
        if (owner != asking) {                      /* it was taken, and has moved on since */
            *was_taken = true;
            return NULL;
        }
    }
    *was_taken = bus_end_receipt(bus, receipt, slot, now_ms);
    return NULL;
}

/* --- The node that sends --- */

const char *managed_may_migrate(struct bus *bus, const struct slots *slots, const struct node_id *to)
{
    const struct members *members = bus->members;
    const struct node *target = members_find(members, to);
    struct slot_range range;

    if (!managed_is_initialized(bus))
        return managed_not_initialized;
    if (target == NULL)
        return "ERR Can't find the destination node id";
    if (members->handed_epoch != 0)
        return "ERR There is already a migrating job";         /* of before a start, or of the node that this one has replaced */
    if (moved_slots_overlap(&members->moved, slots))
        return "ERR Can't migrate slot which has been migrated";
    for (unsigned at = 0; slots_next(slots, at, &range); at = range.last + 1U) {
        for (unsigned slot = range.first; slot <= range.last; slot++) {
            if (members->owners[slot] != members->myself)
                return "ERR Can't migrate slot which doesn't belong to me";
        }
    }
    if (target->master != NULL)
        return "ERR Can't migrate slot to a slave";
    return target == members->myself ? "ERR Can't migrate slot to myself" : NULL;
}

void managed_end_hand_over(struct bus *bus)
{
    struct members *members = bus->members;
    struct node *to = primary_of(members_find(members, &members->handed_to));
    struct slots slots = members->handed_over;
    struct slot_range range;

    for (unsigned at = 0; slots_next(&slots, at, &range); at = range.last + 1U) {
        for (unsigned slot = range.first; slot <= range.last; slot++) {
            if (members->owners[slot] != members->myself || to == members->myself)
                continue;
            moved_slots_add(&members->moved, slot, &members->myself->id, to != NULL ? &to->id : &members->handed_to);
            members_bind(members, slot, to);
            if (to != NULL)
                slots_add(&bus->outcome.lost, slot);
        }
    }
    managed_refresh(bus);
    bus_log(bus, "%u slots have moved to %.40s", slots_count(&slots), members->handed_to.text);
    bus_note(bus, BUS_CHANGE_PROMISE);
    bus_end_hand_over(bus);
}

/* --- From one table to the next --- */

static struct node *known_in(const struct members *next, bool is_member, const struct node_id *id)
{
    struct node *node = members_find(next, id);

    return node != next->myself || is_member ? primary_of(node) : NULL;
}

/* The primary in `next` of the shard that the node was in. NULL: none of its nodes is there. */
static struct node *heir_of(const struct members *old, const struct members *next, bool is_member, const struct node_id *id)
{
    const struct node *was = primary_of(members_find(old, id));
    struct node *heir = known_in(next, is_member, id);

    if (heir == NULL && was != NULL)
        heir = known_in(next, is_member, &was->id);
    for (unsigned i = 0; i < old->count && heir == NULL; i++) {
        if (was != NULL && old->all[i]->master == was)
            heir = known_in(next, is_member, &old->all[i]->id);
    }
    return heir;
}

/* Lays a set over the owners of `next`. */
static void lay_over(const struct members *old, struct members *next, bool is_member, const struct moved_set *set, const struct slots *named)
{
    const struct node *from = heir_of(old, next, is_member, &set->from);
    struct node *to = heir_of(old, next, is_member, &set->to);
    struct slot_range range;

    if (from == NULL || from == to)
        return;
    for (unsigned at = 0; slots_next(&set->slots, at, &range); at = range.last + 1U) {
        for (unsigned slot = range.first; slot <= range.last; slot++) {
            if (next->owners[slot] != from || slots_has(named, slot))
                continue;
            moved_slots_add(&next->moved, slot, &from->id, to != NULL ? &to->id : &set->to);
            members_bind(next, slot, to);
        }
    }
}

/* Keeps in doubt the slots that this node's shard still has. */
static void carry_hand_over(const struct members *old, struct members *next, bool is_member, const struct slots *named)
{
    const struct node *own = primary_of(next->myself), *to = heir_of(old, next, is_member, &old->handed_to);
    struct slot_range range;

    next->handed_over = (struct slots){ { 0 } };
    next->handed_epoch = 0;
    if (!is_member || (old->handed_epoch == 0 && next->myself->master != NULL))
        return;
    for (unsigned at = 0; slots_next(&old->handed_over, at, &range); at = range.last + 1U) {
        for (unsigned slot = range.first; slot <= range.last; slot++) {
            if (next->owners[slot] == own && !slots_has(named, slot))
                slots_add(&next->handed_over, slot);
        }
    }
    if (slots_count(&next->handed_over) == 0)
        return;
    next->handed_epoch = old->handed_epoch;
    next->handed_to = old->handed_to;
    next->handed_receipt = old->handed_receipt;
    if (to != NULL && members_find(next, &old->handed_to) == NULL) {
        next->handed_to = to->id;
        next->handed_receipt = 0;                   /* it has numbers of its own */
    }
}

static bool has_all(const struct members *members, const struct node *node, const struct slots *slots)
{
    struct slot_range range;

    for (unsigned at = 0; slots_next(slots, at, &range); at = range.last + 1U) {
        for (unsigned slot = range.first; slot <= range.last; slot++) {
            if (members->owners[slot] != node)
                return false;
        }
    }
    return true;
}

static void carry_receipt(struct bus *bus, struct members *next, bool is_member, const struct slots *named)
{
    const struct members *old = bus->members;
    const struct node *from = members_find(next, &bus->own->receipt.from);

    next->received = (struct slots){ { 0 } };
    next->receipt = 0;
    if (old->receipt == 0)
        return;
    if (is_member && next->myself->master == NULL && from != NULL && has_all(next, from, &old->received) && !slots_overlap(&old->received, named)) {
        next->received = old->received;
        next->receipt = old->receipt;
    } else if (next->myself->master == NULL) {
        bus_log(bus, "Slots are no longer received from %.40s: the topology is another one", bus->own->receipt.from.text);
        slots_add_all(&bus->outcome.lost, &old->received);
    }
}

/* A replica gets its primary's data. */
static void carry_unwanted(const struct members *old, struct members *next)
{
    next->unwanted = next->myself->master == NULL ? old->unwanted : (struct slots){ { 0 } };
    for (size_t i = 0; i < SLOTS_SIZE; i++)
        next->unwanted.bits[i] &= (uint8_t)~next->myself->slots.bits[i];
}

void managed_carry(struct bus *bus, struct members *next, bool is_member, const struct slots *named)
{
    const struct members *old = bus->members;

    moved_slots_release(&next->moved);
    for (unsigned i = 0; i < old->moved.count; i++)
        lay_over(old, next, is_member, &old->moved.all[i], named);
    carry_hand_over(old, next, is_member, named);
    carry_receipt(bus, next, is_member, named);
    carry_unwanted(old, next);
}

void managed_undo_moves(struct members *members)
{
    struct slot_range range;

    for (unsigned i = 0; i < members->moved.count; i++) {
        const struct moved_set *set = &members->moved.all[i];
        struct node *from = primary_of(members_find(members, &set->from));

        for (unsigned at = 0; slots_next(&set->slots, at, &range); at = range.last + 1U) {
            for (unsigned slot = range.first; slot <= range.last; slot++)
                members_bind(members, slot, from);
        }
    }
    moved_slots_release(&members->moved);
}

void managed_lose_moved(struct bus *bus)
{
    const struct members *members = bus->members;

    for (unsigned i = 0; i < members->moved.count && members->myself->master == NULL; i++) {
        const struct moved_set *set = &members->moved.all[i];

        if (primary_of(members_find(members, &set->from)) == members->myself && members_find(members, &set->to) != NULL)
            slots_add_all(&bus->outcome.lost, &set->slots);
    }
}

/* --- The stream --- */

/* The primary has a later topology than this node: what has moved by that can't be compared with the owners here, and is kept for the next one. */
static void keep_ahead(struct members *members, const struct moved_set *set)
{
    struct node *to = primary_of(members_find(members, &set->to));
    struct slot_range range;

    for (unsigned at = 0; slots_next(&set->slots, at, &range); at = range.last + 1U) {
        for (unsigned slot = range.first; slot <= range.last; slot++) {
            moved_slots_add(&members->moved, slot, &set->from, to != NULL ? &to->id : &set->to);
            members_bind(members, slot, to);
        }
    }
}

bool managed_hear_moves(struct bus *bus, struct bytes text)
{
    static const struct slots none;
    struct members *members = bus->members;
    struct nodes_file *file = mem_zalloc(sizeof(*file));
    bool is_good = nodes_file_read_moves(text, file);

    if (is_good) {
        managed_undo_moves(members);
        for (unsigned i = 0; i < file->moved.count; i++) {
            if (file->current_epoch > members->current_epoch)
                keep_ahead(members, &file->moved.all[i]);
            else
                lay_over(members, members, true, &file->moved.all[i], &none);
        }
        members->handed_over = file->handed_over;
        members->handed_to = file->handed_to;
        members->handed_epoch = file->handed_epoch;
        members->handed_receipt = file->handed_receipt;
        managed_lose_moved(bus);
        bus_note(bus, BUS_CHANGE_PROMISE | BUS_CHANGE_MAP);
        managed_refresh(bus);
        bus_finish(bus);
    }
    nodes_file_release(file);
    mem_free(file);
    return is_good;
}
