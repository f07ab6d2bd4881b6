#include "metrics/hour.h"

#include <string.h>

#include "base/histogram.h"
#include "base/mem.h"
#include "base/mutex.h"

struct hour {
    int64_t noted_us;               /* by the thread that notes, as the next: when `before` was; 0: there is none */
    struct hour_totals before;
    struct mutex lock;              /* guards what follows; leaf */
    struct hour_sample *samples;    /* a ring; NULL: none was noted */
    int count, next;
};

struct hour *hour_create(void)
{
    struct hour *hour = mem_zalloc(sizeof(*hour));

    mutex_init(&hour->lock);
    return hour;
}

void hour_destroy(struct hour *hour)
{
    if (hour == NULL)
        return;
    mutex_release(&hour->lock);
    mem_free(hour->samples);
    mem_free(hour);
}

bool hour_is_due(const struct hour *hour, int64_t now_us)
{
    return hour->noted_us == 0 || now_us - hour->noted_us >= HOUR_STEP_S * INT64_C(1000000);
}

static uint64_t more_than(uint64_t before, uint64_t now)
{
    return now >= before ? now - before : now;
}

static uint32_t percentile(const uint64_t counts[LOAD_LATENCY_BUCKETS], uint64_t total, double percent)
{
    if (total == 0)
        return 0;
    return (uint32_t)histogram_bucket_min(histogram_percentile_bucket(counts, LOAD_LATENCY_BUCKETS, total, percent), LOAD_LATENCY_STEP_BITS);
}

static void measure_loads(const struct hour_totals *before, const struct hour_totals *now, struct hour_sample *sample)
{
    uint64_t counts[LOAD_LATENCY_BUCKETS];

    for (int i = 0; i < LOAD_LATENCY_BUCKETS; i++) {
        counts[i] = more_than(before->loads[i], now->loads[i]);
        sample->loads += counts[i];
    }
    sample->load_p50_us = percentile(counts, sample->loads, 50);
    sample->load_p99_us = percentile(counts, sample->loads, 99);
}

static void add_sample(struct hour *hour, const struct hour_sample *sample)
{
    mutex_lock(&hour->lock);
    if (hour->samples == NULL)
        hour->samples = mem_alloc(HOUR_SAMPLES * sizeof(*hour->samples));
    hour->samples[hour->next] = *sample;
    hour->next = (hour->next + 1) % HOUR_SAMPLES;
    if (hour->count < HOUR_SAMPLES)
        hour->count++;
    mutex_unlock(&hour->lock);
}

void hour_note(struct hour *hour, int64_t now_us, int64_t wall_ms, const struct hour_totals *totals)
{
    const struct hour_totals *before = &hour->before;
    struct hour_sample sample = {
        .time_ms = wall_ms,
        .span_ms = (uint32_t)((now_us - hour->noted_us) / 1000),
        .hot = more_than(before->hot, totals->hot),
        .cold = more_than(before->cold, totals->cold),
        .commands = more_than(before->commands, totals->commands),
        .demoted_bytes = more_than(before->demoted_bytes, totals->demoted_bytes),
        .memory = totals->memory,
        .memory_max = totals->memory_max,
    };

    if (hour->noted_us != 0) {
        measure_loads(before, totals, &sample);
        add_sample(hour, &sample);
    }
    hour->before = *totals;
    hour->noted_us = now_us;
}

void hour_clear(struct hour *hour)
{
    hour->noted_us = 0;
    mutex_lock(&hour->lock);
    mem_free(hour->samples);
    hour->samples = NULL;
    hour->count = hour->next = 0;
    mutex_unlock(&hour->lock);
}

int hour_copy(struct hour *hour, struct hour_sample samples[HOUR_SAMPLES])
{
    int count, first;

    mutex_lock(&hour->lock);
    count = hour->count;
    first = (hour->next + HOUR_SAMPLES - count) % HOUR_SAMPLES;
    for (int i = 0; i < count; i++)
        samples[i] = hour->samples[(first + i) % HOUR_SAMPLES];
    mutex_unlock(&hour->lock);
    return count;
}
