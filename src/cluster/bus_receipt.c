
#include "cluster/bus_private.h"

enum { RECEIPT_MS = 10000 };

/* The sender has said something. */
static void prolong(struct bus *bus)
{
    bus->own->receipt.until_ms = bus->own->now_ms + RECEIPT_MS;
    bus->own->receipt.until_real_ms = bus->own->real_ms + RECEIPT_MS;
}

void bus_receipt_forget(struct bus *bus)
{
    bus->members->received = (struct slots){ { 0 } };
    bus->members->receipt = 0;
    bus_note(bus, BUS_CHANGE_PROMISE | BUS_CHANGE_MAP);
}

static void drop_slots(struct bus *bus)
{
    slots_add_all(&bus->outcome.lost, &bus->members->received);
    bus_receipt_forget(bus);
}

void bus_drop_unwanted(struct bus *bus)
{
    slots_add_all(&bus->outcome.lost, &bus->members->unwanted);
    bus_finish(bus);
}

void bus_receipt_step(struct bus *bus)
{
    if (bus->members->receipt == 0 || bus->own->now_ms < bus->own->receipt.until_ms)
        return;
    bus_log(bus, "Slots are no longer received from %.40s, which says nothing", bus->own->receipt.from.text);
    drop_slots(bus);
}

/* NULL: all of the slots are the sender's. */
static const char *check_owners(struct bus *bus, const struct slots *slots, const struct node *from)
{
    struct slot_range range;

    for (unsigned at = 0; slots_next(slots, at, &range); at = range.last + 1U) {
        for (unsigned slot = range.first; slot <= range.last; slot++) {
            if (bus->members->owners[slot] != from)
                return bus_refuse(bus, "ERR slot %u is not a slot of node %.40s", slot, from->id.text);
            if (members_move_of(bus->members, slot) != NULL)
                return bus_refuse(bus, "ERR slot %u is being moved by keys", slot);
        }
    }
    return NULL;
}

const char *bus_begin_receipt(struct bus *bus, const struct slots *slots, const struct node_id *from, int64_t now_ms, uint64_t *receipt)
{
    struct members *members = bus->members;
    struct bus_receipt *own = &bus->own->receipt;
    struct node *sender = bus_known(bus, from);
    const char *error;

    bus_begin(bus, now_ms);
    if (!(members->myself->flags & NODE_MASTER))
        return "ERR only a primary receives slots";
    if (sender == NULL || sender == members->myself)
        return bus_refuse(bus, "ERR Unknown node %.40s", from->text);
    if (members->receipt != 0)
        return "TRYAGAIN this node receives slots of another migration";
    error = check_owners(bus, slots, sender);
    if (error != NULL)
        return error;
    own->last = own->last >= (uint64_t)now_ms ? own->last + 1 : (uint64_t)now_ms;      /* nor one of before a start */
    own->from = *from;
    prolong(bus);
    members->received = *slots;
    slots_add_all(&members->unwanted, slots);
    members->receipt = *receipt = own->last;
    bus_note(bus, BUS_CHANGE_PROMISE | BUS_CHANGE_MAP);
    bus_log(bus, "%u slots are received from %.40s", slots_count(slots), from->text);
    bus_finish(bus);
    return NULL;
}

static const char *check_receipt(struct bus *bus, uint64_t receipt)
{
    return receipt != 0 && receipt == bus->members->receipt ? NULL : "ERR this migration has ended here";
}

const char *bus_keep_receipt(struct bus *bus, uint64_t receipt, int64_t now_ms)
{
    const char *error = check_receipt(bus, receipt);

    bus_begin(bus, now_ms);
    if (error == NULL)
        prolong(bus);
    return error;
}

/* If this node was stopped or cut off meanwhile the sender may have given up, taken the slots back, or been replaced, which this node would not have heard yet. */
static const char *check_time(const struct bus *bus)
{
    const struct bus_private *own = bus->own;

    if (!bus->is_ok)
        return "ERR the cluster is down for this node";
    return own->now_ms >= own->receipt.until_ms || own->real_ms >= own->receipt.until_real_ms ? "ERR this migration is too late" : NULL;
}

const char *bus_receipt_judge(struct bus *bus, uint64_t receipt)
{
    const char *error = check_receipt(bus, receipt);

    if (error == NULL && bus_known(bus, &bus->own->receipt.from) == NULL)
        error = "ERR the sender was forgotten";
    if (error == NULL)
        error = check_owners(bus, &bus->members->received, bus_known(bus, &bus->own->receipt.from));
    return error != NULL ? error : check_time(bus);
}

