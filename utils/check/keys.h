/* Keys: every key that the index of a store has, with what is known about its record. 24 bytes of memory each. */
#ifndef KELVIN_CHECK_KEYS_H
#define KELVIN_CHECK_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

enum key_state {
    KEY_HAS_TAG = 1,
    KEY_IS_BAD = 2,                 /* no record, a damaged one, or perhaps an outdated one */
    KEY_IS_FOUND = 4,               /* a valid record was read at its place */
};

struct checked_key {
    uint64_t hash;
    uint64_t place : 56, state : 8; /* place 0: none is known */
    uint32_t incarnation;
    uint32_t sum;                   /* of the key, as two keys may have equal hashes */
};

struct checked_keys {
    struct checked_key *list;
    size_t count, capacity;
};

void keys_release(struct checked_keys *keys);
struct checked_key *keys_add(struct checked_keys *keys, uint32_t incarnation, uint64_t hash, struct bytes key);
/* Orders: by incarnation and hash, in which they are added; by place. */
void keys_sort_by_hash(struct checked_keys *keys);
void keys_sort_by_place(struct checked_keys *keys);
/* NULL: there is no such key. Sorted by hash. */
struct checked_key *keys_find(const struct checked_keys *keys, uint32_t incarnation, uint64_t hash, struct bytes key);
bool keys_is(const struct checked_key *checked, uint32_t incarnation, uint64_t hash, struct bytes key);
/* The index of the first key that is not before a hash; or a place. Sorted likewise. */
size_t keys_from_hash(const struct checked_keys *keys, uint32_t incarnation, uint64_t hash);
size_t keys_from_place(const struct checked_keys *keys, uint64_t place);

#endif
