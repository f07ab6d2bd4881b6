/* Keyspace: the keys of one database within one partition. Table, heap and counts; knows nothing of clients.
 *
 * Handles are valid until the next change of this keyspace. Nothing here frees value objects unless it says so.
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
#include "keyspace/table.h"

struct partition;
struct tier_keyspace;

struct keyspace {
    struct partition *partition;
    int db;                         /* its database's number; changes with SWAPDB */
    uint32_t incarnation;           /* of its database; never used again after a flush */
    struct table table;
    struct heap heap;
    uint64_t expiring_count;        /* entries with an expiry */
    uint64_t record_counts[4];      /* entries by enum record_state */
    uint64_t probation_count;
    bool may_have_times;            /* some hash may have fields with times: the active expiry looks for them */
    bool saw_due;                   /* in its present round it saw a bucket in which something will be due */
    uint64_t expire_cursor;         /* hash where the active expiry goes on */
    uint64_t demote_cursor;         /* hash where the search for cold keys goes on */
    uint64_t resolve_cursor;        /* hash where the search for unknown records goes on */
    uint32_t evacuate_unit;         /* where compaction is in the barred segment */
    struct keyspace *next_flushed;  /* in its partition's list of those a running checkpoint still needs */
    struct tier_keyspace *tier;     /* what the tier keeps here: record map, graves, loads; NULL without a tier */
};

struct keyspace *keyspace_create(struct partition *partition, int db, uint32_t incarnation);
/* Frees all entries and their objects; not the tier's part. May take long: not on a worker for big ones. */
void keyspace_destroy(struct keyspace *keyspace);

static inline struct entry *keyspace_entry(const struct keyspace *keyspace, uint32_t handle)
{
    return heap_at(&keyspace->heap, handle);
}

/* 0: no entry. */
static inline uint32_t keyspace_find(const struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    return table_find(&keyspace->table, hash, key);
}

/* A new entry; the key has none. Takes the value's object; copies inline strings. New keys have heat HEAT_NEW and no flags
 * but `record`. 0: the machine refuses memory (the value stays the caller's). */
uint32_t keyspace_insert(struct keyspace *keyspace, uint64_t hash, struct bytes key, const struct value *value,
    int64_t expire_ms, enum record_state record, int64_t now_ms);

/* Another value in the entry; takes its object, copies inline strings (which may be the entry's own bytes). The old
 * object, if any, is the caller's business. Returns the handle, which may have changed. */
uint32_t keyspace_set_value(struct keyspace *keyspace, uint64_t hash, uint32_t handle, const struct value *value);

/* -1: no expiry. Returns the handle, which may have changed. */
uint32_t keyspace_set_expire(struct keyspace *keyspace, uint64_t hash, uint32_t handle, int64_t expire_ms, int64_t now_ms);

/* To be called when a time of a field in the entry's hash may have become the earliest: the active expiry will see it. */
void keyspace_note_times(struct keyspace *keyspace, uint64_t hash, uint32_t handle, int64_t now_ms);

/* Takes the entry out and frees its block. The object, if any, is handed to the caller in `value` (type, encoding and
 * object; no bytes). */
void keyspace_remove(struct keyspace *keyspace, uint64_t hash, uint32_t handle, struct value *value);

void keyspace_set_record(struct keyspace *keyspace, struct entry *entry, enum record_state state);
/* The entry is changed: its record is old now, and a batch that is being written holds it no longer (tier rule 6). */
static inline void keyspace_mark_dirty(struct keyspace *keyspace, struct entry *entry)
{
    if (entry_record(entry) == RECORD_CLEAN)
        keyspace_set_record(keyspace, entry, RECORD_STALE);
    entry->flags &= (uint8_t)~ENTRY_WRITING;
}
void keyspace_set_probation(struct keyspace *keyspace, struct entry *entry, bool on);

/* The active expiry: looks at up to `bucket_count` buckets from where it left off and calls `found` for each entry that
 * has expired, or has fields that have, and is not held; `found` removes it, or them (and then calls keyspace_note_times). Only
 * buckets with something due are read beyond their line. True when it came round to the start. */
typedef void keyspace_expired(void *context, struct keyspace *keyspace, uint64_t hash, uint32_t handle);
bool keyspace_expire_step(struct keyspace *keyspace, int64_t now_ms, uint32_t bucket_count, keyspace_expired *found, void *context);

/* Compaction: moves up to `block_count` entries out of the emptiest segment. False if holes are at most `hole_percent` of
 * the heap, so that there is nothing to do. */
bool keyspace_compact(struct keyspace *keyspace, uint32_t block_count, uint32_t hole_percent);

/* Bytes: of entries (what they really need), and of all memory held for them, table included. */
uint64_t keyspace_live_size(const struct keyspace *keyspace);
uint64_t keyspace_held_size(const struct keyspace *keyspace);

void keyspace_verify(const struct keyspace *keyspace);      /* CHECKs everything; for tests */

#endif
