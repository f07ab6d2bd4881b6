/* Atomic migration: CLUSTER MIGRATESLOTS and its like for administrators, and RECEIVESLOTS, which the sending node calls (cluster/slot_export.h). */
#include "base/clock.h"
#include "base/mem.h"
#include "cluster/managed_move.h"
#include "cluster/slot_export.h"
#include "commands/cluster_call.h"
#include "commands/cluster_keys.h"
#include "commands/handlers.h"
#include "engine/dataset.h"
#include "engine/redirect.h"
#include "persist/aof.h"

enum { MIGRATIONS_MAX = 16 };           /* of one command */

/* --- MIGRATESLOTS SLOTSRANGE first last [first last ...] NODE id [SLOTSRANGE ...] --- */

struct wanted {
    struct cluster_call asked;
    struct slots slots[MIGRATIONS_MAX];
    struct node_id to[MIGRATIONS_MAX];
    int count;
};

static bool check_wanted(struct cluster_call *asked, const struct bus *bus, const struct slots *slots, const struct node_id *to)
{
    const struct node *node = members_find(bus->members, to), *myself = bus->members->myself;
    struct slot_range range;

    if (node == NULL || node->flags & NODE_HANDSHAKE)
        cluster_call_fail(asked, "ERR Unknown node %.40s", to->text);
    else if (node == myself)
        cluster_call_fail(asked, "ERR the slots are this node's already");
    else if (!(node->flags & NODE_MASTER))
        cluster_call_fail(asked, "ERR Target node is not a master");
    for (unsigned at = 0; asked->error.size == 0 && slots_next(slots, at, &range); at = range.last + 1U) {
        for (unsigned slot = range.first; asked->error.size == 0 && slot <= range.last; slot++) {
            if (bus->members->owners[slot] != myself)
                cluster_call_fail(asked, "ERR I'm not the owner of hash slot %u", slot);
            else if (members_move_of(bus->members, slot) != NULL)
                cluster_call_fail(asked, "ERR hash slot %u is being moved by SETSLOT", slot);
        }
    }
    return asked->error.size == 0;
}

static void migrate_slots(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    struct wanted *wanted = (struct wanted *)asked;
    struct message message = { "" };

    if (!(bus->members->myself->flags & NODE_MASTER)) {
        cluster_call_fail(asked, "ERR only a primary has slots to migrate");
        return;
    }
    for (int i = 0; i < wanted->count; i++) {
        if (!check_wanted(asked, bus, &wanted->slots[i], &wanted->to[i]))
            return;
    }
    if (!slot_export_add(engine->replication.slot_export, wanted->slots, wanted->to, wanted->count, NULL, &message))
        cluster_call_fail(asked, "ERR %s", message.text);
}

static bool read_migration(struct call *call, int *arg, struct wanted *wanted, struct slots *all)
{
    struct slots *slots = &wanted->slots[wanted->count];

    if (wanted->count == MIGRATIONS_MAX || *arg + 4 >= call->arg_count || !arg_is(call, *arg, "slotsrange")) {
        reply_error(call, ERR_SYNTAX);
        return false;
    }
    ++*arg;
    if (!cluster_call_read_ranges(call, arg, slots))
        return false;
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        if (slots_has(slots, slot) && slots_has(all, slot)) {
            reply_errorf(call, "ERR Slot %u specified multiple times", slot);
            return false;
        }
        if (slots_has(slots, slot))
            slots_add(all, slot);
    }
    if (*arg + 1 >= call->arg_count || !arg_is(call, *arg, "node")) {
        reply_error(call, ERR_SYNTAX);
        return false;
    }
    if (!node_id_read(call->args[*arg + 1], &wanted->to[wanted->count])) {
        reply_errorf(call, "ERR Unknown node %.*s", (int)call->args[*arg + 1].size, call->args[*arg + 1].data);
        return false;
    }
    wanted->count++;
    *arg += 2;
    return true;
}

void cluster_migrateslots_command(struct call *call)
{
    struct cluster_call *asked;
    struct slots all = { { 0 } };
    int arg = 2;

    if (!cluster_call_is_gossip(call) || (asked = cluster_call_new_sized(call, migrate_slots, NULL, sizeof(struct wanted))) == NULL)
        return;
    while (arg < call->arg_count && !call->failed && read_migration(call, &arg, (struct wanted *)asked, &all))
        continue;
    cluster_call_start(call, asked);
}

