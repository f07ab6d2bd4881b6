/* Graves, and what a new entry knows about its record: tier rules 2 and 3.
 *
 * A grave is left where a key that may have a record was deleted, until the delete of the record was applied to the store. The functions
 * are called under the partition's lock.
 */
#ifndef KELVIN_TIER_GRAVE_H
#define KELVIN_TIER_GRAVE_H

#include <stdbool.h>
#include <stdint.h>

#include "tier/tier.h"

struct grave {
    struct keyed_node node;
    struct grave *before, *after;   /* in the keyspace's list of waiting graves; of no meaning while `applying` */
    bool unknown;           /* not known whether there is a record at all */
    bool applying;          /* its delete is in the batch being written. If the key has an entry again, that has RECORD_NONE: the
                             * record that is about to go belongs to the grave, not to the entry */
    bool has_successor;     /* applying, and that entry was handed over to a checkpoint and removed: another record follows */
    uint64_t place;         /* applying: of the record that is being deleted */
    uint32_t epoch;         /* the tier's when it was made: during a checkpoint, later ones wait */
};

/* The key's grave; NULL: none. */
static inline struct grave *grave_find(const struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    return (struct grave *)keyed_find(&keyspace->tier->graves, hash, key);
}

/* The partitions' watch (keyspace/partition.h); `tier` is a struct tier. */
enum record_state grave_record_of_new(void *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key) REQUIRES(keyspace->partition->lock);
unsigned grave_uses_of_new(void *tier, struct keyspace *keyspace, uint64_t hash) REQUIRES(keyspace->partition->lock);
void grave_dropped_unread(void *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key) REQUIRES(keyspace->partition->lock);
void grave_removed(void *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key, enum record_state record) REQUIRES(keyspace->partition->lock);

void grave_free(struct tier *tier, struct keyspace *keyspace, struct grave *grave);
/* Notes the place of the record; the grave's delete is about to be put into the batch. */
void grave_begin_applying(struct keyspace *keyspace, struct grave *grave) REQUIRES(keyspace->partition->lock);
/* Ends a grave whose delete was applied. */
void grave_applied(struct tier *tier, struct keyspace *keyspace, struct grave *grave) REQUIRES(keyspace->partition->lock);
/* Notes that there is a record. */
void grave_set_known(struct keyspace *keyspace, struct grave *grave);
/* A checkpoint has failed: graves that were pending at its cut and have entries over them are removed; the entries know about their
 * records again. */
void graves_give_back(struct tier *tier, struct keyspace *keyspace) REQUIRES(keyspace->partition->lock);

#endif
