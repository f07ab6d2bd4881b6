/* Random: xoshiro256** (Blackman, Vigna 2018), seeded by the caller or by the system. Not for secrets. Owner: one
 * thread.
 */
#ifndef KELVIN_BASE_RANDOM_H
#define KELVIN_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct random {
    uint64_t state[4];
};

void     random_init(struct random *random, uint64_t seed);
uint64_t random_next(struct random *random);
uint64_t random_below(struct random *random, uint64_t limit);  /* 0 .. limit - 1; limit > 0 */

/* Bytes from the operating system, good enough for seeds and IDs. */
void random_system(void *out, size_t size);

#endif