void cluster_cancelslotmigrations_command(struct call *call)
{
    if (cluster_call_cluster(call) == NULL)
        return;
    if (slot_export_cancel(call->engine->replication.slot_export, NULL) == 0)
        reply_errorf(call, "ERR No migrations ongoing");
    else
        reply_ok(call->reply);
}

static void reply_field(struct call *call, const char *name, struct bytes value)
{
    reply_bulk(call->reply, bytes_of_string(name));
    reply_bulk(call->reply, value);
}

static void reply_number_field(struct call *call, const char *name, int64_t value)
{
    reply_bulk(call->reply, bytes_of_string(name));
    reply_integer(call->reply, value);
}

static void reply_job(struct call *call, const struct slot_export_job *job, const char *own_id)
{
    struct buffer ranges = { 0 };

    slots_append_ranges(&job->slots, &ranges);
    reply_map(call->reply, 12);
    reply_field(call, "name", bytes_of_string(job->name));
    reply_field(call, "operation", BYTES("EXPORT"));
    reply_field(call, "slot_ranges", buffer_bytes(&ranges));
    reply_field(call, "target_node", bytes_of(job->to.text, NODE_ID_SIZE));
    reply_field(call, "source_node", bytes_of(own_id, NODE_ID_SIZE));
    reply_number_field(call, "create_time", job->created_ms / 1000);
    reply_number_field(call, "last_update_time", job->changed_ms / 1000);
    reply_field(call, "state", bytes_of_string(slot_export_state_name(job->state)));
    reply_field(call, "message", bytes_of_string(job->message.text));
    reply_number_field(call, "keys", (int64_t)job->keys);
    reply_number_field(call, "bytes", (int64_t)job->bytes);
    reply_number_field(call, "writes_held_us", job->held_us);
    buffer_release(&ranges);
}

void cluster_getslotmigrations_command(struct call *call)
{
    struct slot_export_job *jobs;
    struct topology *topology;
    int count;

    if (cluster_call_cluster(call) == NULL)
        return;
    topology = cluster_topology(call->engine->replication.cluster);
    count = slot_export_list(call->engine->replication.slot_export, &jobs);
    reply_array(call->reply, (size_t)count);
    for (int i = 0; i < count; i++)
        reply_job(call, &jobs[i], topology->nodes[topology->myself].id.text);
    mem_free(jobs);
    topology_release(topology);
}

/* --- RECEIVESLOTS BEGIN id first last [first last ...] | KEEP receipt | TAKE receipt epoch | END receipt slot [id] | DROP first last [first last ...]
 * with a controller, whose topology has a version, TAKE receipt version, and END with the ID of the node that asks;
 * and of the node that is to receive: REQUEST name id first last [first last ...] | STATE name | CANCEL name --- */

/* Keys of another node's slot that are here already are not known there: they would be mixed with what comes. */
static bool are_empty(struct cluster_call *asked, struct engine *engine)
{
    struct slot_range range;
    bool has_keys;

    for (unsigned at = 0; slots_next(&asked->slots, at, &range); at = range.last + 1U) {
        for (unsigned slot = range.first; slot <= range.last; slot++) {
            if (dataset_slot_has_keys(engine, (uint16_t)slot, &has_keys) != STATUS_OK)
                cluster_call_fail(asked, "ERR the keys can't be counted: the store can't be read (see the log and INFO tiering)");
            else if (has_keys)
                cluster_call_fail(asked, "ERR this node has keys in slot %u already: CLUSTER RECEIVESLOTS DROP removes them", slot);
            if (asked->error.size > 0)
                return false;
        }
    }
    return true;
}

static bool are_slots_of(const struct bus *bus, const struct slots *slots, const struct node_id *id)
{
    const struct node *node = members_find(bus->members, id);
    struct slot_range range;

    for (unsigned at = 0; slots_next(slots, at, &range); at = range.last + 1U) {
        for (unsigned slot = range.first; slot <= range.last; slot++) {
            if (bus->members->owners[slot] != node)
                return false;
        }
    }
    return node != NULL;
}

