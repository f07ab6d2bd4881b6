/* Keyspace: the keys of one database within one partition: a table, a heap and counters. Does not know clients.
 *
 * Handles are valid until the next change of the keyspace. No function frees value objects unless its comment says so.
 *
 * Owner: the partition's lock.
 */
#ifndef KELVIN_KEYSPACE_KEYSPACE_H
#define KELVIN_KEYSPACE_KEYSPACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "keyspace/entry.h"
#include "keyspace/heap.h"
#include "keyspace/page_name.h"
#include "keyspace/partition_lock.h"
#include "keyspace/table.h"

struct tier_keyspace;

/* Counts of one slot's keys, where hashes are by slot. There are entries + records - shadowed keys, but for those of which it is not known whether
 * they have a record (tier/count.c). */
struct slot_counts {
    uint32_t entries;
    uint32_t records;               /* in the store */
    uint32_t shadowed;              /* records whose key has an entry, or is deleted */
    uint32_t unknown;               /* entries, and deleted keys, of which it is not known whether there is a record */
};

struct keyspace {
    struct partition *partition;
    int db;                         /* the number of its database, or of the one whose pages it has; SWAPDB changes it */
    uint32_t incarnation;           /* of its database; not used again after a flush. Of a page space: keyspace/page_name.h */
    struct table table;
    struct heap heap;
    uint64_t expiring_count;        /* entries with an expiry */
    uint64_t record_counts[4];      /* entries by enum record_state */
    uint64_t probation_count;
    struct slot_counts *slots;      /* keyspace_slot; NULL: hashes are not by slot */
    bool may_have_times;            /* some hash may have fields that expire: active expiry looks for them */
    bool saw_due;                   /* in the current round, active expiry has seen a bucket in which something expires */
    uint64_t expire_cursor;         /* the hash at which active expiry continues */
    uint64_t demote_cursor;         /* the hash at which the search for cold keys continues */
    uint64_t resolve_cursor;        /* the hash at which the search for unknown records continues */
    uint32_t evacuate_unit;         /* the position of compaction in the barred segment */
    struct keyspace *next_flushed;  /* list in the partition: flushed keyspaces that a running checkpoint still needs */
    struct tier_keyspace *tier;     /* the tier's part: record map, graves, loads; NULL without a tier */
};

struct keyspace *keyspace_create(struct partition *partition, int db, uint32_t incarnation);
/* Frees all entries and their objects, but not the tier's part. Takes long for a large keyspace: not on a worker then. */
void keyspace_destroy(struct keyspace *keyspace);

/* Hashes are by slot: the counts of the slot that the hash is in. */
struct slot_counts *keyspace_slot(const struct keyspace *keyspace, uint64_t hash);
/* By the tier, for the counts by slot: `count` is the number of records that were added to the store (below 0: removed), of those that deleted keys
 * shadow, and of deleted keys of which it is not known whether they have a record. Nothing happens where hashes are not by slot. */
void keyspace_count_records(struct keyspace *keyspace, uint64_t hash, int count);
void keyspace_count_shadows(struct keyspace *keyspace, uint64_t hash, int count);
void keyspace_count_unknown(struct keyspace *keyspace, uint64_t hash, int count);

/* The caller holds the partition's lock: partition_assert_locked_debug. */
static inline void keyspace_assert_locked(const struct keyspace *keyspace) ASSERTS_HELD(keyspace->partition->lock);
static inline void keyspace_assert_locked(const struct keyspace *keyspace)
{
    partition_assert_locked_debug(keyspace->partition);
}

static inline uint64_t keyspace_hash(const struct keyspace *keyspace, struct bytes key)
{
    return name_hash(keyspace->table.seed, keyspace->incarnation, key);
}

static inline struct entry *keyspace_entry(const struct keyspace *keyspace, uint32_t handle)
{
    return heap_at(&keyspace->heap, handle);
}

