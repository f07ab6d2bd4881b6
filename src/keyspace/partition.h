/* Partitions: the keyspace divided by the top bits of the keys' hashes, each partition under one lock.
 *
 * Lock order: partitions in ascending order, then leaf locks. Nothing blocks or does I/O under a partition's lock.
 */
#ifndef KELVIN_KEYSPACE_PARTITION_H
#define KELVIN_KEYSPACE_PARTITION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/mutex.h"
#include "keyspace/keyspace.h"
#include "keyspace/owners.h"
#include "keyspace/partition_lock.h"
#include "keyspace/slot.h"

enum key_use { KEY_USED, KEY_OVERWRITTEN, KEY_CREATED };

/* Callbacks for keys that are added, changed and removed, called under the partition's lock. Set once, before the first
 * key. */
struct keyspace_watch {
    void *context;
    /* A key without an entry is about to get one. Returns what is known about its record in the store. */
    enum record_state (*record_of_new)(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key);
    /* After that, if there may be one: the uses that the key had when it was demoted (keyspace/uses.h); 0: none are known. */
    unsigned (*uses_of_new)(void *context, struct keyspace *keyspace, uint64_t hash);
    /* A key was used whose hash is below sample_limit; its uses are as they were before, or it is new. Not called while sample_limit is 0. */
    void (*used)(void *context, struct keyspace *keyspace, uint64_t hash, const struct entry *entry, enum key_use use);
    /* An entry was removed for good (deleted, expired or renamed, not demoted). */
    void (*removed)(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key, enum record_state record);
    /* A page that is not resident, and so has a record, is dropped. */
    void (*dropped_unread)(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key);
    /* A page that exists and is not resident is made resident in place. False: it can't be read. */
    bool (*bring_page)(void *context, struct keyspace *space, uint64_t hash, struct bytes name);
    /* The pages of a value from `first` to `end - 1`, which all exist, are dropped, now or later; NULL: at once. */
    void (*drop_pages)(void *context, struct keyspace *space, uint64_t id, uint32_t first, uint32_t end, int64_t now_ms);
    /* An entry with ENTRY_LATCHED is about to be changed or removed: it gets a copy of its object. */
    void (*unlatch)(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key);
    void (*keyspace_created)(void *context, struct keyspace *keyspace);
    /* An entry from before the last cut is about to be changed or removed for the first time since: see
     * partition_changing. */
    void (*changing)(void *context, struct keyspace *keyspace, uint64_t hash, uint32_t handle);
    /* With all partitions locked: whether the store may still contain records of an earlier use of this number. */
    bool (*incarnation_is_taken)(void *context, uint32_t incarnation);
};

struct partitions {
    struct partition *partitions;
    uint32_t count;                 /* power of two */
    uint8_t bits;
    int db_count;                   /* databases */
    int space_count;                /* keyspaces of a partition: those of the databases, then their page spaces, in the same order */
    struct key_seed seed;
    struct segment_pool *pool;
    struct keyspace_watch watch;
    _Atomic uint32_t sample_limit;  /* uses of keys the lower half of whose hash is below it go to watch.used */
    /* Facts that calls have to look for once they have locked partitions: owners of partitions, and changes that are still to serve clients
     * that wait (engine/blocking.h). Raised before the one or the other is set under a partition's lock. */
    char apart[64];                 /* the two are written by units and for clients that wait; all else here is only read by most calls */
    _Atomic uint64_t obstacle_count;
    struct owners owners;
    char apart_too[64];
    uint8_t parity;                 /* flipped at each cut, with all partitions locked; read under any partition's lock */
    _Atomic bool sealing;           /* a checkpoint has made its cut and has not yet written everything that existed then */
    _Atomic uint32_t *incarnations; /* by database; that of its page space has INCARNATION_PAGES besides */
    _Atomic uint32_t incarnation_last;      /* the highest ever used */
    _Atomic uint64_t value_count;   /* values that have got an ID, in all time (keyspace/pages.h) */
    _Atomic bool has_renamed;       /* there may be values whose pages are in another partition than their keys */
    uint32_t incarnation_reused;    /* once that is INCARNATION_MAX: where the search for a free one continues. All locked */
};

struct partitions *partitions_create(uint32_t count, int db_count, struct key_seed seed);
void partitions_destroy(struct partitions *all);
/* Changes the seed, not whether hashes are by slot. All databases are empty (page spaces need not be) and all partitions locked, no call is between computing a hash and
 * using it, and nothing else keeps hashes: see barrier_run. */
void partitions_set_seed(struct partitions *all, struct hash_seed seed);

static inline uint32_t partition_index(const struct partitions *all, uint64_t hash)
{
    return all->bits == 0 ? 0 : (uint32_t)(hash >> (64 - all->bits));
}

/* The number of slots in each partition. */
static inline uint32_t partition_slot_count(const struct partitions *all)
{
    return SLOT_COUNT >> all->bits;
}

/* Reports the use of a key, if it is sampled. `all` is the keyspace's, which the caller has at hand. */
static inline void partition_note_use(struct partitions *all, struct keyspace *keyspace, uint64_t hash, const struct entry *entry, enum key_use use)
    REQUIRES(keyspace->partition->lock);