/* With a controller keys that are here, of a migration that was not ended by a node which this one has replaced, give way to those of the owner. */
static void begin_receipt(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    bool replaces = bus->options.is_managed && bus->members->receipt == 0 && are_slots_of(bus, &asked->slots, &asked->id);
    const char *error;
    uint64_t receipt;

    if (are_empty(asked, engine)) {
        if (cluster_call_accept(asked, bus_begin_receipt(bus, &asked->slots, &asked->id, clock_wall_ms(), &receipt)))
            asked->count = (int64_t)receipt;
    } else if (replaces) {
        asked->error.size = 0;
        error = bus_drop_slots(bus, &asked->slots);
        cluster_call_fail(asked, "%s", error != NULL ? error : "TRYAGAIN keys that are here of these slots are being removed");
    }
}

static void reply_receipt(struct call *call, const struct cluster_call *done)
{
    call->client->receipt = (uint64_t)done->count;
    reply_integer(call->reply, done->count);
}

/* WAITAOF follows it when all was sent: with appendfsync everysec the log would be synced within a second only, and writes at the other node wait for that. */
static void keep_receipt(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    if (engine->aof != NULL)
        aof_request_sync(engine->aof, aof_appended(engine->aof));
    if (cluster_call_accept(asked, bus_keep_receipt(bus, (uint64_t)asked->number, clock_wall_ms())))
        asked->count = (int64_t)bus->members->current_epoch;
}

/* Served only if it is saved: who forgets it would remove the keys. */
static void take_managed(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    struct managed_taken undo;

    if (!cluster_call_accept(asked, managed_take(bus, (uint64_t)asked->number, (uint64_t)asked->count, clock_wall_ms(), &undo)))
        return;
    if (slots_count(&undo.slots) == 0 || cluster_save(engine->replication.cluster) == STATUS_OK)
        return;
    managed_untake(bus, &undo);
    cluster_call_fail(asked, "ERR nodes.conf can't be saved");
}

static void take_receipt(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    if (asked->number != 0 && engine->redirect->flushed == (uint64_t)asked->number)
        cluster_call_fail(asked, "ERR this node was flushed meanwhile");
    else if (bus->options.is_managed)
        take_managed(asked, engine, bus);
    else
        cluster_call_accept(asked, bus_take_receipt(bus, (uint64_t)asked->number, (uint64_t)asked->count, clock_wall_ms()));
}

/* The connection has written what the replicas are sent of it, so that its WAIT waits for that. */
static void note_written(struct call *call) { call->requester->lsn.written = history_end(&call->engine->history); }

static void reply_taken(struct call *call, const struct cluster_call *done)
{
    (void)done;
    note_written(call);
    reply_ok(call->reply);
}

static void reply_end(struct call *call, const struct cluster_call *done)
{
    note_written(call);
    reply_integer(call->reply, done->count);
}

static void end_receipt(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    bool was_taken;

    (void)engine;
    if (bus->options.is_managed) {
        if (cluster_call_accept(asked, managed_end_receipt(bus, (uint64_t)asked->number, (unsigned)asked->choice, &asked->id, clock_wall_ms(), &was_taken)))
            asked->count = was_taken;
        return;
    }
    asked->count = bus_end_receipt(bus, (uint64_t)asked->number, (unsigned)asked->choice, clock_wall_ms());
}

static void drop_slots(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    (void)engine;
    cluster_call_accept(asked, bus_drop_slots(bus, &asked->slots));
}

static void request_slots(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    struct message message = { "" };

    if (!(bus->members->myself->flags & NODE_MASTER))
        cluster_call_fail(asked, "ERR only a primary has slots to migrate");
    else if (check_wanted(asked, bus, &asked->slots, &asked->id) &&
             !slot_export_add(engine->replication.slot_export, &asked->slots, &asked->id, 1, asked->name.data, &message))
        cluster_call_fail(asked, "ERR %s", message.text);
}

static void show_state(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    struct slot_export_job job;

    (void)bus;
    if (slot_export_find(engine->replication.slot_export, asked->name.data, &job))
        buffer_append_format(&asked->text, "%s %s", slot_export_state_name(job.state), job.message.text);
    else
        cluster_call_fail(asked, "NOSUCHMIGRATION this node has no migration of that name");
}