/* Returns 0 if there is no entry. */
static inline uint32_t keyspace_find(const struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    return table_find(&keyspace->table, hash, key);
}

/* Adds an entry for a key that has none. Takes the value's object; copies inline strings. A new entry is on probation and has heat HEAT_NEW
 * and no flags but `record`. Returns 0 if there is no memory (the value still belongs to the caller). */
uint32_t keyspace_insert(struct keyspace *keyspace, uint64_t hash, struct bytes key, const struct value *value,
    int64_t expire_ms, enum record_state record, int64_t now_ms)
    REQUIRES(keyspace->partition->lock);

/* Replaces the entry's value: takes the object, copies inline strings (which may be the entry's own bytes). The old
 * object, if any, is for the caller to free. Returns the handle, which may have changed. */
uint32_t keyspace_set_value(struct keyspace *keyspace, uint64_t hash, uint32_t handle, const struct value *value)
    REQUIRES(keyspace->partition->lock);

/* -1: no expiry. Returns the handle, which may have changed. */
uint32_t keyspace_set_expire(struct keyspace *keyspace, uint64_t hash, uint32_t handle, int64_t expire_ms, int64_t now_ms)
    REQUIRES(keyspace->partition->lock);

/* Must be called when the expiry time of a field of the entry's hash may have become the earliest, so that active
 * expiry finds it. */
void keyspace_note_times(struct keyspace *keyspace, uint64_t hash, uint32_t handle, int64_t now_ms)
    REQUIRES(keyspace->partition->lock);

/* Removes the entry and frees its block. The object, if any, is passed to the caller in `value` (type, encoding and
 * object; no bytes). */
void keyspace_remove(struct keyspace *keyspace, uint64_t hash, uint32_t handle, struct value *value)
    REQUIRES(keyspace->partition->lock);

void keyspace_set_record(struct keyspace *keyspace, struct entry *entry, enum record_state state)
    REQUIRES(keyspace->partition->lock);
/* Records a change of the entry: its record in the store is older now, and a batch that is being written does not
 * contain it any more (tier rule 6). */
static inline void keyspace_mark_dirty(struct keyspace *keyspace, struct entry *entry) REQUIRES(keyspace->partition->lock);
static inline void keyspace_mark_dirty(struct keyspace *keyspace, struct entry *entry)
{
    if (entry_record(entry) == RECORD_CLEAN)
        keyspace_set_record(keyspace, entry, RECORD_STALE);
    entry->flags &= (uint8_t)~ENTRY_WRITING;
}
void keyspace_set_probation(struct keyspace *keyspace, struct entry *entry, bool on)
    REQUIRES(keyspace->partition->lock);

/* Active expiry: examines up to `bucket_count` buckets, continuing where it stopped, and calls `found` for each entry
 * that has expired, or has fields that have, and is not held. `found` removes the entry, or the fields (and then calls
 * keyspace_note_times). Of buckets in which nothing has expired only their own cache line is read. Returns true when a
 * round is complete. */
typedef void keyspace_expired(void *context, struct keyspace *keyspace, uint64_t hash, uint32_t handle);
bool keyspace_expire_step(struct keyspace *keyspace, int64_t now_ms, uint32_t bucket_count, keyspace_expired *found, void *context)
    REQUIRES(keyspace->partition->lock);

/* Compaction: moves up to `block_count` entries out of the emptiest segment. False if there is nothing to do because
 * holes are at most `hole_percent` of the heap. */
bool keyspace_compact(struct keyspace *keyspace, uint32_t block_count, uint32_t hole_percent)
    REQUIRES(keyspace->partition->lock);

/* Bytes needed by entries, and bytes of all memory held for them; both include the table. */
uint64_t keyspace_live_size(const struct keyspace *keyspace);
uint64_t keyspace_held_size(const struct keyspace *keyspace);

void keyspace_verify(const struct keyspace *keyspace);      /* CHECKs everything; for tests */

#endif
