#include "base/mem.h"
#include "call/call.h"
#include "commands/handlers.h"
#include "engine/engine.h"
#include "lifecycle/rewrite.h"
#include "lifecycle/save.h"

static void reply_saving(struct call *call)
{
    reply_errorf(call, "ERR Background save already in progress");
}

static void reply_no_thread(struct call *call)
{
    reply_errorf(call, "ERR Can't save: could not create a thread. Please check the server logs for more information.");
}

/* SAVE: its client waits for the dump; other clients do not. */
void save_command(struct call *call)
{
    struct engine *engine = call->engine;
    struct save_wait *wait = call_job(call);

    if (wait != NULL) {
        if (wait->good)
            reply_ok(call->reply);
        else
            reply_errorf(call, "ERR %s", wait->message.text);
    } else if (!save_claim(engine->lifecycle.save)) {
        reply_saving(call);
    } else {
        wait = mem_zalloc(sizeof(*wait));
        call_wait_job(call, &wait->job);
        if (!save_start(engine->lifecycle.save, wait)) {
            call_end_wait(call);
            reply_no_thread(call);
        }
    }
}

/* BGSAVE [SCHEDULE]. A rewrite that runs already goes first, as in Redis: the two would compete for the disk. */
void bgsave_command(struct call *call)
{
    struct engine *engine = call->engine;
    bool schedule = call->arg_count == 2 && arg_is(call, 1, "schedule");

    if (call->arg_count > 1 && !schedule) {
        reply_error(call, ERR_SYNTAX);
    } else if (save_is_running(engine->lifecycle.save)) {
        reply_saving(call);
    } else if (task_is_postponed(engine->tasks, TASK_SAVE) && schedule) {
        save_schedule(engine->lifecycle.save);
        reply_status(call->reply, BYTES("Background saving scheduled"));
    } else if (task_is_postponed(engine->tasks, TASK_SAVE)) {
        reply_errorf(call, "ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in order to "
            "schedule a BGSAVE whenever possible.");
    } else if (!save_claim(engine->lifecycle.save)) {
        reply_saving(call);
    } else {
        if (save_start(engine->lifecycle.save, NULL))
            reply_status(call->reply, BYTES("Background saving started"));
        else
            reply_no_thread(call);
    }
}

void lastsave_command(struct call *call)
{
    reply_integer(call->reply, call->engine->last_save_ms / 1000);
}

void bgrewriteaof_command(struct call *call)
{
    struct engine *engine = call->engine;
    enum task_start started;

    if (engine->aof == NULL) {
        reply_errorf(call, "ERR appendonly is no: there is no log to rewrite");
    } else if (rewrite_is_running(engine->lifecycle.rewrite)) {
        reply_errorf(call, "ERR Background append only file rewriting already in progress");
    } else if (task_is_postponed(engine->tasks, TASK_REWRITE)) {
        rewrite_schedule(engine->lifecycle.rewrite);
        reply_status(call->reply, BYTES("Background append only file rewriting scheduled"));
    } else {
        started = rewrite_start(engine->lifecycle.rewrite);
        if (started == TASK_STARTED)
            reply_status(call->reply, BYTES("Background append only file rewriting started"));
        else if (started == TASK_BUSY)
            reply_errorf(call, "ERR Background append only file rewriting already in progress");
        else
            reply_errorf(call, "ERR Can't execute an AOF background rewriting. Please check the server logs for more information.");
    }
}