static void reply_state(struct call *call, const struct cluster_call *done)
{
    reply_status(call->reply, buffer_bytes(&done->text));
}

static void cancel_migration(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    (void)bus;
    asked->count = slot_export_cancel(engine->replication.slot_export, asked->name.data);
}

static void read_slots(struct call *call, struct cluster_call *asked, int arg)
{
    if (cluster_call_read_ranges(call, &arg, &asked->slots) && arg < call->arg_count)
        reply_error(call, ERR_SYNTAX);
}

static void read_begin(struct call *call, struct cluster_call *asked)
{
    cluster_call_take_node(call, asked, 3);
    asked->awaits_lost = true;
    read_slots(call, asked, 4);
}

/* Has the form of the ID of a node. */
static void read_name(struct call *call, struct cluster_call *asked)
{
    struct node_id name;

    if (!node_id_read(call->args[3], &name))
        reply_errorf(call, "ERR Invalid name of a migration: it is not 40 letters and digits");
    cluster_call_take_text(call, asked, 3);
}

static void read_request(struct call *call, struct cluster_call *asked)
{
    read_name(call, asked);
    if (!call->failed && !node_id_read(call->args[4], &asked->id))
        reply_errorf(call, "ERR Unknown node %.*s", (int)call->args[4].size, call->args[4].data);
    if (!call->failed)
        read_slots(call, asked, 5);
}

static void read_drop(struct call *call, struct cluster_call *asked) { read_slots(call, asked, 3); }

static void read_keep(struct call *call, struct cluster_call *asked) { (void)arg_integer(call, 3, &asked->number); }

static void read_take(struct call *call, struct cluster_call *asked)
{
    if (arg_integer(call, 3, &asked->number) && arg_integer(call, 4, &asked->count) && asked->count <= 0)
        reply_errorf(call, "ERR Invalid config epoch specified: %lld", (long long)asked->count);
}

static void read_end(struct call *call, struct cluster_call *asked)
{
    int64_t slot;

    if (!arg_integer(call, 3, &asked->number) || !arg_integer(call, 4, &slot))
        return;
    if (slot < 0 || slot >= SLOT_COUNT)
        reply_errorf(call, "ERR Invalid or out of range slot");
    asked->choice = (int)slot;
    if (call->arg_count == 6)
        cluster_call_take_node(call, asked, 5);
}

void cluster_receiveslots_command(struct call *call)
{
    static const struct {
        const char *name;
        int arg_count, more;            /* more: that there may be; -1: any number */
        bool is_of_bus;                 /* not with a controller */
        void (*read)(struct call *call, struct cluster_call *asked);
        cluster_act *act;
        cluster_reply *reply;
    } verbs[] = {
        { "begin", 6, -1, false, read_begin, begin_receipt, reply_receipt },
        { "keep", 4, 0, false, read_keep, keep_receipt, cluster_call_reply_count },
        { "take", 5, 0, false, read_take, take_receipt, reply_taken },
        { "end", 5, 1, false, read_end, end_receipt, reply_end },
        { "drop", 5, -1, false, read_drop, drop_slots, NULL },
        { "request", 7, -1, true, read_request, request_slots, NULL },
        { "state", 4, 0, true, read_name, show_state, reply_state },
        { "cancel", 4, 0, true, read_name, cancel_migration, cluster_call_reply_count },
    };
    struct cluster_call *asked;
    size_t verb = 0;
    int more;

    while (verb < sizeof(verbs) / sizeof(verbs[0]) && !arg_is(call, 2, verbs[verb].name))
        verb++;
    if (verb == sizeof(verbs) / sizeof(verbs[0])) {
        reply_error(call, ERR_SYNTAX);
        return;
    }
    more = call->arg_count - verbs[verb].arg_count;
    if (more < 0 || (verbs[verb].more >= 0 && more > verbs[verb].more)) {
        reply_wrong_arity(call);
        return;
    }
    asked = (verbs[verb].is_of_bus ? cluster_call_new_gossip : cluster_call_new)(call, verbs[verb].act, verbs[verb].reply);
    if (asked == NULL)
        return;
    verbs[verb].read(call, asked);
    cluster_call_start(call, asked);
}
