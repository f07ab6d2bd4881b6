/* At the memory gate: what is done for a call when memory is short (tier rule 7). */
#include "engine/execute_private.h"

#include "engine/evict.h"
#include "engine/memory.h"
#include "engine/parking.h"
#include "engine/role.h"

enum { KEY_WEIGHT = 32, WEIGHT_MAX = 64 * 1024 };

/* Bytes of memory that the request may take, about. A large argument was received only when there was room for it (memory_admit_large). */
static uint64_t request_weight(const struct call *call)
{
    uint64_t size = (uint64_t)call->key_count * KEY_WEIGHT;

    for (int i = 1; i < call->arg_count && size < WEIGHT_MAX; i++)
        size += call->args[i].size;
    return size < WEIGHT_MAX ? size : WEIGHT_MAX;
}

/* Old values that a checkpoint still has to write take memory, too: changes wait until some are written. */
bool execute_wait_for_reserve(struct call *call, struct worker *worker, uint32_t flags)
{
    struct engine *engine = call->engine;

    if (!(flags & COMMAND_WRITE) || flags & COMMAND_EXCLUSIVE || call->client->caller & TRAIT_WAITS_IN_PLACE)
        return true;
    call->turn->over_reserve = memory_reserve_is_used_up(engine);
    if (!call->turn->over_reserve)
        return true;
    turn_count(call->turn, STAT_THROTTLED, 1);
    parking_add_call(worker, call, PARKED_FOR_WRITER);
    tier_nudge(engine->tier);
    return false;
}

bool execute_make_room(struct call *call, struct worker *worker)
{
    struct engine *engine = call->engine;

    if (call->client->caller & TRAIT_WAITS_IN_PLACE) {
        memory_wait(engine);         /* whatever it is: its keys may have to be loaded */
        if (role_is_replica(engine) && memory_state(engine) == MEMORY_OUT)
            (void)evict_keys(engine, worker);       /* replica-ignore-maxmemory no */
        return true;
    }
    if (call->turn->memory_fill >= 0) {
        if (pace_take(engine, call->turn->memory_fill, request_weight(call)))
            return true;
        turn_count(call->turn, STAT_THROTTLED, 1);
        parking_add_call(worker, call, PARKED_FOR_MEMORY);
        return false;
    }
    if (!call->turn->over_memory || engine->holds_writes)
        return true;                /* nothing is evicted during FAILOVER; what takes memory waits */
    if (evict_keys(engine, worker)) {
        call->turn->over_memory = memory_is_short(engine);
        return true;
    }
    reply_error(call, ERR_OOM);
    return false;
}
