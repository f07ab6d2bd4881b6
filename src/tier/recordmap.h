/* Record map: which records may be in the store, in about 4 bytes a record.
 *
 * An approximate multiset of 24-bit tags. A tag comes from the key's hash; the position of a tag comes from the
 * tag alone, so that the map grows and shrinks without keys. "No" is certain: the key has no record.
 * "Maybe" is wrong for about 2 in 10^6 absent keys.
 *
 * Owner: the partition's lock. One map a partition and database; an empty one holds no memory to speak of.
 *
 *   bucket (64 bytes) = 21 tags x 3 bytes | count u8 (0..21; 255 with bit: see overflow in the .c)
 *
 * Tags that don't fit their bucket go to a small stash. Equal tags of different keys are kept as often
 * as they were added; recordmap_remove takes one of them.
 */
#ifndef KELVIN_TIER_RECORDMAP_H
#define KELVIN_TIER_RECORDMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct recordmap;

/* `stagger` 0..255: spreads the growth of many equal maps, so that they do not all grow at once. */
struct recordmap *recordmap_create(uint8_t stagger);
void recordmap_destroy(struct recordmap *map);      /* NULL is fine */

/* `hash` is the key's full 64-bit hash; its top 8 bits may be the same for all keys of one map
 * (they chose the partition), so they carry nothing. */
void recordmap_add(struct recordmap *map, uint64_t hash);
void recordmap_remove(struct recordmap *map, uint64_t hash);        /* CHECKs that the tag is there */
bool recordmap_maybe(const struct recordmap *map, uint64_t hash);

/* For a pipeline: asks the CPU for the line that recordmap_maybe will read. */
void recordmap_prefetch(const struct recordmap *map, uint64_t hash);

uint64_t recordmap_count(const struct recordmap *map);  /* tags, = records */
size_t   recordmap_size(const struct recordmap *map);   /* bytes of memory held */

/* All tags in ascending order, 3 bytes little-endian each, for saving with a checkpoint;
 * `out` has 3 * recordmap_count bytes. recordmap_load adds such a run of tags; false if it isn't ascending. */
void recordmap_save(const struct recordmap *map, uint8_t *out);
bool recordmap_load(struct recordmap *map, const uint8_t *tags, uint64_t count);

#endif
