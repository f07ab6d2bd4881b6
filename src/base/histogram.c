#include "base/histogram.h"

#include <math.h>

#include "base/check.h"
#include "base/mem.h"

struct histogram {
    unsigned step_bits, value_bits;
    size_t bucket_count;
    uint64_t total, sum, min, max;
    uint64_t counts[];
};

uint64_t histogram_load(const _Atomic uint64_t *counts, size_t bucket_count, uint64_t *copy)
{
    uint64_t total = 0;

    for (size_t i = 0; i < bucket_count; i++)
        total += copy[i] = atomic_load_explicit(&counts[i], memory_order_relaxed);
    return total;
}

void histogram_clear(_Atomic uint64_t *counts, size_t bucket_count)
{
    for (size_t i = 0; i < bucket_count; i++)
        atomic_store_explicit(&counts[i], 0, memory_order_relaxed);
}

size_t histogram_percentile_bucket(const uint64_t *counts, size_t bucket_count, uint64_t total, double percent)
{
    double exact = ceil((double)total * percent / 100);
    uint64_t rank = exact < 1 ? 1 : (uint64_t)exact, seen = 0;

    if (total == 0)
        return 0;
    for (size_t i = 0; i < bucket_count; i++) {
        seen += counts[i];
        if (seen >= rank)
            return i;
    }
    return bucket_count - 1;
}

struct histogram *histogram_create(unsigned step_bits, unsigned value_bits)
{
    size_t bucket_count = histogram_bucket(((uint64_t)1 << value_bits) - 1, step_bits) + 1;
    struct histogram *histogram = mem_zalloc(sizeof(*histogram) + bucket_count * sizeof(histogram->counts[0]));

    CHECK(value_bits < 64);
    histogram->step_bits = step_bits;
    histogram->value_bits = value_bits;
    histogram->bucket_count = bucket_count;
    return histogram;
}

void histogram_destroy(struct histogram *histogram)
{
    mem_free(histogram);
}

void histogram_record(struct histogram *histogram, int64_t number)
{
    uint64_t value = number < 0 ? 0 : (uint64_t)number;

    if (value >> histogram->value_bits)
        value = ((uint64_t)1 << histogram->value_bits) - 1;
    histogram->counts[histogram_bucket(value, histogram->step_bits)]++;
    if (histogram->total == 0 || value < histogram->min)
        histogram->min = value;
    if (value > histogram->max)
        histogram->max = value;
    histogram->sum += value;
    histogram->total++;
}

void histogram_add(struct histogram *histogram, const struct histogram *other)
{
    CHECK(histogram->step_bits == other->step_bits && histogram->bucket_count == other->bucket_count);
    if (other->total == 0)
        return;
    if (histogram->total == 0 || other->min < histogram->min)
        histogram->min = other->min;
    if (other->max > histogram->max)
        histogram->max = other->max;
    histogram->total += other->total;
    histogram->sum += other->sum;
    for (size_t i = 0; i < histogram->bucket_count; i++)
        histogram->counts[i] += other->counts[i];
}

uint64_t histogram_total(const struct histogram *histogram)
{
    return histogram->total;
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
    return histogram->total > 0 ? (double)histogram->sum / (double)histogram->total : 0;
}

uint64_t histogram_percentile(const struct histogram *histogram, double percent)
{
    size_t bucket = histogram_percentile_bucket(histogram->counts, histogram->bucket_count, histogram->total, percent);
    uint64_t end = histogram_bucket_max(bucket, histogram->step_bits);

    return end < histogram->max ? end : histogram->max;
}
