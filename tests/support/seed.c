#include "support/seed.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"

uint64_t seed_new(void)
{
    static _Atomic uint64_t drawn;
    const char *given = getenv("SEED"), *row = getenv("KELVIN_SEEDS");
    uint64_t seed;

    if (given != NULL && *given != 0) {
        seed = strtoull(given, NULL, 0);
    } else if (row != NULL && *row != 0) {
        struct random random;

        random_init(&random, strtoull(row, NULL, 0) * 1000003 + atomic_fetch_add(&drawn, 1));
        seed = random_next(&random);
    } else {
        random_system(&seed, sizeof(seed));
    }
    printf("seed %" PRIu64 "\n", seed);
    fflush(stdout);
    return seed;
}
