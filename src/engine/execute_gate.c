/* At the memory gate: what is done for a call when memory is short (tier rule 7). */
#include "engine/execute_private.h"

#include "engine/internal.h"
#include "tier/checkpoint.h"

/* Nobody holds pins while he waits here: he starts from the top, and loads again what has gone by then (tier rule 7). */
void execute_park(struct call *call, struct worker *worker)
{
    if (call->client->waits != NULL) {
        tier_submit(call->engine->tier, &worker->loads);
        tier_release(call->engine->tier, call->client);
    }
    worker_park_for_memory(worker, call->client);
    call->parked = true;
}

/* Old values that a checkpoint still has to write take memory, too: changes wait until some are written. */
bool execute_wait_for_reserve(struct call *call, struct worker *worker)
{
    struct engine *engine = call->engine;

    if (!(call->command->flags & COMMAND_WRITE) || call->command->flags & COMMAND_EXCLUSIVE || call->client->flags & CLIENT_REPLAY)
        return true;
    call->turn->over_reserve = engine_reserve_is_used_up(engine);
    if (!call->turn->over_reserve)
        return true;
    turn_count(call->turn, STAT_THROTTLED, 1);
    execute_park(call, worker);
    tier_nudge(engine->tier);
    return false;
}

bool execute_make_room(struct call *call, struct worker *worker)
{
    struct engine *engine = call->engine;

    call->turn->over_memory = engine_memory_is_short(engine);
    if (!call->turn->over_memory)
        return true;
    if (call->client->flags & CLIENT_REPLAY) {
        engine_wait_for_memory(engine);     /* whatever it is: its keys may have to be loaded */
        return true;
    }
    if (engine_may_wait_for_memory(engine)) {
        turn_count(call->turn, STAT_THROTTLED, 1);
        execute_park(call, worker);
        tier_nudge(engine->tier);
        return false;
    }
    if (engine_evict(engine, worker, call)) {
        call->turn->over_memory = false;
        return true;
    }
    reply_error(call, ERR_OOM);
    return false;
}
