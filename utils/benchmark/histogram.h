/* Histogram: latencies in nanoseconds, in buckets whose width grows with the value.
 *
 * Every power of two is cut into 128 buckets, so a figure read back is at most 0.8 % too high, from 1 ns to 73
 * minutes (longer ones count as that). 36 KB, whatever was recorded. Owner: one thread.
 */
#ifndef KELVIN_BENCHMARK_HISTOGRAM_H
#define KELVIN_BENCHMARK_HISTOGRAM_H

#include <stdint.h>

struct histogram;

struct histogram *histogram_create(void);
void histogram_destroy(struct histogram *histogram);    /* NULL is fine */

void histogram_record(struct histogram *histogram, int64_t ns);     /* below 0 counts as 0 */
void histogram_add(struct histogram *histogram, const struct histogram *other);

uint64_t histogram_count(const struct histogram *histogram);

/* All of these are 0 when nothing was recorded. Minimum, maximum and mean are exact. */
uint64_t histogram_min(const struct histogram *histogram);
uint64_t histogram_max(const struct histogram *histogram);
double histogram_mean(const struct histogram *histogram);

/* The smallest bucket edge that `percent` (0 .. 100) of all values do not exceed; never above the maximum. */
uint64_t histogram_percentile(const struct histogram *histogram, double percent);

#endif
