/* CLUSTER MIGRATION of Redis 8.4: atomic migration as the node that receives asks for it (cluster/slot_import.h). */
#include "base/mem.h"
#include "cluster/slot_import.h"
#include "commands/cluster_call.h"
#include "commands/handlers.h"

/* --- IMPORT first last [first last ...] --- */

static bool are_stable(const struct bus *bus) { return bus->members->move_count == 0; }

static void check_import(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    const struct node *myself = bus->members->myself, *source = NULL;
    struct slot_range range;

    (void)engine;
    if (!(myself->flags & NODE_MASTER))
        cluster_call_fail(asked, "ERR slot migration not allowed on replica.");
    else if (!are_stable(bus))
        cluster_call_fail(asked, "ERR all slot states must be STABLE to start a slot migration task.");
    for (unsigned at = 0; asked->error.size == 0 && slots_next(&asked->slots, at, &range); at = range.last + 1U) {
        for (unsigned slot = range.first; asked->error.size == 0 && slot <= range.last; slot++) {
            const struct node *owner = bus->members->owners[slot];

            if (owner == NULL)
                cluster_call_fail(asked, "ERR slot has no owner: %u", slot);
            else if (source != NULL && source != owner)
                cluster_call_fail(asked, "ERR slots belong to different source nodes");
            source = owner;
        }
    }
    if (asked->error.size == 0 && source == myself)
        cluster_call_fail(asked, "ERR this node is already the owner of the slot range");
    if (asked->error.size == 0)
        asked->id = source->id;
}

static void request_import(struct cluster_call *asked, struct engine *engine)
{
    struct message message = { "" };
    char name[NODE_ID_SIZE + 1];

    if (slot_import_begin(engine->replication.slot_import, &asked->slots, &asked->id, name, &message))
        buffer_append_string(&asked->text, name);
    else
        cluster_call_fail(asked, "ERR %s", message.text);
}

static void reply_name(struct call *call, const struct cluster_call *done) { reply_bulk(call->reply, buffer_bytes(&done->text)); }

static bool are_numbers(const struct call *call, int arg)
{
    int64_t number;

    while (arg < call->arg_count && text_to_int(call->args[arg], &number))
        arg++;
    return arg == call->arg_count;
}

static void import_slots(struct call *call)
{
    struct cluster_call *asked = cluster_call_new_gossip(call, check_import, reply_name);
    int arg = 3;

    if (asked == NULL)
        return;
    asked->after = request_import;
    if ((call->arg_count - arg) % 2 != 0)
        reply_wrong_arity(call);
    else if (!are_numbers(call, arg))
        reply_errorf(call, "ERR Invalid or out of range slot");
    else
        (void)cluster_call_read_ranges(call, &arg, &asked->slots);
    cluster_call_start(call, asked);
}

/* --- CANCEL and STATUS: ID name | ALL --- */

/* False: an error was replied. *name is empty for all. */
static bool read_target(struct call *call, struct bytes *name)
{
    bool is_one = arg_is(call, 3, "id"), is_all = arg_is(call, 3, "all");

    *name = bytes_of(NULL, 0);
    if (call->arg_count > 5 || (is_one && call->arg_count != 5) || (is_all && call->arg_count != 4)) {
        reply_wrong_arity(call);
        return false;
    }
    if (!is_one && !is_all) {
        reply_errorf(call, "ERR unknown argument");
        return false;
    }
    if (is_one)
        *name = call->args[4];
    return true;
}

static void cancel(struct cluster_call *asked, struct engine *engine)
{
    const char *name = asked->name.data;
    struct message message = { "" };

    asked->count = slot_export_cancel(engine->replication.slot_export, name) + slot_import_cancel(engine->replication.slot_import, name, &message);
    if (asked->count == 0 && !message_is_empty(&message))
        cluster_call_fail(asked, "ERR %s", message.text);
}

static void cancel_imports(struct call *call)
{
    struct cluster_call *asked = cluster_call_new_gossip(call, NULL, cluster_call_reply_count);
    struct bytes name;

    if (asked == NULL)
        return;
    asked->after = cancel;
    if (read_target(call, &name) && name.data != NULL)
        cluster_call_take_text(call, asked, 4);
    cluster_call_start(call, asked);
}

static void refresh(struct cluster_call *asked, struct engine *engine)
{
    slot_import_refresh(engine->replication.slot_import, asked->name.data);
}

/* One task, in the words of Redis. */
struct shown {
    const char *name;
    const struct slots *slots;
    const struct node_id *from, *to;
    bool is_import;
    enum slot_export_state state;
    const char *message;
    int64_t created_ms, started_ms, ended_ms, held_ms;
};

