/* Epoch: what is older than the last cut, and what is younger.
 *
 * The cut of a checkpoint turns the partitions' parity, with all partitions locked, and counts the epoch. An entry whose ENTRY_EPOCH
 * differs from the parity is as it was at the cut (entry_is_as_of_cut in keyspace/partition.h); a grave has the number of the epoch in which
 * it was made. From the cut to the snapshot the writer applies nothing that is younger than the cut.
 */
#ifndef KELVIN_TIER_EPOCH_H
#define KELVIN_TIER_EPOCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "keyspace/partition.h"

struct grave;
struct tier;

enum checkpoint_phase {
    CHECKPOINT_NONE,
    CHECKPOINT_SEALING,     /* from the cut on: a value is handed over before it is changed */
    CHECKPOINT_ENDING,      /* the image is done or has failed: nothing more is handed over, what was handed over is written */
};

struct epoch {
    /* enum checkpoint_phase. Changed with all partitions locked, so it is constant for a thread that holds one. Only the writer leaves
     * CHECKPOINT_SEALING and CHECKPOINT_ENDING; it may read the phase without a lock. */
    _Atomic int phase;
    _Atomic uint32_t number;            /* cuts so far. Changed with all partitions locked */
    _Atomic bool is_unsealed;           /* since the last cut not every entry was looked at: no other cut, ENTRY_EPOCH would be ambiguous */
};

/* The cut. All partitions are locked, no checkpoint is running and the last epoch was sealed. */
void epoch_begin(struct tier *tier);
/* Any thread that holds no partition; it locks all of them. */
void epoch_set_phase(struct tier *tier, enum checkpoint_phase phase);

/* The following are called under the partition's lock. */

/* The entry is not as of the last cut any more: it is about to change, or as good as written. */
static inline void epoch_leave_cut(const struct keyspace *keyspace, struct entry *entry)
{
    entry->flags = (uint8_t)((entry->flags & ~ENTRY_EPOCH) | (keyspace->partition->all->parity ? ENTRY_EPOCH : 0));
}

/* The entry is dirty and was changed since the cut: it must not be written before the snapshot. */
bool epoch_bars_write(const struct tier *tier, const struct keyspace *keyspace, const struct entry *entry);
/* The grave was made since the cut: its record belongs to the image. */
bool epoch_bars_delete(const struct tier *tier, const struct grave *grave);

#endif
