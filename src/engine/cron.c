#include "engine/cron.h"

#include <inttypes.h>

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

    rates_note(engine->stats.rates, now_us, totals);
}

/* No client waits for memory for ever (memory_judge), but a slow disk may take long. */
static void log_long_waits(struct engine *engine)
{
    struct parking_waits waits = parking_waits(engine);
    struct memory_view view;

    if (engine->memory.long_waits_logged && waits.longest_ms < PARKING_LONG_MS) {
        engine->memory.long_waits_logged = false;
        log_write(engine->log, LOG_LEVEL_NOTICE, "Clients do not wait for memory any longer.");
    } else if (!engine->memory.long_waits_logged && waits.longest_ms >= PARKING_LONG_MS) {
        engine->memory.long_waits_logged = true;
        memory_look(engine, &view);
        log_write(engine->log, LOG_LEVEL_WARNING, "%" PRIu64 " clients wait for memory, one of them for %" PRId64 " ms: %" PRIu64 " bytes are used and %" PRIu64
            " count, of maxmemory %" PRIu64 ". Demotion %s.", waits.clients, waits.longest_ms, view.used, memory_counted(&view), view.limit,
            view.can_demote ? "goes on: the disk may be slow" : "can't make room");
    }
}

void cron_tick(struct worker *worker)
{
    struct engine *engine = worker->engine;
    int64_t pause_us = engine->pause_until_us;

    if (engine->debug.cron_is_paused)
        return;
    parking_note_waits(worker);
    /* Memory also comes, or stops coming, without a notification: the lazy free, the log's tail, the configuration; replies that are not sent. */
    parking_resume_each(worker, UINT32_C(1) << PARKED_FOR_MEMORY | UINT32_C(1) << PARKED_FOR_WRITER | UINT32_C(1) << PARKED_FOR_REPLIES);
    scripts_refresh(worker);
    if (worker->index != 0)
        return;
    blocking_retry(worker);
    if (engine->stats.rates != NULL)
        note_rates(engine, worker->turn.now_us);
    /* Not if another worker has begun the next pause meanwhile. */
    if (pause_us != 0 && worker->turn.now_us >= pause_us && atomic_compare_exchange_strong(&engine->pause_until_us, &pause_us, 0))
        parking_notify(engine, PARKED_FOR_PAUSE);
    role_refresh(engine);
    if (engine->state == ENGINE_READY) {
        expiry_tick(worker);
        own_expiry_tick(worker);
    }
    memory_note_use(engine, worker->turn.now_us);
    log_long_waits(engine);
    memory_watch_excess(engine, worker->turn.now_us);
    if (engine->upper.cron != NULL)
        engine->upper.cron(engine);
}
