#include "tier/stale.h"

#include "base/check.h"
#include "tier/tier_private.h"

bool stale_give_up(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key, uint64_t place)
{
    uint32_t handle = place_is_in_segment(place) && tier->epoch.phase == CHECKPOINT_NONE ? keyspace_find(keyspace, hash, key) : 0;
    struct entry *entry = handle != 0 ? keyspace_entry(keyspace, handle) : NULL;

    ASSERT_LOCKED(keyspace->partition);
    if (entry == NULL || entry->flags & (ENTRY_WRITING | ENTRY_LATCHED) ||
        (entry_record(entry) != RECORD_STALE && entry_record(entry) != RECORD_UNKNOWN))
        return false;
    keyspace_set_record(keyspace, entry, RECORD_STALE);
    recordmap_move(keyspace->tier->map, hash, key, place, PLACE_NOWHERE);
    segments_dead(store_segments(tier->store), place);
    return true;
}

void stale_give_up_found(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    uint64_t place;

    CHECK(recordmap_find(keyspace->tier->map, hash, key, &place));
    (void)stale_give_up(tier, keyspace, hash, key, place);
}
