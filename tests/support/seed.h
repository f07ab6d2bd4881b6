/* Where random tests get their seeds: one way for all, so that each can be repeated. */
#ifndef KELVIN_SUPPORT_SEED_H
#define KELVIN_SUPPORT_SEED_H

#include <stdint.h>

/* The next seed, printed: SEED of the environment, to repeat a failure; else the next of the row that begins at KELVIN_SEEDS (what
 * `make test` runs can be run again); else a new one. Any thread. */
uint64_t seed_new(void);

#endif
