#include "tier/epoch.h"

#include "base/check.h"
#include "tier/grave.h"
#include "tier/tier_private.h"

void epoch_begin(struct tier *tier)
{
    CHECK(tier->epoch.phase == CHECKPOINT_NONE && !tier->epoch.is_unsealed);
    tier->partitions->parity ^= 1;
    tier->epoch.number++;
    tier->epoch.is_unsealed = true;
    tier->epoch.phase = CHECKPOINT_SEALING;
    tier->partitions->sealing = true;
}

/* With all partitions locked: a call that holds one sees one phase from its beginning to its end. If it saw two, it could hand a value
 * over after the queue was drained, and the next checkpoint would write it over a newer record; or it could take a late grave for one
 * from before the cut, and leave it beside an entry that says RECORD_NONE. */
void epoch_set_phase(struct tier *tier, enum checkpoint_phase phase)
{
    partitions_lock_all(tier->partitions);
    tier->epoch.phase = phase;
    tier->partitions->sealing = phase == CHECKPOINT_SEALING;
    partitions_unlock_all(tier->partitions);
}

bool epoch_bars_write(const struct tier *tier, const struct keyspace *keyspace, const struct entry *entry)
{
    return tier->epoch.phase != CHECKPOINT_NONE && !entry_is_as_of_cut(keyspace, entry) && entry_record(entry) != RECORD_CLEAN;
}

bool epoch_bars_delete(const struct tier *tier, const struct grave *grave)
{
    return tier->epoch.phase != CHECKPOINT_NONE && grave->epoch == tier->epoch.number;
}
