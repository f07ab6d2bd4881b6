#include "engine/pulse.h"

#include "base/mem.h"
#include "engine/engine.h"

enum { TICKS_MISSED = 3 };          /* of its timer: then a worker may hang */

/* Turns of a worker, as seen at the last look at which there were new ones. */
struct seen {
    uint64_t turns;
    int64_t at_ms;                  /* monotonic; 0: at no look yet */
};

struct pulse {
    const struct engine *engine;
    struct seen workers[];
};

struct pulse *pulse_create(const struct engine *engine)
{
    struct pulse *pulse = mem_zalloc(sizeof(*pulse) + (size_t)engine->worker_count * sizeof(pulse->workers[0]));

    pulse->engine = engine;
    return pulse;
}

void pulse_destroy(struct pulse *pulse)
{
    mem_free(pulse);
}

bool pulse_look(struct pulse *pulse, int64_t now_ms)
{
    const struct engine *engine = pulse->engine;
    int64_t patience_ms = config_number(engine->config, CONFIG_CLUSTER_NODE_TIMEOUT) / 2;
    int64_t period_ms = 1000 / config_number(engine->config, CONFIG_HZ);
    bool is_alive = true;

    if (patience_ms < TICKS_MISSED * period_ms)
        patience_ms = TICKS_MISSED * period_ms;
    for (int i = 0; i < engine->worker_count; i++) {
        uint64_t turns = atomic_load_explicit(&engine->workers[i]->turn.stats[STAT_TURNS], memory_order_relaxed);
        struct seen *seen = &pulse->workers[i];

        if (turns != seen->turns || seen->at_ms == 0)
            *seen = (struct seen){ turns, now_ms };
        is_alive = is_alive && now_ms - seen->at_ms <= patience_ms;
    }
    return is_alive;
}
