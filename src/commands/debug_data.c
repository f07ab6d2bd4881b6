/* DEBUG RELOAD, LOADAOF and POPULATE: what changes the data set as a whole. */
#include "commands/debug.h"

#include "base/mem.h"
#include "engine/blocking.h"
#include "engine/engine.h"
#include "lifecycle/populate.h"
#include "lifecycle/reload.h"

/* Clients that wait for keys look whether they are there now. */
static void serve_waiters(struct call *call)
{
    partitions_lock_all(call->partitions);
    for (int db = 0; db < call->partitions->db_count; db++)
        blocking_note_database(call, db);
    partitions_unlock_all(call->partitions);
}

static void reply_reloaded(struct call *call, const struct reload *done)
{
    serve_waiters(call);
    if (done->good)
        reply_ok(call->reply);
    else if (done->options.from_log)
        reply_errorf(call, "ERR Error trying to load the AOF: %s", done->message.text);
    else
        reply_errorf(call, "ERR Error trying to load the RDB dump, check server logs: %s", done->message.text);
}

/* The thread waits for units to end, and so must not be waited for by one. */
static bool is_in_unit(struct call *call)
{
    if (call->unit == NULL)
        return false;
    reply_errorf(call, "ERR DEBUG %s is not allowed in a transaction or a script",
        call_format(call, "%.*s", (int)call->args[1].size, call->args[1].data).data);
    return true;
}

static void start_reload(struct call *call, const struct reload_options *options)
{
    struct reload *reload;
    enum task_start started;

    if (is_in_unit(call))
        return;
    reload = mem_zalloc(sizeof(*reload));
    *reload = (struct reload){ .engine = call->engine, .options = *options };
    call_wait_job(call, &reload->job);
    started = reload_start(reload);
    if (started == TASK_STARTED)
        return;
    call_end_wait(call);
    if (started == TASK_BUSY)
        reply_errorf(call, "ERR The data set is being reloaded, the AOF is being switched on or off, or the server is about to end");
    else
        reply_errorf(call, "ERR Could not create a thread");
}

void debug_reload(struct call *call)
{
    struct reload_options options = { 0 };
    const struct reload *done = call_job(call);

    if (done != NULL) {
        reply_reloaded(call, done);
        return;
    }
    for (int i = 2; i < call->arg_count; i++) {
        if (arg_is(call, i, "nosave")) {
            options.without_save = true;
        } else if (arg_is(call, i, "noflush")) {
            options.without_flush = true;
        } else if (arg_is(call, i, "merge")) {
            options.merges = true;
        } else {
            reply_errorf(call, "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.");
            return;
        }
    }
    start_reload(call, &options);
}

void debug_loadaof(struct call *call)
{
    struct reload_options options = { .from_log = true };
    const struct reload *done = call_job(call);

    if (done != NULL)
        reply_reloaded(call, done);
    else if (call->engine->aof == NULL)
        reply_errorf(call, "ERR DEBUG LOADAOF needs appendonly yes");
    else
        start_reload(call, &options);
}

static void run_populate(struct job *base, struct engine *engine)
{
    populate_run((struct populate *)base, engine);
}

static void release_populate(struct job *base)
{
    struct populate *populate = (struct populate *)base;

    buffer_release(&populate->prefix);
    mem_free(populate);
}

void debug_populate(struct call *call)
{
    const struct populate *done = call_job(call);
    struct bytes prefix = call->arg_count > 3 ? call->args[3] : BYTES("key");
    struct populate *populate;
    int64_t count, size = 0;

    if (done != NULL) {
        if (done->status == STATUS_OK)
            reply_ok(call->reply);
        else
            reply_error(call, done->status == STATUS_NO_SPACE ? ERR_OOM : ERR_TIER_READ);
        return;
    }
    if (!arg_integer_between(call, 2, 0, INT64_MAX, "ERR value is out of range, must be positive", &count) ||
        (call->arg_count > 4 && !arg_integer_between(call, 4, 0, POPULATE_SIZE_MAX, "ERR value is out of range, must be positive", &size)) ||
        is_in_unit(call))
        return;
    populate = mem_zalloc(sizeof(*populate));
    populate->job = (struct job){ .run = run_populate, .release = release_populate };
    populate->db = call->db;
    populate->count = (uint64_t)count;
    populate->size = (size_t)size;
    buffer_append_bytes(&populate->prefix, prefix);
    call_start_job(call, &populate->job);
}
