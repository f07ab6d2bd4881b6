/* XXH3: a fast hash of 64 bits, the one that DIGEST returns. Not for tables: it has no key, so clients can choose bytes that collide. */
#ifndef KELVIN_BASE_XXH3_H
#define KELVIN_BASE_XXH3_H

#include <stdint.h>

#include "base/bytes.h"

/* Seed 0. The same on every machine and in every version of the library. */
uint64_t xxh3(struct bytes bytes);

#endif
