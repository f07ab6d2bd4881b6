#include "engine/sizing.h"

#include "base/histogram.h"
#include "engine/engine.h"
#include "engine/worker.h"
#include "stats/waits.h"
#include "tier/tier.h"

static bool make_shares(const uint64_t counts[LATENCY_BUCKETS], double shares[LATENCY_BUCKETS])
{
    double total = 0;

    for (int i = 0; i < LATENCY_BUCKETS; i++)
        total += (double)counts[i];
    for (int i = 0; i < LATENCY_BUCKETS && total > 0; i++)
        shares[i] = (double)counts[i] / total;
    return total > 0;
}

/* Measures commands on keys, and how long clients have waited for cold ones. */
static void measure_latencies(const struct engine *engine, struct sizing_latencies *latencies)
{
    uint64_t counts[LATENCY_BUCKETS], sums[LATENCY_BUCKETS] = { 0 };

    for (size_t row = 0; row < command_row_count(engine->commands); row++) {
        const struct command *command = command_row_at(engine->commands, row);

        if (command->keys == NULL)
            continue;
        engine_command_latency(engine, command, counts);
        for (int i = 0; i < LATENCY_BUCKETS; i++)
            sums[i] += counts[i];
    }
    latencies->has_hot = make_shares(sums, latencies->hot);
    histogram_load(waits_histogram(engine->stats.waits, WAIT_COLD), LATENCY_BUCKETS, counts);
    latencies->has_cold = make_shares(counts, latencies->cold);
}

/* Mixes them: a share of `misses` waits for a read of the store. */
static void mix_latencies(const struct sizing_latencies *latencies, double misses, struct sizing_point *point)
{
    double seen = 0, mean_ns = 0;
    int p99 = -1;

    point->mean_us = point->p99_us = -1;
    if (!latencies->has_hot || (!latencies->has_cold && misses > 0))
        return;
    for (int i = 0; i < LATENCY_BUCKETS; i++) {
        double share = (1 - misses) * latencies->hot[i] + misses * latencies->cold[i];
        double low = (double)histogram_bucket_min((size_t)i, LATENCY_STEP_BITS), high = (double)histogram_bucket_max((size_t)i, LATENCY_STEP_BITS);

        mean_ns += share * (low + high) / 2;
        seen += share;
        if (p99 < 0 && seen >= 0.99)
            p99 = i;
    }
    point->mean_us = mean_ns / 1000;
    point->p99_us = (double)histogram_bucket_max((size_t)(p99 < 0 ? LATENCY_BUCKETS - 1 : p99), LATENCY_STEP_BITS) / 1000;
}

double sizing_sampled_uses(const struct advise_estimate *estimate)
{
    return estimate->uses * estimate->sampled_share;
}

double sizing_known_percent(const struct advise_estimate *estimate)
{
    return estimate->uses > 0 ? 100 * (1 - estimate->unknown / estimate->uses) : -1;
}

int sizing_shown(int number)
{
    return ADVISE_PRESENT + (number - SIZING_SHOWN / 2) * ADVISE_OCTAVE;
}

enum sizing_state sizing_look(struct engine *engine, struct sizing *sizing)
{
    *sizing = (struct sizing){ .maxmemory = (double)config_number(engine->config, CONFIG_MAXMEMORY) };
    if (engine->tier == NULL || !config_number(engine->config, CONFIG_TIER_ENABLED))
        return SIZING_NO_TIER;
    if (!config_number(engine->config, CONFIG_TIER_ADVISE))
        return SIZING_NOT_SAMPLED;
    if (sizing->maxmemory == 0)
        return SIZING_NO_LIMIT;
    tier_advise_look(engine->tier, &sizing->estimate);
    if (sizing_sampled_uses(&sizing->estimate) < SIZING_USES_MIN)
        return SIZING_FEW_USES;
    measure_latencies(engine, &sizing->latencies);
    return SIZING_KNOWN;
}

struct sizing_point sizing_at(const struct sizing *sizing, double index)
{
    const struct advise_estimate *estimate = &sizing->estimate;
    struct sizing_point point = { .factor = advise_factor(index) };

    point.maxmemory = sizing->maxmemory * point.factor;
    point.hit_ratio = 100 * advise_between(estimate->hit_ratio, index);
    point.reads = estimate->seconds > 0 ? advise_between(estimate->misses, index) / estimate->seconds : 0;
    mix_latencies(&sizing->latencies, 1 - point.hit_ratio / 100, &point);
    return point;
}
