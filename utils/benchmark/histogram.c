#include "histogram.h"

#include <math.h>
#include <stddef.h>

#include "base/mem.h"

enum {
    STEP_BITS = 7,                      /* 2^7 buckets a power of two */
    STEPS = 1 << STEP_BITS,
    VALUE_BITS = 42,
    BUCKETS = (VALUE_BITS - STEP_BITS + 1) * STEPS,
};

struct histogram {
    uint64_t count, sum, min, max;
    uint64_t buckets[BUCKETS];
};

/* Values below 2 * STEPS have a bucket each; beyond, the top STEP_BITS + 1 bits choose it. */
static size_t bucket_of(uint64_t value)
{
    unsigned shift = value < 2 * STEPS ? 0 : 63 - (unsigned)__builtin_clzll(value) - STEP_BITS;

    return (size_t)shift * STEPS + (size_t)(value >> shift);
}

/* The largest value that falls into the bucket. */
static uint64_t bucket_edge(size_t bucket)
{
    size_t shift = bucket < 2 * STEPS ? 0 : bucket / STEPS - 1;

    return ((uint64_t)(bucket - shift * STEPS + 1) << shift) - 1;
}

struct histogram *histogram_create(void)
{
    return mem_zalloc(sizeof(struct histogram));
}

void histogram_destroy(struct histogram *histogram)
{
    mem_free(histogram);
}

void histogram_record(struct histogram *histogram, int64_t ns)
{
    uint64_t value = ns < 0 ? 0 : (uint64_t)ns;

    if (value >> VALUE_BITS)
        value = ((uint64_t)1 << VALUE_BITS) - 1;
    histogram->buckets[bucket_of(value)]++;
    if (histogram->count == 0 || value < histogram->min)
        histogram->min = value;
    if (value > histogram->max)
        histogram->max = value;
    histogram->sum += value;
    histogram->count++;
}

void histogram_add(struct histogram *histogram, const struct histogram *other)
{
    if (other->count == 0)
        return;
    if (histogram->count == 0 || other->min < histogram->min)
        histogram->min = other->min;
    if (other->max > histogram->max)
        histogram->max = other->max;
    histogram->count += other->count;
    histogram->sum += other->sum;
    for (size_t i = 0; i < BUCKETS; i++)
        histogram->buckets[i] += other->buckets[i];
}

uint64_t histogram_count(const struct histogram *histogram)
{
    return histogram->count;
}

uint64_t histogram_min(const struct histogram *histogram)
{
    return histogram->min;
}

uint64_t histogram_max(const struct histogram *histogram)
{
    return histogram->max;
}

double histogram_mean(const struct histogram *histogram)
{
    return histogram->count ? (double)histogram->sum / (double)histogram->count : 0;
}

uint64_t histogram_percentile(const struct histogram *histogram, double percent)
{
    double exact = ceil((double)histogram->count * percent / 100);
    uint64_t wanted = exact < 1 ? 1 : (uint64_t)exact;
    uint64_t seen = 0;

    for (size_t i = 0; i < BUCKETS; i++) {
        seen += histogram->buckets[i];
        if (seen >= wanted)
            return bucket_edge(i) < histogram->max ? bucket_edge(i) : histogram->max;
    }
    return histogram->max;
}
