/* Histograms with logarithmic buckets: every power of two is divided into 2^step_bits buckets of the same width, and values below
 * 2^step_bits have a bucket each. A value read back from its bucket is off by 1 / 2^step_bits at most.
 *
 *     step_bits 2:   0 1 2 3 | 4 5 6 7 | 8-9 10-11 12-13 14-15 | 16-19 ...
 *
 * Counts are an array that the caller owns, of any number of buckets; larger values count in the last one. Threads count in arrays of
 * atomics (histogram_count); they are copied to be evaluated. `struct histogram` is for one thread that also wants exact extremes.
 */
#ifndef KELVIN_BASE_HISTOGRAM_H
#define KELVIN_BASE_HISTOGRAM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

static inline size_t histogram_bucket(uint64_t value, unsigned step_bits)
{
    unsigned shift = value >> step_bits == 0 ? 0 : 63 - (unsigned)__builtin_clzll(value) - step_bits;

    return ((size_t)shift << step_bits) + (size_t)(value >> shift);
}

/* The smallest value of the bucket, and the largest. */
static inline uint64_t histogram_bucket_min(size_t bucket, unsigned step_bits)
{
    size_t shift = bucket >> step_bits < 2 ? 0 : (bucket >> step_bits) - 1;

    return (uint64_t)(bucket - (shift << step_bits)) << shift;
}

static inline uint64_t histogram_bucket_max(size_t bucket, unsigned step_bits)
{
    return histogram_bucket_min(bucket + 1, step_bits) - 1;
}

/* Any thread; relaxed. */
static inline void histogram_count(_Atomic uint64_t *counts, size_t bucket_count, unsigned step_bits, uint64_t value)
{
    size_t bucket = histogram_bucket(value, step_bits);

    atomic_fetch_add_explicit(&counts[bucket < bucket_count ? bucket : bucket_count - 1], 1, memory_order_relaxed);
}

/* Copies the counts, and returns their sum. */
uint64_t histogram_load(const _Atomic uint64_t *counts, size_t bucket_count, uint64_t *copy);
void histogram_clear(_Atomic uint64_t *counts, size_t bucket_count);

/* The bucket that holds the value which `percent` (0 .. 100) of `total` values do not exceed: the first one if there are none. */
size_t histogram_percentile_bucket(const uint64_t *counts, size_t bucket_count, uint64_t total, double percent);

/* Owner: one thread. Values of up to `value_bits` bits; larger ones count as the largest of these. */
struct histogram;

struct histogram *histogram_create(unsigned step_bits, unsigned value_bits);
void histogram_destroy(struct histogram *histogram);                /* NULL is fine */

void histogram_record(struct histogram *histogram, int64_t value);  /* below 0 counts as 0 */
void histogram_add(struct histogram *histogram, const struct histogram *other);     /* of the same shape */

/* All of these are 0 when nothing was recorded. Minimum, maximum and mean are exact. */
uint64_t histogram_total(const struct histogram *histogram);
uint64_t histogram_min(const struct histogram *histogram);
uint64_t histogram_max(const struct histogram *histogram);
double histogram_mean(const struct histogram *histogram);

/* The upper end of the bucket of histogram_percentile_bucket, but not more than the maximum. */
uint64_t histogram_percentile(const struct histogram *histogram, double percent);

#endif
