/* Sweep: what the writer does in the background besides demoting: burying, looking for unknown records, compacting the heaps. The writer
 * only. Each call does a bounded piece.
 */
#ifndef KELVIN_TIER_SWEEP_H
#define KELVIN_TIER_SWEEP_H

#include "tier/batch.h"
#include "tier/key_list.h"

/* Puts up to `count` graves into the batch. Returns how many. */
size_t sweep_graves(struct tier *tier, size_t count, struct batch *batch, uint32_t *next_partition);

/* Lists entries whose record is unknown, about `count` of them, from where the last call ended. Returns how many. */
size_t sweep_unknown(struct tier *tier, size_t count, struct key_list *unknown, uint32_t *next_partition);

/* Moves some blocks in each keyspace whose heap has many holes. True if there is more to do. */
bool sweep_compact(struct tier *tier);

#endif
