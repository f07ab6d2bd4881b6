#include "support/fuzz.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/random.h"

uint64_t fuzz_begin(struct fuzz_time *time, const char *name, int count, char **arguments)
{
    uint64_t seed;

    time->end_us = clock_mono_us() + (count > 1 ? atoll(arguments[1]) : 10) * 1000000;
    if (count > 2)
        seed = strtoull(arguments[2], NULL, 0);
    else
        random_system(&seed, sizeof(seed));
    printf("%s: seed %" PRIu64 "\n", name, seed);
    fflush(stdout);
    return seed;
}

bool fuzz_goes_on(const struct fuzz_time *time)
{
    return clock_mono_us() < time->end_us;
}
