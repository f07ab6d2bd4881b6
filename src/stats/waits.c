#include "stats/waits.h"

#include "base/histogram.h"
#include "base/mem.h"

struct waits {
    _Atomic uint64_t counts[WAIT_REASONS][LATENCY_BUCKETS];
    _Atomic uint64_t sums_us[WAIT_REASONS];
};

static const char *const names[WAIT_REASONS] = {
    [WAIT_COLD] = "cold-wait", [WAIT_MEMORY] = "memory-wait", [WAIT_OWNER] = "owner-wait", [WAIT_PAUSE] = "pause-wait", [WAIT_JOB] = "job-wait",
};

struct waits *waits_create(void)
{
    return mem_zalloc(sizeof(struct waits));
}

void waits_destroy(struct waits *waits)
{
    mem_free(waits);
}

void waits_note(struct waits *waits, enum wait_reason reason, int64_t us)
{
    uint64_t waited_us = us < 0 ? 0 : (uint64_t)us;

    histogram_count(waits->counts[reason], LATENCY_BUCKETS, LATENCY_STEP_BITS, waited_us * 1000);
    atomic_fetch_add_explicit(&waits->sums_us[reason], waited_us, memory_order_relaxed);
}

void waits_reset(struct waits *waits)
{
    for (int reason = 0; reason < WAIT_REASONS; reason++) {
        histogram_clear(waits->counts[reason], LATENCY_BUCKETS);
        atomic_store_explicit(&waits->sums_us[reason], 0, memory_order_relaxed);
    }
}

const _Atomic uint64_t *waits_histogram(const struct waits *waits, enum wait_reason reason)
{
    return waits->counts[reason];
}

uint64_t waits_sum_us(const struct waits *waits, enum wait_reason reason)
{
    return atomic_load_explicit(&waits->sums_us[reason], memory_order_relaxed);
}

static uint64_t percentile_us(const uint64_t counts[LATENCY_BUCKETS], uint64_t total, double percent)
{
    if (total == 0)
        return 0;
    return histogram_bucket_max(histogram_percentile_bucket(counts, LATENCY_BUCKETS, total, percent), LATENCY_STEP_BITS) / 1000;
}

struct waits_summary waits_summarize(const struct waits *waits, enum wait_reason reason)
{
    uint64_t counts[LATENCY_BUCKETS], total = histogram_load(waits->counts[reason], LATENCY_BUCKETS, counts);

    return (struct waits_summary){ total, percentile_us(counts, total, 50), percentile_us(counts, total, 99) };
}

const char *wait_name(enum wait_reason reason)
{
    return names[reason];
}

enum wait_reason wait_find(struct bytes name)
{
    enum wait_reason reason = 0;

    while (reason < WAIT_REASONS && !bytes_is(name, names[reason]))
        reason++;
    return reason;
}
