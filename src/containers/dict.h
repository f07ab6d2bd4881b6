/* Dict: a hash table from keys to values, both byte strings. The value is opaque: anything for the field of a hash. An empty
 * one takes no memory: the members of a set have none.
 *
 * Linear hashing: the table grows and shrinks one bucket at a time, so no call ever has to move more than two
 * buckets, however large the dict is, and memory follows the number of pairs without doubling. A pair is one block,
 * reached by one 8-byte slot in a cache line of eight, which also holds 16 bits of its hash. Functions that take a
 * const dict change nothing, so any number of threads may read while nobody writes.
 *
 * Owner: whoever owns the value. Bytes given to a function that changes the dict must not lie in it; bytes it gives
 * out are borrowed until the dict changes.
 */
#ifndef KELVIN_CONTAINERS_DICT_H
#define KELVIN_CONTAINERS_DICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/random.h"

struct dict;

/* The dict keeps a copy of the seed. Dicts of one seed enumerate and scan in the same order at equal sizes, so a scan
 * goes on where it was after a dict was written down and built again, if the seed is the same. */
struct dict *dict_create(const struct hash_seed *seed);
void dict_destroy(struct dict *dict);                           /* NULL is fine; takes time by the number of pairs */
struct dict *dict_copy(const struct dict *dict);

size_t dict_count(const struct dict *dict);

/* Makes the table large enough for `count` pairs at once; for an empty dict. */
void dict_reserve(struct dict *dict, size_t count);

/* `value` may be NULL. */
bool dict_find(const struct dict *dict, struct bytes key, struct bytes *value);
/* Adds or overwrites. True if the key is new. */
bool dict_put(struct dict *dict, struct bytes key, struct bytes value);
/* False if there was none. */
bool dict_remove(struct dict *dict, struct bytes key);

/* All pairs, each once, in no promised order. The dict does not change meanwhile. */
struct dict_iterator {
    const struct dict *dict;
    size_t bucket, index;
};
void dict_iterate(struct dict_iterator *iterator, const struct dict *dict);
bool dict_next(struct dict_iterator *iterator, struct bytes *key, struct bytes *value);

/* Any pair with the same chance; the dict is not empty. */
void dict_random(const struct dict *dict, struct random *random, struct bytes *key, struct bytes *value);

/* Calls `found` for about `count` pairs from `cursor` on, and returns where to go on: 0 at the end, as at the start.
 * Between two calls the dict may change in any way: a pair that is there from the first call to the last is found at
 * least once. Any cursor is safe to give. `found` must not change the dict. */
typedef void dict_found(void *context, struct bytes key, struct bytes value);
uint64_t dict_scan(const struct dict *dict, uint64_t cursor, size_t count, dict_found *found, void *context);

/* Bytes of memory, as the allocator counts them. Looks at `samples` pairs and extrapolates; 0 looks at all. */
size_t dict_memory(const struct dict *dict, size_t samples);

#endif
