/* Table: from a key's hash to its entry's handle, in cache-line buckets, in hash order.
 *
 *   bucket (64 bytes) = 12 tags u8 | overflow u8 | due u24 | 12 handles u32
 *   tag = low byte of the hash, never 0; a handle of 0 is a free slot
 *   overflow = number of keys that did not fit into this bucket, or passed it, and are in a later one (at most 255, then it stays 255)
 *   due = second of the earliest expiry in this bucket, of a key or a field, modulo 2^24, 0: none (for keyspace_expire_step)
 *
 * The table is a directory of leaves by the hash's top bits (below the partition's). Each leaf is an array of any
 * number of buckets, indexed by multiplication, so that table order is hash order except for keys displaced to a
 * following bucket. That needs hashes that are uniform within a leaf: with hashes by slot, and those of pages, no leaf spans two slots (two values of the highest 14 bits), and each slot has a leaf of
 * its own, unless it has no keys (the directories are 128 KiB in all). A leaf grows and shrinks independently in steps of 1/4 to 1/7 (the allocator's size classes), and
 * splits at TABLE_LEAF_LINES_MAX: the longest step is the rebuilding of one leaf, about 2500 keys. Extendible hashing
 * (Fagin, Nievergelt, Pippenger, Strong 1979) for the directory; overflow counts as in F14 (Bronson, Shi 2019).
 *
 * The table stores no hashes: when it rebuilds a leaf, it computes them from the keys in the heap, with the seed.
 *
 * Owner: the partition's lock.
 */
#ifndef KELVIN_KEYSPACE_TABLE_H
#define KELVIN_KEYSPACE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "keyspace/heap.h"
#include "keyspace/page_name.h"

enum {
    TABLE_BUCKET_SLOTS = 12,
    TABLE_LEAF_LINES_MAX = 256,     /* cache lines of a leaf, its header included */
};

struct table_bucket {
    uint8_t tags[TABLE_BUCKET_SLOTS];
    uint8_t overflow;
    uint8_t due[3];
    uint32_t handles[TABLE_BUCKET_SLOTS];
};

struct table {
    uint64_t *directory;        /* leaf address | bucket count << 48 | leaf depth in the low 6 bits */
    uint8_t depth;              /* the directory has 2^depth words */
    uint8_t least_depth;        /* of the directory and of leaves */
    uint8_t skip;               /* the number of top bits of the hash that all keys share: the partition's */
    uint8_t stagger;            /* varies the load at which leaves grow, by partition */
    uint64_t count;
    size_t leaf_bytes;
    const struct heap *heap;
    const struct key_seed *seed;
    uint32_t incarnation;           /* says, with the seed, what the hash of a name is (name_hash) */
};

void table_init(struct table *table, const struct heap *heap, const struct key_seed *seed, uint32_t incarnation, uint8_t skip, uint8_t stagger);
void table_release(struct table *table);

/* Returns 0 if the key is not there. */
uint32_t table_find(const struct table *table, uint64_t hash, struct bytes key);

/* The same for a key of which only the hash is known: the first one that is met; 0: there is none. */
uint32_t table_find_hash(const struct table *table, uint64_t hash);

/* The key must not be there. Its entry is in the heap already. */
void table_insert(struct table *table, uint64_t hash, uint32_t handle);
/* The handle must be there. May shrink the leaf. */
void table_remove(struct table *table, uint64_t hash, uint32_t handle);
/* Changes the handle of an entry that has moved. */
void table_replace(struct table *table, uint64_t hash, uint32_t from, uint32_t to);

/* Notes that the entry, which is in the table, expires: its bucket's due time must not be later. */
void table_note_due(struct table *table, uint64_t hash, uint32_t handle, int64_t expire_ms, int64_t now_ms);

/* For prefetching: addresses of the bucket that is home to the hash, and of the first entry there whose tag matches (NULL: there is none). They
 * are not to be read. The first one does not read the bucket. */
const char *table_bucket_at(const struct table *table, uint64_t hash);
const char *table_entry_at(const struct table *table, uint64_t hash);

/* Iterates over buckets in table order. A position is a hash (without the bits shared in the partition): it stays valid
 * while the table changes. */
struct table_cursor {
    struct table_bucket *bucket;
    uint64_t first_hash;        /* keys whose home is this bucket have hashes from here ... */
    uint64_t last_hash;         /* ... to here, inclusive, with the partition's bits */
    struct table_bucket *leaf;        /* private: the leaf's first bucket, their number and the index of this one */
    uint32_t leaf_count, index;
};
/* Moves to the bucket that is home to `hash`. False if the table is empty. */
bool table_seek(const struct table *table, uint64_t hash, struct table_cursor *cursor);
/* Moves to the next bucket; false at the end. */
bool table_next(const struct table *table, struct table_cursor *cursor);

/* No entry's home is this bucket: nothing is in it, and nothing was displaced. With hashes by slot most may be so. */
static inline bool table_bucket_is_unused(const struct table_bucket *bucket)
{
    uint64_t words[2];

    memcpy(words, bucket, sizeof(words));
    return ((words[1] & 0xffffffffff) | words[0]) == 0;
}

/* Calls `found` for each entry whose home is the cursor's bucket, displaced ones included. */
typedef void table_found(void *context, uint64_t hash, uint32_t handle);
void table_home_entries(const struct table *table, const struct table_cursor *cursor, table_found *found, void *context);
/* The same for entries that `wanted` accepts. `wanted` may also be called for other entries, and several times for the
 * same one; it should be quick. */
typedef bool table_wanted(void *context, uint32_t handle);
void table_home_wanted(const struct table *table, const struct table_cursor *cursor, table_wanted *wanted, table_found *found, void *context);

size_t table_size(const struct table *table);       /* bytes of memory */
/* An upper bound of the buckets that a walk over all meets. */
static inline size_t table_buckets_max(const struct table *table)
{
    return table->leaf_bytes / sizeof(struct table_bucket) + ((size_t)1 << table->depth);
}
void table_verify(const struct table *table);       /* CHECKs everything; for tests */

uint32_t table_bucket_due(const struct table_bucket *bucket);
void table_bucket_set_due(struct table_bucket *bucket, uint32_t due);
/* Seconds modulo 2^24, never 0; distant times are brought near enough to be compared. */
uint32_t table_due_of(int64_t expire_ms, int64_t now_ms);
bool table_due_before(uint32_t a, uint32_t b);

#endif
