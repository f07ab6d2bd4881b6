/* Partitions: the keyspace cut by the top bits of the keys' hashes, each part under one lock.
 *
 * Lock order: partitions in ascending order, then leaf locks. Nothing blocks or does I/O under a partition's lock.
 */
#ifndef KELVIN_KEYSPACE_PARTITION_H
#define KELVIN_KEYSPACE_PARTITION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/mutex.h"
#include "keyspace/keyspace.h"

struct partitions;

struct partition {
    struct mutex lock;
    bool locked;                    /* for ASSERT_LOCKED; under the lock */
    uint32_t index;
    struct partitions *all;         /* immutable */
    struct keyspace **keyspaces;    /* by database; NULL: no key yet. Under the lock */
    struct keyspace *flushed;       /* flushed away, but needed by a running checkpoint. Under the lock */
    uint64_t last_lsn;              /* of the last change here. Under the lock */
} __attribute__((aligned(64)));

/* Told about keys that come and go, under the partition's lock. Set once, before the first key. */
struct keyspace_watch {
    void *context;
    /* A key without an entry is about to get one: what is known about its record. */
    enum record_state (*record_of_new)(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key);
    /* An entry left for good (was deleted, expired, renamed; not demoted). */
    void (*removed)(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key, enum record_state record);
    void (*keyspace_created)(void *context, struct keyspace *keyspace);
    /* An entry from before the last cut is about to be changed or removed, for the first time since: see partition_changing. */
    void (*changing)(void *context, struct keyspace *keyspace, uint64_t hash, uint32_t handle);
    /* With all partitions locked: whether records of a former life of this number may still be stored. */
    bool (*incarnation_is_taken)(void *context, uint32_t incarnation);
};

/* Incarnations are 1 .. INCARNATION_MAX. */
enum { INCARNATION_MAX = 0x7fffffff };

struct partitions {
    struct partition *partitions;
    uint32_t count;                 /* power of two */
    uint8_t bits;
    int db_count;
    struct hash_seed seed;
    struct segment_pool *pool;
    struct keyspace_watch watch;
    uint8_t parity;                 /* turned at each cut, with all locked; read under any partition's lock */
    _Atomic bool sealing;           /* a checkpoint has cut, and not written yet all that was there at the cut */
    _Atomic uint32_t *incarnations; /* by database */
    _Atomic uint32_t incarnation_last;      /* the highest that was ever used */
    uint32_t incarnation_reused;    /* once that is INCARNATION_MAX: where the search for one that is free goes on. All locked */
};

struct partitions *partitions_create(uint32_t count, int db_count, struct hash_seed seed);
void partitions_destroy(struct partitions *all);

static inline uint32_t partition_index(const struct partitions *all, uint64_t hash)
{
    return all->bits == 0 ? 0 : (uint32_t)(hash >> (64 - all->bits));
}

/* The lowest hash that belongs to it. */
static inline uint64_t partition_first_hash(const struct partition *partition)
{
    return partition->all->bits == 0 ? 0 : (uint64_t)partition->index << (64 - partition->all->bits);
}

static inline void partition_lock(struct partition *partition) ACQUIRE(partition->lock);
static inline void partition_lock(struct partition *partition)
{
    mutex_lock(&partition->lock);
    partition->locked = true;
}

static inline void partition_unlock(struct partition *partition) RELEASE(partition->lock);
static inline void partition_unlock(struct partition *partition)
{
    partition->locked = false;
    mutex_unlock(&partition->lock);
}

/* The caller holds the lock: checked with the holder in debug and sanitizer builds, and that somebody holds it in release builds. */
static inline void partition_assert_locked(const struct partition *partition) ASSERTS_HELD(partition->lock);
static inline void partition_assert_locked(const struct partition *partition)
{
    CHECK(partition->locked && mutex_is_mine(&partition->lock));
}

#define ASSERT_LOCKED(partition) partition_assert_locked(partition)

/* To be called before an entry is changed or removed, and before the object of a value is. Under the lock. */
static inline void partition_changing(struct keyspace *keyspace, uint64_t hash, uint32_t handle)
{
    struct partitions *all = keyspace->partition->all;

    if (__builtin_expect(!!(keyspace_entry(keyspace, handle)->flags & ENTRY_EPOCH) != all->parity, 0)) {
        if (all->watch.changing != NULL)
            all->watch.changing(all->watch.context, keyspace, hash, handle);
        else
            keyspace_entry(keyspace, handle)->flags ^= ENTRY_EPOCH;
    }
}

/* Values that take more work than this to encode are encoded without the lock (tier rule 9). */
bool entry_is_big(const struct entry *entry);

/* The entry's object is needed as it is, by whoever encodes it (tier rule 9) or by a checkpoint that has not written it yet. Who wants
 * to change it waits, if he can. */
static inline bool entry_is_held(const struct keyspace *keyspace, const struct entry *entry)
{
    const struct partitions *all = keyspace->partition->all;

    if (entry->flags & ENTRY_LATCHED)
        return true;
    return __builtin_expect(all->sealing, 0) && !!(entry->flags & ENTRY_EPOCH) != all->parity && entry_record(entry) != RECORD_CLEAN &&
           entry_is_big(entry);
}

void partitions_lock_all(struct partitions *all);
void partitions_unlock_all(struct partitions *all);

/* The keyspace of a database, created if it is not there yet. */
struct keyspace *partition_keyspace(struct partition *partition, int db);
/* NULL if there is none. */
static inline struct keyspace *partition_keyspace_if(const struct partition *partition, int db)
{
    return partition->keyspaces[db];
}

/* A number never used before. Once they have run out, one that no database has and that is not taken (see keyspace_watch). With
 * all locked, or before there are other threads. */
uint32_t partitions_next_incarnation(struct partitions *all);

/* With all locked. The database is empty from now on, under a new incarnation; the old keyspaces are handed out to
 * whoever frees them: old[partition], NULL where there was none. A database without any keyspace has nothing stored either, and
 * keeps its incarnation: flushing it again and again costs no numbers. False then. */
bool partitions_flush(struct partitions *all, int db, struct keyspace **old);
void partitions_swap(struct partitions *all, int a, int b);

/* Entries over all partitions, each locked in turn. */
uint64_t partitions_entry_count(struct partitions *all, int db);
uint64_t partitions_expiring_count(struct partitions *all, int db);

/* The largest last_lsn, each partition locked in turn. It covers all changes that the caller has seen in any of them before. */
uint64_t partitions_last_lsn(struct partitions *all);

#endif
