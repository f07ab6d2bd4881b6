/* The command line of a fuzz target: [SECONDS [SEED]], 10 seconds and a new seed without them. */
#ifndef KELVIN_SUPPORT_FUZZ_H
#define KELVIN_SUPPORT_FUZZ_H

#include <stdbool.h>
#include <stdint.h>

struct fuzz_time {
    int64_t end_us;     /* monotonic clock */
};

/* The seed, which is printed behind the target's name. */
uint64_t fuzz_begin(struct fuzz_time *time, const char *name, int count, char **arguments);
bool fuzz_goes_on(const struct fuzz_time *time);

#endif
