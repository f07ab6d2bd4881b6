/* Demotion: which keys go to the store, how many, and when. The writer only.
 *
 * A sweep over the tables in hash order, in windows of some hundred entries. The keys with the fewest uses go (keyspace/uses.h): those up to
 * a limit that follows from how many keys have which rank (census.h), the same in all windows. Uses are halved when the hot keys have been
 * replaced a few times. From above the high mark it goes on until memory is below the low mark.
 */
#ifndef KELVIN_TIER_DEMOTION_H
#define KELVIN_TIER_DEMOTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mutex.h"
#include "base/random.h"
#include "keyspace/table.h"
#include "tier/batch.h"
#include "tier/key_list.h"
#include "tier/tier_private.h"

enum { DEMOTE_WINDOW_BUCKETS = 48, DEMOTE_WINDOW_MAX = DEMOTE_WINDOW_BUCKETS * TABLE_BUCKET_SLOTS, DEMOTE_SHARE_ONE = 1024 };

struct demotion;

/* `batch` is the one that writing_commit writes. */
struct demotion *demotion_create(struct batch *batch);
void demotion_destroy(struct demotion *demotion);

/* From above the high mark down to the low one, or until there is something else to do, and then true is returned. The counting lock is held; it is
 * released between two batches. */
bool demotion_run(struct tier *tier) REQUIRES(tier->counting.lock);
/* Measures tier_memtable_room: several times a second, and after each batch. */
void demotion_note_room(struct tier *tier);
/* TIER DEMOTE. */
void demotion_serve_requests(struct tier *tier);

/* The memory that is free when the entry is gone. `outside`: that of its value, if this is not in the entry. */
uint64_t demotion_entry_size(const struct entry *entry, uint64_t *outside);

/* Which entries a window may take. */
enum demote_which { DEMOTE_ALL, DEMOTE_CLEAN_ONLY };

/* Where the entries that a window takes go to, beside those that are clean and dropped at once. */
struct demote_targets {
    struct batch *batch;
    struct key_list unknown;        /* to be looked up first */
    uint64_t unknown_bytes;         /* of these, in what demotion_window has returned */
    struct key_list big;            /* to be encoded without the lock */
};

/* Looks at the next window of one keyspace (its partition is locked) and takes `share` of 1024 of all hot entries, the coldest: those that are in this window. Stops early when
 * BATCH_HOLD_ENOUGH bytes were encoded. Returns the bytes that are or will be free. */
uint64_t demotion_window(struct tier *tier, struct keyspace *keyspace, uint32_t share, enum demote_which which,
    struct demote_targets *targets, struct random *random) REQUIRES(keyspace->partition->lock);

#endif
