/* Record map: which records may be in the store and where each of them is, in 6 to 8 bytes a record.
 *
 * A set of 34-bit tags, each with the place of a record. A tag is some of the bits of the key's hash; where a tag is kept comes from the
 * tag alone, so that the map grows and shrinks without keys. "No" is certain: the key has no record.
 * "Maybe" is wrong for one absent key in 2^34 / recordmap_count: 9 in 10^6 with 10 million records in 64 maps.
 *
 * Owner: the partition's lock. One map a partition and database; an empty one holds no memory to speak of.
 *
 * The first record with a tag is its *primary*: the map does not know its key. A record whose tag is taken is a *twin*, kept
 * with its key (tier/twins.h): about one in 10^5 records, and a record beside the older one of the same key until that is removed.
 *   - A tag that has twins has a primary: if it is removed, its oldest twin becomes the primary.
 *   - So of two records of one key, the older is the primary or the older twin.
 */
#ifndef KELVIN_TIER_RECORDMAP_H
#define KELVIN_TIER_RECORDMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "tier/tagrun.h"

enum {
    RECORDMAP_TAG_BITS = 34,
    /* A place is a number below 2^47. 0: none. A map's memory depends on its largest places. */
    RECORDMAP_PLACE_BITS = TAGRUN_PLACE_BITS_MAX,
    RECORDMAP_TAG_SHIFT_MAX = 64 - RECORDMAP_TAG_BITS,
};

struct recordmap;

/* `stagger` 0..255: spreads the growth of many equal maps, so that they do not all grow at once. `tag_shift`: the number of
 * bits of a hash below those of its tag, at most RECORDMAP_TAG_SHIFT_MAX. If the bits above are the same in all hashes of the map, tags are in the order of
 * hashes: keys that are looked up in this order, as the index has them, find their runs in the CPU's cache. The bits of the tag have to be random. */
struct recordmap *recordmap_create(uint8_t stagger, unsigned tag_shift);
void recordmap_destroy(struct recordmap *map);      /* NULL is fine */

unsigned recordmap_tag_shift(const struct recordmap *map);
/* The best one for the hashes of one of 2^partition_bits partitions. By slot, and in page spaces: all keys of a map may be of one slot. */
static inline unsigned recordmap_best_tag_shift(unsigned partition_bits, bool by_slot)
{
    return by_slot ? 0 : RECORDMAP_TAG_SHIFT_MAX - partition_bits;
}

/* `hash` is the key's full 64-bit hash, here and in all functions below. */
static inline uint64_t recordmap_tag(uint64_t hash, unsigned tag_shift)
{
    return hash >> tag_shift & ((1ull << RECORDMAP_TAG_BITS) - 1);
}

/* One more record. The key is copied if it becomes a twin. */
void recordmap_add(struct recordmap *map, uint64_t hash, struct bytes key, uint64_t place);

/* The place of the key's record: of its twin (the one added last), else of the tag's primary, which may be another key's.
 * False: the key has no record. */
bool recordmap_find(const struct recordmap *map, uint64_t hash, struct bytes key, uint64_t *place);
/* Whether any record has the tag; true for every key that has a record. */
bool recordmap_maybe(const struct recordmap *map, uint64_t hash);
/* Whether any record with the tag has this place. */
bool recordmap_has_place(const struct recordmap *map, uint64_t hash, uint64_t place);

/* Both take the twin with this key and place, else the primary, which has this place: CHECKed. */
void recordmap_move(struct recordmap *map, uint64_t hash, struct bytes key, uint64_t from, uint64_t to);
void recordmap_remove(struct recordmap *map, uint64_t hash, struct bytes key, uint64_t place);

/* For a pipeline: asks the CPU for the lines that recordmap_find will probably read. It reads the tag's row itself, whose address the other one
 * returns, so that it can be fetched before; NULL: the map is empty. */
void recordmap_prefetch(const struct recordmap *map, uint64_t hash);
const char *recordmap_row_at(const struct recordmap *map, uint64_t hash);

uint64_t recordmap_count(const struct recordmap *map);          /* records, twins included */
uint64_t recordmap_twin_count(const struct recordmap *map);
uint64_t recordmap_nowhere_count(const struct recordmap *map);  /* records at PLACE_NOWHERE */
size_t   recordmap_size(const struct recordmap *map);           /* bytes of memory held, allocator's rounding included */
unsigned recordmap_place_bits(const struct recordmap *map);     /* every place is below 2^ this; at times more than needed */

struct recordmap_record {
    uint64_t tag;
    uint64_t place;
    struct bytes key;       /* of a twin; data is NULL for a primary */
    bool is_twin;
};

/* All records in ascending order of tags, after each primary its twins, the oldest first. The map must not change meanwhile.
 * A walk in parts: end a part before a record with a new tag, begin the next at this tag; records added and removed between
 * the parts may be met or not, all others are met once. */
struct recordmap_walk {
    const struct recordmap *map;
    uint64_t base;                  /* first tag of the current run */
    uint64_t end;                   /* first tag of the next one */
    uint64_t from;
    uint64_t tag;                   /* of the last record */
    uint32_t twin;                  /* the next twin */
    bool in_run;
    struct tagrun_reader reader;
};
void recordmap_walk_begin(struct recordmap_walk *walk, const struct recordmap *map, uint64_t from_tag);
bool recordmap_walk_next(struct recordmap_walk *walk, struct recordmap_record *record);     /* false: that was all */

#endif
