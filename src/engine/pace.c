#include "engine/pace.h"

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/memory.h"
#include "engine/worker.h"

enum {
    REFILL_US = 250,
    BURST_US = 2000,                    /* credit never exceeds what comes in that time */
    ELAPSED_US_MAX = 1000000,           /* for longer nothing comes, nor is more owed than what comes to an empty memory in that time */
    SAMPLE_US = 50000,
    SAMPLE_US_MAX = 1000000,
    SAMPLE_SHARE = 20,                   /* of a sample in the running mean */
    CHECK_SHARE = 256,                  /* of maxmemory: what a worker allocates between two looks, at most, beyond what one call takes */
};

#define DRAIN_INITIAL (INT64_C(64) << 20)
#define DRAIN_MIN (INT64_C(1) << 20)

static int64_t drain_of(const struct pace *pace)
{
    int64_t drain = pace->drain;

    return drain > 0 ? drain : DRAIN_INITIAL;
}

/* Returns the fill of memory, while demotion can make room or other threads are about to free some. */
static int fill_of(const struct engine *engine, const struct memory_view *view)
{
    uint64_t mark = view->limit / 100 * (uint64_t)config_number(engine->config, CONFIG_TIER_HIGH_WATERMARK), counted = memory_counted(view) + tier_loads_bytes(engine->tier);

    if (counted > view->limit)
        return PACE_FILL_ONE;
    if (counted <= mark || !view->can_demote)
        return -1;
    return (int)((counted - mark) * PACE_FILL_ONE / (view->limit - mark));
}

void pace_check(struct worker *worker)
{
    struct turn *turn = &worker->turn;
    struct memory_view view;
    enum memory_state state;

    memory_look(worker->engine, &view);
    state = memory_judge(&view);
    worker->writes_since_check = 0;
    worker->allocated_at_check = *worker->allocated;
    worker->allocated_max = view.limit > 0 ? view.limit / CHECK_SHARE : UINT64_MAX;
    turn->over_memory = state != MEMORY_ENOUGH;
    turn->memory_fill = view.limit == 0 || worker->engine->tier == NULL || state == MEMORY_OUT ? -1 : fill_of(worker->engine, &view);
}

/* One sample of how fast demotion frees memory, if it was at it for the whole time since the last one. */
static void sample_drain(struct pace *pace, const struct pace_view *view)
{
    int64_t since = pace->sampled_us, drain = drain_of(pace), sample;

    if (since != 0 && view->now_us - since < SAMPLE_US)
        return;
    if (!view->is_demoting) {
        pace->sampled_us = 0;
        return;
    }
    if (!atomic_compare_exchange_strong(&pace->sampled_us, &since, view->now_us))
        return;                         /* another worker does it */
    if (since != 0 && view->now_us - since < SAMPLE_US_MAX) {
        sample = (int64_t)(view->demoted_bytes - pace->sampled_bytes) * 1000000 / (view->now_us - since);
        drain += (sample - drain) / SAMPLE_SHARE;
        pace->drain = drain > DRAIN_MIN ? drain : DRAIN_MIN;
    }
    pace->sampled_bytes = view->demoted_bytes;
}

void pace_refill(struct pace *pace, const struct pace_view *view)
{
    int64_t last = pace->refilled_us, elapsed = view->now_us - last, rate, least, most, credit;

    if (elapsed < REFILL_US)
        return;
    sample_drain(pace, view);
    if (!atomic_compare_exchange_strong(&pace->refilled_us, &last, view->now_us))
        return;
    if (elapsed > ELAPSED_US_MAX)
        elapsed = ELAPSED_US_MAX;
    rate = view->fill < PACE_FILL_ONE ? drain_of(pace) * 2 * (PACE_FILL_ONE - view->fill) / PACE_FILL_ONE : 0;
    most = rate * BURST_US / 1000000;
    least = -2 * drain_of(pace) * ELAPSED_US_MAX / 1000000;
    credit = atomic_fetch_add(&pace->credit, rate * elapsed / 1000000) + rate * elapsed / 1000000;
    while ((credit > most || credit < least) && !atomic_compare_exchange_weak(&pace->credit, &credit, credit > most ? most : least))
        ;
}

void pace_note_loads(struct worker *worker, uint64_t bytes)
{
    worker->allocated_at_check -= bytes;        /* as if they were allocated already */
}

bool pace_has_credit(struct engine *engine, int fill)
{
    struct pace_view view = { clock_mono_us(), fill, tier_is_demoting(engine->tier), tier_demoted_bytes(engine->tier) };

    pace_refill(&engine->pace, &view);
    return engine->pace.credit > 0;
}

bool pace_take(struct engine *engine, int fill, uint64_t bytes)
{
    if (!pace_has_credit(engine, fill))
        return false;
    pace_charge(engine, bytes);
    return true;
}

void pace_charge(struct engine *engine, uint64_t bytes)
{
    atomic_fetch_sub(&engine->pace.credit, (int64_t)bytes);
}
