/* A request that is run as a unit: what is checked before, with the flags of all commands that it may run. */
#include "engine/execute_private.h"

#include "engine/monitor.h"
#include "engine/script_run.h"
#include "engine/transaction.h"
#include "engine/unit_private.h"

void execute_take_back(struct call *call)
{
    reply_truncate(call->reply, call->reply_start);
    call->failed = false;
}

void execute_discard(struct call *call)
{
    struct buffer *out = &call->reply->out;
    struct bytes error = bytes_of(out->data + call->reply_start + 1, out->size - call->reply_start - 3);

    if (error.size > 4 && memcmp(error.data, "ERR ", 4) == 0)
        error = bytes_of(error.data + 4, error.size - 4);
    error = arena_copy(call->arena, error);
    reply_truncate(call->reply, call->reply_start);
    transaction_end(call->client);
    reply_errorf(call, "EXECABORT Transaction discarded because of: %.*s", (int)error.size, error.data);
}

/* Returns whether the call may be queued: a queued call takes memory, whatever the command. */
bool execute_may_queue(struct call *call, struct worker *worker)
{
    return execute_pass_memory_gate(call, worker, call->command->flags | COMMAND_DENYOOM);
}

/* A script without "#!lua" begins even if there is no memory. */
static bool pass_memory_gate(struct call *call, struct worker *worker, uint32_t flags)
{
    enum { SCRIPT = COMMAND_UNIT | COMMAND_MAY_REPLICATE };
    struct transaction *transaction = call->client->transaction;

    transaction->lacks_memory = false;
    if ((flags & SCRIPT) != SCRIPT || flags & COMMAND_DENYOOM)
        return execute_pass_memory_gate(call, worker, flags);
    if (execute_pass_memory_gate(call, worker, flags | COMMAND_WRITE | COMMAND_DENYOOM))
        return true;
    if (call->parked)
        return false;
    execute_take_back(call);
    transaction->lacks_memory = true;
    return true;
}

/* As if the call did what its commands do. */
static bool pass_gates(struct call *call, struct worker *worker)
{
    uint32_t flags = unit_flags(call);

    if (!execute_role_allows(call, flags, ~call->client->transaction->lacking))
        return false;
    if (execute_is_paused(call, flags)) {
        parking_add_call(worker, call, PARKED_FOR_PAUSE);
        return false;
    }
    /* Nothing waits for memory with keys pinned: how much they take is judged by unit_load. */
    return call->client->loads.waits != NULL || pass_memory_gate(call, worker, flags);
}

static enum attempt refuse_call(struct call *call)
{
    if (call->parked)
        return PARKED;
    if (call->command->flags & COMMAND_RUNS_QUEUE)
        execute_discard(call);
    return REFUSED;
}

/* EVAL, FCALL ... */
static enum attempt run_script(struct call *call, struct worker *worker)
{
    struct script_start start;
    enum unit_loading loading = UNIT_CANT_LOAD;

    if (!script_find(call, &start)) {
        script_start_release(&start);
        monitor_send(call, worker);
        return RAN;                 /* it counts as a call that has failed */
    }
    if (script_pass_gates(call, worker, &start))
        loading = unit_load(call, worker);
    if (loading == UNIT_IS_RESIDENT)
        return unit_run(call, worker, &start) == RUN_PARKED ? PARKED : RAN;
    script_start_release(&start);
    return call->parked || loading == UNIT_IS_LOADING ? PARKED : REFUSED;
}

enum attempt execute_unit(struct call *call, struct worker *worker)
{
    if (call->command->prepare != NULL && !call->command->prepare(call))
        return call->parked ? PARKED : RAN;
    if (call->command->flags & COMMAND_RUNS_QUEUE) {
        if (call->client->flags & CLIENT_MULTI && !pass_gates(call, worker))
            return refuse_call(call);
        if (!unit_may_exec(call))
            return RAN;
    }
    if (call->command->flags & COMMAND_UNIT && !(call->command->flags & COMMAND_RUNS_QUEUE))
        return run_script(call, worker);
    switch (unit_load(call, worker)) {
    case UNIT_IS_RESIDENT: break;
    case UNIT_IS_LOADING: return PARKED;
    case UNIT_CANT_LOAD: return refuse_call(call);
    }
    return unit_run(call, worker, NULL) == RUN_PARKED ? PARKED : RAN;
}
