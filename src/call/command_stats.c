#include "call/command_stats.h"

#include "base/histogram.h"
#include "base/mem.h"

struct command_stats_set *command_stats_create(size_t row_count)
{
    struct command_stats_set *set = mem_zalloc(sizeof(*set) + row_count * sizeof(set->rows[0]));

    set->row_count = row_count;
    return set;
}

void command_stats_destroy(struct command_stats_set *set)
{
    if (set == NULL)
        return;
    for (size_t i = 0; i < set->row_count; i++)
        mem_free((void *)atomic_load(&set->rows[i].latency));
    mem_free(set);
}

/* The epoch is changed last, and is read first: a reader that sees the new one sees no old count. */
void command_stats_renew(struct command_stats_set *set, uint64_t epoch)
{
    for (size_t i = 0; i < set->row_count; i++) {
        struct command_stats *stats = &set->rows[i];

        atomic_store_explicit(&stats->calls, 0, memory_order_relaxed);
        atomic_store_explicit(&stats->nsec, 0, memory_order_relaxed);
        atomic_store_explicit(&stats->rejected, 0, memory_order_relaxed);
        atomic_store_explicit(&stats->failed, 0, memory_order_relaxed);
        if (stats->latency != NULL)
            histogram_clear(stats->latency, LATENCY_BUCKETS);
    }
    atomic_store_explicit(&set->epoch, epoch, memory_order_release);
}

static void note_latency(struct command_stats *stats, uint64_t ns)
{
    _Atomic uint64_t *latency = atomic_load_explicit(&stats->latency, memory_order_relaxed);
    size_t bucket = histogram_bucket(ns, LATENCY_STEP_BITS);

    if (UNLIKELY(latency == NULL)) {
        latency = mem_zalloc(LATENCY_BUCKETS * sizeof(*latency));
        atomic_store_explicit(&stats->latency, latency, memory_order_release);
    }
    command_stats_add(&latency[bucket < LATENCY_BUCKETS ? bucket : LATENCY_BUCKETS - 1], 1);
}

void command_stats_note(struct command_stats *stats, int64_t ns)
{
    uint64_t taken = ns < 0 ? 0 : (uint64_t)ns;

    command_stats_add(&stats->calls, 1);
    command_stats_add(&stats->nsec, taken);
    note_latency(stats, taken);
}

void command_stats_sum(const struct command_stats_set *set, uint32_t id, uint64_t epoch, struct command_totals *totals)
{
    const struct command_stats *stats = &set->rows[id];

    if (atomic_load_explicit(&set->epoch, memory_order_acquire) != epoch)
        return;
    totals->calls += atomic_load_explicit(&stats->calls, memory_order_relaxed);
    totals->nsec += atomic_load_explicit(&stats->nsec, memory_order_relaxed);
    totals->rejected += atomic_load_explicit(&stats->rejected, memory_order_relaxed);
    totals->failed += atomic_load_explicit(&stats->failed, memory_order_relaxed);
}

void command_stats_sum_latency(const struct command_stats_set *set, uint32_t id, uint64_t epoch, uint64_t counts[LATENCY_BUCKETS])
{
    const _Atomic uint64_t *latency;

    if (atomic_load_explicit(&set->epoch, memory_order_acquire) != epoch)
        return;
    latency = atomic_load_explicit(&set->rows[id].latency, memory_order_acquire);
    for (int i = 0; latency != NULL && i < LATENCY_BUCKETS; i++)
        counts[i] += atomic_load_explicit(&latency[i], memory_order_relaxed);
}
