#include "tier/resolve.h"

#include "tier/epoch.h"
#include "tier/look_up.h"
#include "tier/stale.h"
#include "tier/tier_private.h"

/* Not if the entry may have been handed over to a checkpoint: the record that is about to be written would be forgotten. */
static bool may_resolve(const struct tier *tier, const struct keyspace *keyspace, const struct entry *entry)
{
    return entry_record(entry) == RECORD_UNKNOWN && !epoch_bars_write(tier, keyspace, entry);
}

enum status resolve_entries(struct tier *tier, struct tier_reader **reader, struct key_list *list, resolved_entry *resolved, void *context)
{
    enum status status = STATUS_OK;

    look_up(tier, reader, list);
    for (size_t i = 0; i < list->count; i++) {
        struct listed_key *listed = &list->keys[i];
        struct bytes key = key_list_key(list, i);
        struct keyspace *keyspace;
        uint32_t handle = 0;
        bool has_record;

        look_up_fetch_after(list, i);
        if (!look_up_tells(listed, &has_record)) {
            status = listed->status;        /* it stays unknown, and hot */
            continue;
        }
        partition_lock(listed->partition);
        keyspace = tier_keyspace_of(listed->partition, listed->incarnation);
        if (keyspace != NULL)
            handle = keyspace_find(keyspace, listed->hash, key);
        if (handle != 0 && may_resolve(tier, keyspace, keyspace_entry(keyspace, handle))) {
            keyspace_assert_locked(keyspace);
            keyspace_set_record(keyspace, keyspace_entry(keyspace, handle), has_record ? RECORD_STALE : RECORD_NONE);
            statistics_count(&tier->statistics.resolved);
            if (listed->status == STATUS_OK)
                stale_give_up_found(tier, keyspace, listed->hash, key);
            if (resolved != NULL)
                resolved(context, keyspace, listed->hash, handle);
        }
        partition_unlock(listed->partition);
    }
    key_list_clear(list);
    return status;
}
