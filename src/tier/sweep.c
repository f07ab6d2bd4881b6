#include "tier/sweep.h"

#include "tier/epoch.h"
#include "tier/grave.h"
#include "tier/look_up.h"
#include "tier/tier_private.h"

enum {
    UNKNOWN_LOOKS_MAX = 8192,       /* entries a round */
    UNKNOWN_A_HOLD = 512,           /* listed under one hold of a partition's lock */
    GRAVES_A_HOLD = 256,            /* buried under one hold of a partition's lock */
    COMPACT_BLOCKS = 64,            /* moved at a time in each keyspace */
    HOLE_PERCENT = 4,               /* of a heap may be holes before compaction starts */
};

static size_t bury_keyspace(struct tier *tier, struct keyspace *keyspace, size_t count, struct batch *batch,
    struct key_list *unknown)
{
    size_t taken = 0;

    keyspace_assert_locked(keyspace);
    for (struct grave *grave = keyspace->tier->waiting_first, *after; grave != NULL && taken < count; grave = after) {
        statistics_count(&tier->statistics.graves_seen);
        after = grave->after;
        if (epoch_bars_delete(tier, grave))
            break;                  /* and so are those that were made after it */
        if (grave->unknown)
            key_list_add(unknown, keyspace, grave->node.hash, grave->node.key);
        else
            batch_bury(batch, keyspace, grave);
        taken++;
    }
    return taken;
}

/* Graves of which it is not known whether there is a record: reads, without a lock, and buries or frees them. */
static void resolve_graves(struct tier *tier, struct key_list *unknown, struct batch *batch)
{
    look_up(tier, &tier->look_ups, unknown);
    for (size_t i = 0; i < unknown->count; i++) {
        struct listed_key *listed = &unknown->keys[i];
        struct bytes key = key_list_key(unknown, i);
        struct keyspace *keyspace;
        struct grave *grave = NULL;
        bool has_record;

        if (!look_up_tells(listed, &has_record))
            continue;
        partition_lock(listed->partition);
        keyspace = tier_keyspace_of(listed->partition, listed->incarnation);
        if (keyspace != NULL)
            grave = grave_find(keyspace, listed->hash, key);
        /* Not if it was made after a cut made meanwhile: the record belongs to the image. */
        if (grave != NULL && grave->unknown && !epoch_bars_delete(tier, grave)) {
            keyspace_assert_locked(keyspace);
            if (has_record) {
                grave_set_known(keyspace, grave);
                batch_bury(batch, keyspace, grave);
            } else {
                grave_free(tier, keyspace, grave);
            }
        }
        partition_unlock(listed->partition);
    }
    key_list_clear(unknown);
}

/* Some graves of a partition, under one hold of its lock. */
static size_t bury_partition(struct tier *tier, struct partition *partition, size_t count, struct batch *batch, struct key_list *unknown)
{
    size_t taken = 0;

    partition_lock(partition);
    for (int space = 0; space < tier->partitions->space_count && taken < count; space++) {
        if (partition->keyspaces[space] != NULL && partition->keyspaces[space]->tier->graves.count > 0)
            taken += bury_keyspace(tier, partition->keyspaces[space], count - taken, batch, unknown);
    }
    /* Keyspaces that a checkpoint still has to seal have to be without them, too. */
    for (struct keyspace *keyspace = partition->flushed; keyspace != NULL && taken < count; keyspace = keyspace->next_flushed)
        taken += bury_keyspace(tier, keyspace, count - taken, batch, unknown);
    partition_unlock(partition);
    return taken;
}

size_t sweep_graves(struct tier *tier, size_t count, struct batch *batch, uint32_t *next_partition)
{
    struct key_list unknown = { 0 };
    size_t taken = 0;

    if (atomic_load_explicit(&tier->statistics.graves, memory_order_relaxed) == 0)
        return 0;
    for (uint32_t i = 0; i < tier->partitions->count && taken < count; i++) {
        size_t left = count - taken;

        taken += bury_partition(tier, &tier->partitions->partitions[*next_partition], left < GRAVES_A_HOLD ? left : GRAVES_A_HOLD, batch,
            &unknown);
        *next_partition = (*next_partition + 1) % tier->partitions->count;
    }
    resolve_graves(tier, &unknown, batch);
    key_list_release(&unknown);
    return taken;
}

