#include "engine/engine.h"

#include "engine/expiry.h"
#include "engine/worker.h"
#include "tier/tier.h"

uint64_t engine_stat(const struct engine *engine, enum statistic stat)
{
    uint64_t sum = 0;

    for (int i = 0; i < engine->worker_count; i++)
        sum += atomic_load_explicit(&engine->workers[i]->turn.stats[stat], memory_order_relaxed);
    return sum;
}

void engine_reset_stats(struct engine *engine)
{
    for (int i = 0; i < engine->worker_count; i++) {
        for (int stat = 0; stat < STAT_COUNT; stat++)
            atomic_store_explicit(&engine->workers[i]->turn.stats[stat], 0, memory_order_relaxed);
    }
    partitions_reset_wait_count(engine->partitions);
    command_stats_reset(engine->commands);
    if (engine->tier != NULL)
        tier_reset_stats(engine->tier);
}

void engine_set_active_expire(struct engine *engine, bool on)
{
    engine->active_expire = on;
    if (engine->tier != NULL)
        tier_set_expiry(engine->tier, on && !expiry_is_paused(engine));
}
