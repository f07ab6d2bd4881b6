/* Dict: a hash table from keys to values, both byte strings. The value is opaque. An empty value takes no memory, so a
 * set is a dict with empty values.
 *
 * Linear hashing: the table grows and shrinks one bucket at a time, so no call has to move more than two buckets,
 * however large the dict is, and memory follows the number of pairs without doubling. A pair is one block, referred to
 * by an 8-byte slot, which also contains 16 bits of the hash; eight slots are a cache line. Functions that take a const
 * dict change nothing, so any number of threads may read while none writes.
 *
 * Owner: the owner of the value. Bytes passed to a function that changes the dict must not be part of it; bytes
 * returned are borrowed until the dict changes.
 */
#ifndef KELVIN_CONTAINERS_DICT_H
#define KELVIN_CONTAINERS_DICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/random.h"
#include "base/siphash.h"

struct dict;

/* The dict keeps a copy of the seed. Dicts with the same seed and the same size enumerate and scan in the same order,
 * so a scan can continue after a dict was stored and rebuilt with the same seed. */
struct dict *dict_create(const struct hash_seed *seed);
void dict_destroy(struct dict *dict);                           /* NULL is fine; takes time proportional to the number of pairs */
struct dict *dict_copy(const struct dict *dict);

size_t dict_count(const struct dict *dict);
/* Bytes of all pairs, as containers/pair.h has them. */
size_t dict_size(const struct dict *dict);

/* Makes the table large enough for `count` pairs; the dict must be empty. */
void dict_reserve(struct dict *dict, size_t count);

/* `value` may be NULL. */
bool dict_find(const struct dict *dict, struct bytes key, struct bytes *value);
/* Adds or overwrites. True if the key is new. */
bool dict_put(struct dict *dict, struct bytes key, struct bytes value);
/* False if it is not there. */
bool dict_remove(struct dict *dict, struct bytes key);

/* Iterates over all pairs, each once, in no particular order. The dict must not change meanwhile. */
struct dict_iterator {
    const struct dict *dict;
    size_t bucket, index;
};
void dict_iterate(struct dict_iterator *iterator, const struct dict *dict);
bool dict_next(struct dict_iterator *iterator, struct bytes *key, struct bytes *value);

/* A random pair, all with the same probability; the dict must not be empty. */
void dict_random(const struct dict *dict, struct random *random, struct bytes *key, struct bytes *value);

/* Calls `found` for about `count` pairs from `cursor` on and returns the next cursor. 0 begins and ends a scan. Between
 * two calls the dict may change in any way: a pair that is there from the first call to the last is found at least
 * once. Any cursor is safe to pass. `found` must not change the dict. */
typedef void dict_found(void *context, struct bytes key, struct bytes value);
uint64_t dict_scan(const struct dict *dict, uint64_t cursor, size_t count, dict_found *found, void *context);

/* Bytes of memory as the allocator counts them. Measures `samples` pairs and extrapolates; 0 measures all. */
size_t dict_memory(const struct dict *dict, size_t samples);

#endif
