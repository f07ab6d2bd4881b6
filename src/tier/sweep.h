/* Sweep: what the writer does behind the clients' backs besides demoting: burying, expiring cold keys, purging what was flushed,
 * finding out about unknown records, compaction of the heaps. The writer only. Each call does a bounded piece.
 */
#ifndef KELVIN_TIER_SWEEP_H
#define KELVIN_TIER_SWEEP_H

#include "tier/batch.h"
#include "tier/demote.h"

/* Puts up to `count` graves into the batch. Returns how many. */
size_t sweep_graves(struct tier *tier, size_t count, struct batch *batch, uint32_t *next_partition);

/* Looks for expired cold keys by the store's expiry keys, at most `count`, from where the last call ended; deletes, logged, go into
 * the batch. Returns how many it dealt with; the others, which are hot or can't be read, hold up nobody: they are looked at again a
 * second later, and if that is in vain ever less often. `*more`: there is more to look at at once. */
size_t sweep_expired(struct tier *tier, int64_t now_ms, int count, struct batch *batch, bool *more);

/* Collects up to `count` entries whose record is unknown. */
size_t sweep_unknown(struct tier *tier, size_t count, struct unknowns *unknowns, uint32_t *next_partition);

/* Moves up to `block_count` blocks per keyspace, everywhere where holes are over the limit. True if there is more to do. */
bool sweep_compact(struct tier *tier, uint32_t block_count, uint32_t hole_percent);

#endif