const char *bus_take_receipt(struct bus *bus, uint64_t receipt, uint64_t epoch, int64_t now_ms)
{
    struct members *members = bus->members;
    struct slots slots = members->received;
    const char *error;
    struct slot_range range;

    bus_begin(bus, now_ms);
    if (receipt != 0 && receipt == bus->own->receipt.taken)
        return NULL;
    error = bus_receipt_judge(bus, receipt);
    if (error == NULL && members->handed_epoch != 0)
        error = "TRYAGAIN this node's own slots are being handed over";        /* see take_epoch */
    if (error == NULL && epoch <= members->current_epoch)
        error = bus_refuse(bus, "TRYAGAIN the epoch is not above %llu", (unsigned long long)members->current_epoch);
    if (error != NULL)
        return error;
    for (unsigned at = 0; slots_next(&slots, at, &range); at = range.last + 1U) {
        for (unsigned slot = range.first; slot <= range.last; slot++) {
            slots_remove(&members->conceded, slot);
            members_bind(members, slot, members->myself);
        }
    }
    members_set_epoch(members, members->myself, epoch);
    bus->own->receipt.taken = receipt;
    bus_receipt_forget(bus);
    bus_log(bus, "%u slots of %.40s are this node's, in epoch %llu", slots_count(&slots), bus->own->receipt.from.text, (unsigned long long)epoch);
    bus_gossip_pong_to_all(bus);
    bus_finish(bus);
    return NULL;
}

bool bus_end_receipt(struct bus *bus, uint64_t receipt, unsigned slot, int64_t now_ms)
{
    bus_begin(bus, now_ms);
    if ((receipt != 0 && receipt == bus->own->receipt.taken) || bus->members->owners[slot] == bus->members->myself) {
        bus_note(bus, BUS_CHANGE_PROMISE);      /* the reply promises it: it may not be saved yet */
        return true;
    }
    if (check_receipt(bus, receipt) == NULL) {
        bus_log(bus, "The migration from %.40s was given up", bus->own->receipt.from.text);
        drop_slots(bus);
        bus_finish(bus);
    }
    return false;
}

static bool own_all(const struct members *members, const struct slots *slots)
{
    struct slot_range range;

    for (unsigned at = 0; slots_next(slots, at, &range); at = range.last + 1U) {
        for (unsigned slot = range.first; slot <= range.last; slot++) {
            if (members->owners[slot] != members->myself || members_move_of(members, slot) != NULL)
                return false;
        }
    }
    return true;
}

const char *bus_hand_over(struct bus *bus, const struct slots *slots, const struct node_id *to, uint64_t receipt)
{
    if (!own_all(bus->members, slots))
        return "the slots are not this node's any more";
    if (bus->members->handed_epoch != 0)
        return "it is not known yet whether other slots were taken";
    if (bus->hold_writes_until_ms != 0)
        return "this node's replica takes over";
    bus->members->handed_over = *slots;
    bus->members->handed_to = *to;
    bus->members->handed_receipt = receipt;
    bus_note(bus, BUS_CHANGE_MAP);
    bus_finish(bus);
    return NULL;
}

void bus_let_take(struct bus *bus, uint64_t epoch)
{
    bus->members->handed_epoch = epoch;
    bus_note(bus, (epoch != 0 ? BUS_CHANGE_PROMISE : BUS_CHANGE_FILE) | BUS_CHANGE_MAP);
    bus_finish(bus);
}

void bus_end_hand_over(struct bus *bus)
{
    bus->members->handed_over = (struct slots){ { 0 } };
    bus->members->handed_epoch = 0;
    bus_note(bus, BUS_CHANGE_FILE | BUS_CHANGE_MAP);
    bus_finish(bus);
}

bool bus_take_back(struct bus *bus)
{
    struct members *members = bus->members;

    if (!own_all(members, &members->handed_over))
        return false;
    members_set_epoch(members, members->myself, members->handed_epoch + 1);
    bus_note(bus, BUS_CHANGE_PROMISE);
    bus_log(bus, "The node that was to take slots over has failed: they stay, in epoch %llu", (unsigned long long)members->handed_epoch + 1);
    bus_gossip_pong_to_all(bus);
    bus_end_hand_over(bus);
    return true;
}

const char *bus_drop_slots(struct bus *bus, const struct slots *slots)
{
    struct slot_range range;

    if (!(bus->members->myself->flags & NODE_MASTER))
        return "ERR only a primary drops slots";
    for (unsigned at = 0; slots_next(slots, at, &range); at = range.last + 1U) {
        for (unsigned slot = range.first; slot <= range.last; slot++) {
            if (bus->members->owners[slot] == bus->members->myself || bus->members->owners[slot] == NULL)
                return bus_refuse(bus, "ERR slot %u is not another node's", slot);
            if (members_move_of(bus->members, slot) != NULL || slots_has(&bus->members->received, slot))
                return bus_refuse(bus, "ERR slot %u is being moved", slot);
        }
    }
    slots_add_all(&bus->outcome.lost, slots);
    bus_note(bus, BUS_CHANGE_FILE);
    bus_finish(bus);
    return NULL;
}
