/* The generator of math.random: the linear congruential one of POSIX' lrand48, because Redis has it and scripts may
 * depend on its numbers.
 */
#ifndef KELVIN_SCRIPT_RAND48_H
#define KELVIN_SCRIPT_RAND48_H

#include <stdint.h>

struct rand48 {
    uint64_t state;     /* 48 bits */
};

enum { RAND48_BITS = 48 };

/* The state of a generator that was not seeded. */
static inline void rand48_init_default(struct rand48 *random)
{
    random->state = 0x1234abcd330e;
}

static inline void rand48_init(struct rand48 *random, uint32_t seed)
{
    random->state = (uint64_t)seed << 16 | 0x330e;
}

/* 31 bits. */
static inline uint32_t rand48_next(struct rand48 *random)
{
    random->state = (random->state * 0x5deece66d + 0xb) & 0xffffffffffff;
    return (uint32_t)(random->state >> 17);
}

#endif
