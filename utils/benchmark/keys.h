/* Key space: selects the keys of requests. Keys are numbers 0 .. count - 1.
 *
 * The skewed distributions draw a *rank*, where 0 is the most popular, and scatter it: a fixed permutation maps ranks to
 * key numbers. So popular keys are adjacent neither in the order in which keys were loaded nor in the order of a server's
 * hash function (the permutation is not a hash); and the same keys are hot in every run with the same count.
 *
 *   uniform      each key with the same probability
 *   zipfian      rank k with a probability proportional to 1 / (k + 1)^theta
 *   hot          `hot_percent` of all draws uniformly from the first `hot_count` ranks, the others uniformly from the rest
 *   sequential   0, 1, 2 ..., then again from 0; not scattered
 *
 * Immutable after creation, shared by all threads.
 */
#ifndef KELVIN_BENCHMARK_KEYS_H
#define KELVIN_BENCHMARK_KEYS_H

#include <stdint.h>

#include "base/random.h"

enum distribution { DISTRIBUTION_UNIFORM, DISTRIBUTION_ZIPFIAN, DISTRIBUTION_HOT, DISTRIBUTION_SEQUENTIAL };

struct key_space_config {
    uint64_t count;             /* > 0, at most 2^62 */
    enum distribution distribution;
    double zipf_theta;          /* zipfian only */
    double hot_percent;         /* hot only: 0 .. 100 */
    uint64_t hot_count;         /* hot only: 1 .. count; with count, all draws are hot */
};

struct key_space;

struct key_space *key_space_create(const struct key_space_config *config);
void key_space_destroy(struct key_space *space);        /* NULL is fine */

/* Returns the key for the request number `ticket`; only the sequential distribution uses the ticket. */
uint64_t key_space_draw(const struct key_space *space, struct random *random, uint64_t ticket);

/* Returns the key number of a rank: a permutation of 0 .. count - 1. */
uint64_t key_space_scatter(const struct key_space *space, uint64_t rank);

/* Returns the number of decimal digits of the largest key number. */
unsigned key_space_digits(const struct key_space *space);

/* Writes the last `width` decimal digits of a number, padded with zeros. */
void digits_write(char *out, unsigned width, uint64_t number);

#endif