static inline void partition_note_use(struct partitions *all, struct keyspace *keyspace, uint64_t hash, const struct entry *entry, enum key_use use)
{
    if (UNLIKELY((uint32_t)hash < atomic_load_explicit(&all->sample_limit, memory_order_relaxed)))
        all->watch.used(all->watch.context, keyspace, hash, entry, use);
}

/* The lowest hash that belongs to the partition. */
static inline uint64_t partition_first_hash(const struct partition *partition)
{
    return partition->all->bits == 0 ? 0 : (uint64_t)partition->index << (64 - partition->all->bits);
}

/* The entry was not changed since the last cut of a checkpoint. Under the lock. */
static inline bool entry_is_as_of_cut(const struct keyspace *keyspace, const struct entry *entry)
{
    return !!(entry->flags & ENTRY_EPOCH) != keyspace->partition->all->parity;
}

/* Must be called before an entry is changed or removed, and before the object of its value is changed. */
static inline void partition_changing(struct keyspace *keyspace, uint64_t hash, uint32_t handle)
    REQUIRES(keyspace->partition->lock);
static inline void partition_changing(struct keyspace *keyspace, uint64_t hash, uint32_t handle)
{
    struct partitions *all = keyspace->partition->all;

    if (UNLIKELY(entry_is_as_of_cut(keyspace, keyspace_entry(keyspace, handle)))) {
        if (all->watch.changing != NULL)
            all->watch.changing(all->watch.context, keyspace, hash, handle);
        else
            keyspace_entry(keyspace, handle)->flags ^= ENTRY_EPOCH;
    }
}

/* True if encoding the value is so much work that it is done without the lock (tier rule 9). */
bool entry_is_big(const struct entry *entry);

/* True if the entry's object must not change, because it is being encoded (tier rule 9) or because a checkpoint has not
 * written it yet. A caller that can wait waits before changing it. */
static inline bool entry_is_held(const struct keyspace *keyspace, const struct entry *entry)
{
    const struct partitions *all = keyspace->partition->all;

    if (entry->flags & ENTRY_LATCHED)
        return true;
    return UNLIKELY(all->sealing) && entry_is_as_of_cut(keyspace, entry) && entry_record(entry) != RECORD_CLEAN &&
           entry_is_big(entry);
}

/* The analysis cannot follow these two: functions that need all partitions locked call partition_assert_locked for each. */
void partitions_lock_all(struct partitions *all) UNCHECKED_LOCKS;
void partitions_unlock_all(struct partitions *all) UNCHECKED_LOCKS;

/* How often a thread had to wait for a partition's lock, of all partitions. Any thread. */
uint64_t partitions_wait_count(const struct partitions *all);
void partitions_reset_wait_count(struct partitions *all);

/* The page space that belongs to a database. */
static inline int partitions_page_space(const struct partitions *all, int db)
{
    return all->db_count + db;
}
uint32_t partitions_incarnation(const struct partitions *all, int space);
/* The space that has the incarnation; -1: none. */
int partitions_space_of(const struct partitions *all, uint32_t incarnation);

/* Private: partition_keyspace when there is none. */
struct keyspace *partition_create_keyspace(struct partition *partition, int space) REQUIRES(partition->lock);
/* The keyspace of a database, or a page space; NULL if there is none. */
static inline struct keyspace *partition_keyspace_if(const struct partition *partition, int space) REQUIRES(partition->lock);
static inline struct keyspace *partition_keyspace_if(const struct partition *partition, int space)
{
    return partition->keyspaces[space];
}

/* The same; one that is not there yet is created. */
static inline struct keyspace *partition_keyspace(struct partition *partition, int space) REQUIRES(partition->lock);
static inline struct keyspace *partition_keyspace(struct partition *partition, int space)
{
    struct keyspace *keyspace = partition->keyspaces[space];

    ASSERT_LOCKED(partition);
    return LIKELY(keyspace != NULL) ? keyspace : partition_create_keyspace(partition, space);
}

/* Returns a number never used before. Once they have run out, one that no database uses and that is not taken (see
 * keyspace_watch). With all partitions locked, or before there are other threads. */
uint32_t partitions_next_incarnation(struct partitions *all);

/* With all partitions locked. Makes the database and its page space empty, under a new incarnation, and passes the old keyspaces to the
 * caller, which frees them: old[partition] and, of pages, old[partitions + partition]; NULL where there was none. A database without keyspaces has nothing in the
 * store either and keeps its incarnation, so flushing it repeatedly uses up no numbers; the function then returns
 * false. */
bool partitions_flush(struct partitions *all, int db, struct keyspace **old);
void partitions_swap(struct partitions *all, int a, int b);

/* The number of entries in all partitions, which are locked one after the other. */
uint64_t partitions_entry_count(struct partitions *all, int db);
uint64_t partitions_expiring_count(struct partitions *all, int db);

/* The largest last_lsn of all partitions, which are locked one after the other. It covers all changes that the caller
 * has seen in any of them before. */
uint64_t partitions_last_lsn(struct partitions *all);

#endif