/* Looks at some of the entries, from where it left off: a walk over all would cost more the more is hot. */
static size_t unknown_keyspace(struct keyspace *keyspace, size_t count, size_t *budget, struct key_list *unknown)
{
    size_t taken = 0;

    while (taken < count && *budget > 0) {
        struct table_cursor cursor;

        if (!table_seek(&keyspace->table, keyspace->resolve_cursor, &cursor))
            break;
        for (int slot = 0; slot < TABLE_BUCKET_SLOTS; slot++) {
            struct entry *entry;

            if (cursor.bucket->handles[slot] == 0)
                continue;
            entry = keyspace_entry(keyspace, cursor.bucket->handles[slot]);
            --*budget;
            if (entry_record(entry) != RECORD_UNKNOWN)
                continue;
            key_list_add(unknown, keyspace, keyspace_hash(keyspace, entry_key(entry)), entry_key(entry));
            taken++;
        }
        if (*budget < TABLE_BUCKET_SLOTS)
            *budget = 0;
        keyspace->resolve_cursor = cursor.last_hash + 1;
        if (keyspace->resolve_cursor == 0 ||
            partition_index(keyspace->partition->all, keyspace->resolve_cursor) != keyspace->partition->index) {
            keyspace->resolve_cursor = partition_first_hash(keyspace->partition);
            break;
        }
    }
    return taken;
}

/* Under one hold of its lock. A bucket that was begun is looked at as a whole: they may be some more than `count`. */
static size_t unknown_partition(struct tier *tier, struct partition *partition, size_t count, size_t *budget, struct key_list *unknown)
{
    size_t taken = 0;

    partition_lock(partition);
    for (int space = 0; space < tier->partitions->space_count && taken < count; space++) {
        struct keyspace *keyspace = partition->keyspaces[space];

        if (keyspace != NULL && keyspace->record_counts[RECORD_UNKNOWN] > 0)
            taken += unknown_keyspace(keyspace, count - taken, budget, unknown);
    }
    partition_unlock(partition);
    return taken;
}

size_t sweep_unknown(struct tier *tier, size_t count, struct key_list *unknown, uint32_t *next_partition)
{
    size_t taken = 0, budget = UNKNOWN_LOOKS_MAX;

    for (uint32_t i = 0; i < tier->partitions->count && taken < count && budget > 0; ) {
        size_t wanted = count - taken < UNKNOWN_A_HOLD ? count - taken : UNKNOWN_A_HOLD;
        size_t found = unknown_partition(tier, &tier->partitions->partitions[*next_partition], wanted, &budget, unknown);

        taken += found;
        if (found >= wanted)
            continue;                   /* the next ones are neighbours of these, also on the disk */
        *next_partition = (*next_partition + 1) % tier->partitions->count;
        i++;
    }
    return taken;
}

static bool compact_packed(struct keyspace *packed)
{
    if (packed == NULL)
        return false;
    keyspace_assert_locked(packed);
    return keyspace_compact(packed, COMPACT_BLOCKS, HOLE_PERCENT);
}

bool sweep_compact(struct tier *tier)
{
    bool more = false;

    for (uint32_t i = 0; i < tier->partitions->count; i++) {
        struct partition *partition = &tier->partitions->partitions[i];

        for (int space = 0; space < tier->partitions->space_count; space++) {
            struct keyspace *keyspace;

            partition_lock(partition);
            keyspace = partition_keyspace_if(partition, space);
            if (keyspace != NULL) {
                keyspace_assert_locked(keyspace);
                more |= keyspace_compact(keyspace, COMPACT_BLOCKS, HOLE_PERCENT);
                more |= compact_packed(keyspace->tier->packed);
            }
            partition_unlock(partition);
        }
    }
    return more;
}