static const char *state_word(const struct shown *shown)
{
    switch (shown->state) {
    case EXPORT_QUEUED: return "none";
    case EXPORT_CONNECTING: return "connecting";
    case EXPORT_COPYING: return shown->is_import ? "accumulate-buffer" : "send-bulk-and-stream";
    case EXPORT_HANDING_OVER: return shown->is_import ? "wait-stream-eof" : "handoff";
    case EXPORT_SUCCESS: return "completed";
    case EXPORT_FAILED: return "failed";
    case EXPORT_CANCELLED: break;
    }
    return "canceled";
}

static void reply_text(struct call *call, const char *name, struct bytes value)
{
    reply_bulk(call->reply, bytes_of_string(name));
    reply_bulk(call->reply, value);
}

static void reply_count(struct call *call, const char *name, int64_t value)
{
    reply_bulk(call->reply, bytes_of_string(name));
    reply_integer(call->reply, value);
}

static void reply_shown(struct call *call, const struct shown *shown)
{
    struct buffer ranges = { 0 };

    slots_append_ranges(shown->slots, &ranges);
    reply_map(call->reply, 12);
    reply_text(call, "id", bytes_of_string(shown->name));
    reply_text(call, "slots", buffer_bytes(&ranges));
    reply_text(call, "source", bytes_of(shown->from->text, NODE_ID_SIZE));
    reply_text(call, "dest", bytes_of(shown->to->text, NODE_ID_SIZE));
    reply_text(call, "operation", shown->is_import ? BYTES("import") : BYTES("migrate"));
    reply_text(call, "state", bytes_of_string(state_word(shown)));
    reply_text(call, "last_error", bytes_of_string(shown->message));
    reply_count(call, "retries", 0);
    reply_count(call, "create_time", shown->created_ms);
    reply_count(call, "start_time", shown->started_ms);
    reply_count(call, "end_time", shown->ended_ms);
    reply_count(call, "write_pause_ms", shown->held_ms);
    buffer_release(&ranges);
}

/* Replies those of this name, or all; returns how many. */
static size_t reply_imports(struct call *call, const struct node_id *own_id, struct bytes name)
{
    struct slot_import_task *tasks;
    int count = slot_import_list(call->engine->replication.slot_import, &tasks);
    size_t replied = 0;

    for (int i = 0; i < count; i++) {
        const struct slot_import_task *task = &tasks[i];
        struct shown shown = { task->name, &task->slots, &task->from, own_id, true, task->state, task->message.text, task->created_ms, task->created_ms,
            task->ended_ms, 0 };

        if (name.data != NULL && !bytes_equal(name, bytes_of_string(task->name)))
            continue;
        reply_shown(call, &shown);
        replied++;
    }
    mem_free(tasks);
    return replied;
}

static size_t reply_exports(struct call *call, const struct node_id *own_id, struct bytes name)
{
    struct slot_export_job *jobs;
    int count = slot_export_list(call->engine->replication.slot_export, &jobs);
    size_t replied = 0;

    for (int i = 0; i < count; i++) {
        const struct slot_export_job *job = &jobs[i];
        bool has_ended = slot_export_has_ended(job->state);
        struct shown shown = { job->name, &job->slots, own_id, &job->to, false, job->state, job->message.text, job->created_ms, job->started_ms,
            has_ended ? job->changed_ms : 0, job->held_us / 1000 };

        if (name.data != NULL && !bytes_equal(name, bytes_of_string(job->name)))
            continue;
        reply_shown(call, &shown);
        replied++;
    }
    mem_free(jobs);
    return replied;
}

static void reply_tasks(struct call *call, const struct cluster_call *done)
{
    struct topology *topology = cluster_topology(call->engine->replication.cluster);
    const struct node_id *own_id = &topology->nodes[topology->myself].id;
    struct reply_later later = reply_later_begin(call->reply);
    size_t count = reply_imports(call, own_id, done->name);

    count += reply_exports(call, own_id, done->name);
    reply_later_array(call->reply, later, count);
    topology_release(topology);
}

static void show_tasks(struct call *call)
{
    struct cluster_call *asked = cluster_call_new_gossip(call, NULL, reply_tasks);
    struct bytes name;

    if (asked == NULL)
        return;
    asked->after = refresh;
    if (read_target(call, &name) && name.data != NULL)
        cluster_call_take_text(call, asked, 4);
    cluster_call_start(call, asked);
}

void cluster_migration_command(struct call *call)
{
    if (arg_is(call, 2, "import"))
        import_slots(call);
    else if (arg_is(call, 2, "cancel"))
        cancel_imports(call);
    else if (arg_is(call, 2, "status"))
        show_tasks(call);
    else if (cluster_call_cluster(call) != NULL)
        reply_errorf(call, "ERR unknown argument");
}
