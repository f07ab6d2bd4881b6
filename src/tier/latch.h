/* Latch: the one big value that the writer is encoding without a lock (tier rule 9). Until it is done the entry may be read, not changed.
 *
 * A thread that has to change the entry at once gives it a copy of the object (tier_unlatch in tier/tier.h), and one that frees the entry
 * leaves the object: it is an orphan then, which the writer frees. Everything here is called under the partition's lock.
 */
#ifndef KELVIN_TIER_LATCH_H
#define KELVIN_TIER_LATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

struct entry;
struct keyspace;
struct tier;

struct latch {
    struct keyspace *keyspace;      /* NULL: none, or the object is an orphan */
    uint64_t hash;
    struct bytes key;
    bool is_orphaned;               /* the object is the writer's to free */
};

/* By the writer. Returns a copy of the entry, which is all that encoding needs beside the object; the caller frees it. `key` stays
 * until latch_end. */
struct entry *latch_begin(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key, uint32_t handle);
/* By the writer, with the same partition locked. Returns the entry's handle: it may have moved, but is as it was. 0: the object is an orphan. */
uint32_t latch_end(struct tier *tier);
/* The partitions' watch (keyspace/partition.h): tier_unlatch. */
void latch_unlatch(void *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key);
/* The keyspace is about to be freed. */
void latch_orphan(struct tier *tier, struct keyspace *keyspace);

#endif
