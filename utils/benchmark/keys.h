/* Key space: which key a request is about. Keys are numbers 0 .. count - 1.
 *
 * The uneven distributions draw a *rank*, 0 the most popular, and scatter it: a fixed permutation makes the key's
 * number of it. So popular keys stand neither together in the order in which keys were loaded nor (numbers are not
 * hashed here) in any order of a server's hash; and the same keys are hot in every run with the same count.
 *
 *   uniform      every key alike
 *   zipfian      rank k in proportion to 1 / (k + 1)^theta
 *   hot          `hot_percent` of all draws uniformly from the first `hot_count` ranks, the others from the rest
 *   sequential   0, 1, 2 ... and from the start again; not scattered
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
    uint64_t hot_count;         /* hot only: 1 .. count; if it is count, all draws are hot */
};

struct key_space;

struct key_space *key_space_create(const struct key_space_config *config);
void key_space_destroy(struct key_space *space);        /* NULL is fine */

/* The key for the request number `ticket`, which only the sequential distribution goes by. */
uint64_t key_space_draw(const struct key_space *space, struct random *random, uint64_t ticket);

/* The key number of a rank: a permutation of 0 .. count - 1. */
uint64_t key_space_scatter(const struct key_space *space, uint64_t rank);

/* Decimal digits that every key number fits into. */
unsigned key_space_digits(const struct key_space *space);

/* Writes the last `width` decimal digits of a number, zeros in front. */
void digits_write(char *out, unsigned width, uint64_t number);

#endif
