#include "engine/cron.h"

#include "engine/blocking.h"
#include "engine/engine.h"
#include "engine/expiry.h"
#include "engine/memory.h"
#include "engine/own_expiry.h"
#include "engine/role.h"
#include "engine/scripts.h"
#include "engine/worker.h"
#include "stats/rates.h"

static void note_rates(struct engine *engine, int64_t now_us)
{
    uint64_t totals[RATE_COUNT] = {
        [RATE_COMMANDS] = engine_stat(engine, STAT_COMMANDS),
        [RATE_NET_INPUT] = engine_stat(engine, STAT_NET_INPUT) + engine->replica_input,
        [RATE_NET_OUTPUT] = engine_stat(engine, STAT_NET_OUTPUT) + engine_stat(engine, STAT_REPLICA_OUTPUT),
        [RATE_REPLICA_INPUT] = engine->replica_input,
        [RATE_REPLICA_OUTPUT] = engine_stat(engine, STAT_REPLICA_OUTPUT),
        [RATE_TURNS] = engine_stat(engine, STAT_TURNS),
        [RATE_TURN_US] = engine_stat(engine, STAT_TURN_US),
    };

    rates_note(engine->rates, now_us, totals);
}

static void note_memory(struct engine *engine, int64_t now_us)
{
    uint64_t used = memory_used(engine);
    int64_t since = engine->memory_over_since_us;

    if (used > engine->memory_peak)
        engine->memory_peak = used;
    if (memory_is_short(engine)) {
        if (since == 0)
            engine->memory_over_since_us = now_us;
    } else if (since != 0) {
        engine->memory_over_us += now_us - since;
        engine->memory_over_since_us = 0;
    }
}

void cron_tick(struct worker *worker)
{
    struct engine *engine = worker->engine;
    int64_t pause = engine->pause_until_ms;

    if (engine->cron_is_paused)
        return;
    if (worker->memory_first != NULL && (engine_is_paused(engine) || !memory_is_short(engine) || !memory_may_come(engine)))
        mailbox_note_memory(&worker->mailbox);
    scripts_refresh(worker);
    if (worker->index != 0)
        return;
    blocking_retry(worker);
    if (engine->rates != NULL)
        note_rates(engine, worker->turn.now_us);
    if (pause != 0 && worker->turn.now_ms >= pause)
        engine->pause_until_ms = 0;
    role_refresh(engine);
    if (engine->state == ENGINE_READY) {
        expiry_tick(worker);
        own_expiry_tick(worker);
    }
    note_memory(engine, worker->turn.now_us);
    memory_watch_excess(engine);
    if (engine->upper.cron != NULL)
        engine->upper.cron(engine);
}
