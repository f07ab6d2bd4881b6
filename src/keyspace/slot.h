/* Slot: which of the 16384 slots of Redis Cluster a key belongs to: the CRC-16 of its tag, or of the whole key, modulo 16384. And the hash of a
 * key, which has the slot in it in cluster mode.
 *
 * The tag is what is between the first '{' and the first '}' after it, if there is at least one byte: keys with the same tag are in one slot.
 */
#ifndef KELVIN_KEYSPACE_SLOT_H
#define KELVIN_KEYSPACE_SLOT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/siphash.h"

enum {
    SLOT_BITS = 14,
    SLOT_COUNT = 1 << SLOT_BITS,
    SLOT_SHIFT = 64 - SLOT_BITS,        /* of a slot's place in a hash */
};

/* Determines the hashes of keys. Without `by_slot` a hash is SipHash. With it the highest 14 bits are the slot's, in reverse order, and the
 * others are SipHash: then a slot is one range of hashes, and any 64 consecutive slots are in 64 different partitions. */
struct key_seed {
    struct hash_seed sip;
    bool by_slot;                       /* the same for as long as the process runs */
};

/* 0 to SLOT_COUNT - 1. */
uint16_t slot_of_key(struct bytes key);

/* Private: key_hash with slots. */
uint64_t slot_hash(const struct hash_seed *sip, struct bytes key);

/* The hash of a key's name: its partition, its place in the table and in the store. */
static inline uint64_t key_hash(const struct key_seed *seed, struct bytes key)
{
    if (UNLIKELY(seed->by_slot))
        return slot_hash(&seed->sip, key);
    return hash_bytes(&seed->sip, key);
}

/* Turns a slot into its place among the slots in hash order, and back. */
static inline uint16_t slot_reverse(uint16_t slot)
{
    uint32_t bits = slot;

    bits = (bits & 0x5555) << 1 | (bits >> 1 & 0x5555);
    bits = (bits & 0x3333) << 2 | (bits >> 2 & 0x3333);
    bits = (bits & 0x0f0f) << 4 | (bits >> 4 & 0x0f0f);
    bits = (bits & 0x00ff) << 8 | (bits >> 8 & 0x00ff);
    return (uint16_t)(bits >> (16 - SLOT_BITS));
}

/* For hashes by slot. */
static inline uint16_t slot_of_hash(uint64_t hash)
{
    return slot_reverse((uint16_t)(hash >> SLOT_SHIFT));
}

/* The lowest and the highest hash that a key of the slot may have. */
static inline uint64_t slot_first_hash(uint16_t slot)
{
    return (uint64_t)slot_reverse(slot) << SLOT_SHIFT;
}

static inline uint64_t slot_last_hash(uint16_t slot)
{
    return slot_first_hash(slot) | ((1ull << SLOT_SHIFT) - 1);
}

#endif
