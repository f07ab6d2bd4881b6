/* Record map: which records may be in the store, in 2.5 to 3.3 bytes a record, the more the fewer.
 *
 * An approximate multiset of 34-bit tags. A tag comes from the key's hash; the place of a tag comes from the
 * tag alone, so that the map grows and shrinks without keys. "No" is certain: the key has no record.
 * "Maybe" is wrong for one absent key in 2^34 / recordmap_count: 9 in 10^6 with 10 million records in 64 maps.
 *
 * Owner: the partition's lock. One map a partition and database; an empty one holds no memory to speak of.
 *
 * Equal tags of different keys are kept as often as they were added; recordmap_remove takes one of them.
 */
#ifndef KELVIN_TIER_RECORDMAP_H
#define KELVIN_TIER_RECORDMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RECORDMAP_TAG_BITS = 34,
    RECORDMAP_TAG_SIZE = 5,         /* bytes of a saved tag */
};

struct recordmap;

/* `stagger` 0..255: spreads the growth of many equal maps, so that they do not all grow at once. */
struct recordmap *recordmap_create(uint8_t stagger);
void recordmap_destroy(struct recordmap *map);      /* NULL is fine */

/* `hash` is the key's full 64-bit hash; its top 8 bits may be the same for all keys of one map
 * (they chose the partition), so they carry nothing: the tag is the lowest 34 bits. */
void recordmap_add(struct recordmap *map, uint64_t hash);
void recordmap_remove(struct recordmap *map, uint64_t hash);        /* CHECKs that the tag is there */
bool recordmap_maybe(const struct recordmap *map, uint64_t hash);

/* For a pipeline: asks the CPU for the lines that recordmap_maybe will probably read. */
void recordmap_prefetch(const struct recordmap *map, uint64_t hash);

uint64_t recordmap_count(const struct recordmap *map);  /* tags, = records */
size_t   recordmap_size(const struct recordmap *map);   /* bytes of memory held, allocator's rounding included */

/* All tags in ascending order, RECORDMAP_TAG_SIZE bytes little-endian each, for saving with a checkpoint;
 * `out` has RECORDMAP_TAG_SIZE * recordmap_count bytes. */
void recordmap_save(const struct recordmap *map, uint8_t *out);

/* Adds such a run of tags. False, and nothing is added, if it isn't ascending or holds what can't be a tag. */
bool recordmap_load(struct recordmap *map, const uint8_t *tags, uint64_t count);

#endif
