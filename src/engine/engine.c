#include "engine/engine.h"

#include <string.h>

#include "config/limits.h"
#include "engine/expiry.h"
#include "engine/worker.h"
#include "tier/tier.h"

uint64_t engine_stat(const struct engine *engine, enum statistic stat)
{
    uint64_t sum = atomic_load_explicit(&engine->streamed.stats[stat], memory_order_relaxed);

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
    for (int stat = 0; stat < STAT_COUNT; stat++)
        atomic_store_explicit(&engine->streamed.stats[stat], 0, memory_order_relaxed);
    engine->replica_input = 0;
    partitions_reset_wait_count(engine->partitions);
    atomic_fetch_add(&engine->stats_epoch, 1);
    if (engine->tier != NULL)
        tier_reset_stats(engine->tier);
}

struct command_totals engine_command_totals(const struct engine *engine, const struct command *command)
{
    struct command_totals totals = { .calls = 0 };

    for (int i = 0; i < engine->worker_count; i++)
        command_stats_sum(engine->workers[i]->turn.command_stats, command->id, engine->stats_epoch, &totals);
    if (engine->streamed.commands != NULL)
        command_stats_sum(engine->streamed.commands, command->id, engine->stats_epoch, &totals);
    return totals;
}

void engine_command_latency(const struct engine *engine, const struct command *command, uint64_t counts[LATENCY_BUCKETS])
{
    memset(counts, 0, LATENCY_BUCKETS * sizeof(*counts));
    engine_add_command_latency(engine, command, counts);
}

void engine_add_command_latency(const struct engine *engine, const struct command *command, uint64_t counts[LATENCY_BUCKETS])
{
    for (int i = 0; i < engine->worker_count; i++)
        command_stats_sum_latency(engine->workers[i]->turn.command_stats, command->id, engine->stats_epoch, counts);
    if (engine->streamed.commands != NULL)
        command_stats_sum_latency(engine->streamed.commands, command->id, engine->stats_epoch, counts);
}

uint64_t engine_dirty(const struct engine *engine)
{
    uint64_t changes = engine->dirty;

    for (int i = 0; i < engine->worker_count; i++)
        changes += atomic_load_explicit(&engine->workers[i]->turn.changes, memory_order_relaxed);
    return changes;
}

uint64_t engine_changes(const struct engine *engine)
{
    return engine_dirty(engine) + engine->saved;
}

void engine_limits(const struct engine *engine, struct value_limits *limits)
{
    limits_read(engine->config, limits);
    limits->seed = engine->partitions->seed.sip;
    if (engine->tier == NULL || !config_number(engine->config, CONFIG_TIER_ENABLED) || config_number(engine->config, CONFIG_MAXMEMORY) == 0)
        limits->page_threshold = 0;             /* nothing is demoted, and a hot value is a little faster as a whole */
}

void engine_set_active_expire(struct engine *engine, bool on)
{
    engine->debug.active_expire = on;
    if (engine->tier != NULL)
        tier_set_expiry(engine->tier, on && !expiry_is_paused(engine));
}
