/* A partition and its lock. What partitions are for is in keyspace/partition.h; this part is separate because keyspace.h names
 * the lock in its annotations.
 */
#ifndef KELVIN_KEYSPACE_PARTITION_LOCK_H
#define KELVIN_KEYSPACE_PARTITION_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/futex_lock.h"

struct claim;
struct keyspace;
struct partitions;

/* One cache line: no two partitions share one. */
struct partition {
    struct futex_lock lock;
    uint32_t index;
    _Atomic uint64_t wait_count;    /* how often a thread found the lock taken. Written under the lock */
    struct partitions *all;         /* immutable */
    struct keyspace **keyspaces;    /* by database; NULL: no key yet. Under the lock */
    struct keyspace *flushed;       /* flushed keyspaces that a running checkpoint still needs. Under the lock */
    struct claim *owner;            /* whose calls alone may change it or show it (keyspace/owners.h); NULL: none. Under the lock */
    uint64_t last_lsn;              /* of the last change in this partition. Under the lock */
} __attribute__((aligned(64)));

/* Finds it taken: waits for it, and counts that. */
void partition_lock_wait(struct partition *partition);

static inline void partition_lock(struct partition *partition) ACQUIRE(partition->lock) UNCHECKED_LOCKS;
static inline void partition_lock(struct partition *partition)
{
    if (UNLIKELY(!futex_lock_try(&partition->lock)))
        partition_lock_wait(partition);
}

/* False: another thread has it. */
static inline bool partition_try_lock(struct partition *partition) TRY_ACQUIRE(true, partition->lock) UNCHECKED_LOCKS;
static inline bool partition_try_lock(struct partition *partition)
{
    return futex_lock_try(&partition->lock);
}

static inline void partition_unlock(struct partition *partition) RELEASE(partition->lock) UNCHECKED_LOCKS;
static inline void partition_unlock(struct partition *partition)
{
    futex_lock_unlock(&partition->lock);
}

/* A change in this partition was appended to the history (stream/history.h); 0: it was not. Under the lock. */
static inline void partition_note_change(struct partition *partition, uint64_t lsn)
{
    if (lsn > 0)
        partition->last_lsn = lsn;
}

/* The caller holds the lock: release builds check that the lock is held, debug and sanitizer builds that this thread
 * holds it. */
static inline void partition_assert_locked(const struct partition *partition) ASSERTS_HELD(partition->lock);
static inline void partition_assert_locked(const struct partition *partition)
{
    CHECK(futex_lock_is_mine(&partition->lock));
}

/* The same in debug and sanitizer builds, nothing in release builds: for functions that run for each key. */
static inline void partition_assert_locked_debug(const struct partition *partition) ASSERTS_HELD(partition->lock);
static inline void partition_assert_locked_debug(const struct partition *partition)
{
#ifdef KELVIN_DEBUG
    partition_assert_locked(partition);
#else
    (void)partition;
#endif
}

#define ASSERT_LOCKED(partition) partition_assert_locked(partition)

#endif
