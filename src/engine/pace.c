#include "engine/pace.h"

#include "base/clock.h"
#include "engine/engine.h"

enum {
    REFILL_US = 250,
    BURST_US = 2000,                    /* credit never exceeds what comes in that time */
    SAMPLE_US = 50000,
    SAMPLE_SHARE = 8,                   /* of a sample in the running mean */
};

#define DRAIN_INITIAL (INT64_C(64) << 20)
#define DRAIN_MIN (INT64_C(1) << 20)

static int64_t drain_of(const struct pace *pace)
{
    int64_t drain = pace->drain;

    return drain > 0 ? drain : DRAIN_INITIAL;
}

int pace_fill(const struct engine *engine)
{
    int64_t limit = config_number(engine->config, CONFIG_MAXMEMORY), mark, used;

    if (limit <= 0 || engine->tier == NULL)
        return -1;
    used = (int64_t)engine_memory_used(engine);
    if (engine_may_wait_for_memory(engine))
        used += (int64_t)engine->memory_excess;
    mark = limit / 100 * config_number(engine->config, CONFIG_TIER_HIGH_WATERMARK);
    if (used <= mark)
        return -1;
    if (used > limit || mark >= limit)
        return PACE_FILL_ONE;
    return (int)((used - mark) * PACE_FILL_ONE / (limit - mark));
}

/* One sample of how fast demotion frees memory, if it was at it for the whole time since the last one. */
static void sample_drain(struct engine *engine, int64_t now_us)
{
    struct pace *pace = &engine->pace;
    int64_t since = pace->sampled_us, drain = drain_of(pace), sample;
    uint64_t bytes;

    if (since != 0 && now_us - since < SAMPLE_US)
        return;
    if (!tier_is_demoting(engine->tier)) {
        pace->sampled_us = 0;
        return;
    }
    if (!atomic_compare_exchange_strong(&pace->sampled_us, &since, now_us))
        return;                         /* another worker does it */
    bytes = tier_demoted_bytes(engine->tier);
    if (since != 0 && now_us - since < 20 * SAMPLE_US) {
        sample = (int64_t)(bytes - pace->sampled_bytes) * 1000000 / (now_us - since);
        drain += (sample - drain) / SAMPLE_SHARE;
        pace->drain = drain > DRAIN_MIN ? drain : DRAIN_MIN;
    }
    pace->sampled_bytes = bytes;
}

static void refill(struct engine *engine, int fill)
{
    struct pace *pace = &engine->pace;
    int64_t now_us = clock_mono_us(), last = pace->refilled_us, elapsed = now_us - last, rate, most, credit;

    if (elapsed < REFILL_US)
        return;
    sample_drain(engine, now_us);
    if (!atomic_compare_exchange_strong(&pace->refilled_us, &last, now_us))
        return;
    if (elapsed > 1000000)
        elapsed = 1000000;
    rate = fill < PACE_FILL_ONE ? drain_of(pace) * 2 * (PACE_FILL_ONE - fill) / PACE_FILL_ONE : 0;
    most = rate * BURST_US / 1000000;
    credit = atomic_fetch_add(&pace->credit, rate * elapsed / 1000000) + rate * elapsed / 1000000;
    while (credit > most && !atomic_compare_exchange_weak(&pace->credit, &credit, most))
        ;
}

bool pace_has_credit(struct engine *engine, int fill)
{
    refill(engine, fill);
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
