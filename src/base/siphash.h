/* The keyed hash of keys: SipHash-1-3 (Aumasson, Bernstein: "SipHash: a fast short-input PRF", 2012).
 *
 * It is keyed so that clients cannot choose keys that collide. The seed is random and is kept with the store. One hash
 * serves partition, bucket, tag, record map and the order of the store's keys.
 */
#ifndef KELVIN_BASE_SIPHASH_H
#define KELVIN_BASE_SIPHASH_H

#include <stdint.h>

#include "base/bytes.h"

struct hash_seed {
    uint64_t k0, k1;
};

uint64_t hash_bytes(const struct hash_seed *seed, struct bytes bytes);

#endif
