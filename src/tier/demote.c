#include "tier/demote.h"

#include "base/mem.h"
#include "keyspace/heat.h"

enum { RANKS = 512 };

void unknowns_release(struct unknowns *unknowns)
{
    mem_free(unknowns->keys);
    buffer_release(&unknowns->text);
    buffer_release(&unknowns->record);
    *unknowns = (struct unknowns){ 0 };
}

void unknowns_add(struct unknowns *unknowns, const struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    if (unknowns->count == unknowns->capacity) {
        unknowns->capacity = unknowns->capacity * 2 + 64;
        unknowns->keys = mem_realloc(unknowns->keys, unknowns->capacity * sizeof(struct unknown_key));
    }
    unknowns->keys[unknowns->count++] = (struct unknown_key){
        keyspace->partition, keyspace->incarnation, hash, unknowns->text.size, key.size,
    };
    buffer_append_bytes(&unknowns->text, key);
}

/* Handles of the next window's entries, their lines on the way to the CPU. */
static int window_collect(struct keyspace *keyspace, uint32_t handles[DEMOTE_WINDOW_MAX])
{
    int count = 0;

    for (int i = 0; i < DEMOTE_WINDOW_BUCKETS; i++) {
        struct table_cursor cursor;

        if (!table_seek(&keyspace->table, keyspace->demote_cursor, &cursor))
            break;
        for (int slot = 0; slot < TABLE_BUCKET_SLOTS; slot++) {
            uint32_t handle = cursor.bucket->handles[slot];

            if (handle == 0)
                continue;
            __builtin_prefetch(keyspace_entry(keyspace, handle));
            handles[count++] = handle;
        }
        keyspace->demote_cursor = cursor.last_hash + 1;
        if (keyspace->demote_cursor == 0 ||
            partition_index(keyspace->partition->all, keyspace->demote_cursor) != keyspace->partition->index) {
            keyspace->demote_cursor = partition_first_hash(keyspace->partition);
            break;
        }
    }
    return count;
}

/* Its record would be larger than the store takes. Asked of every entry, so it looks closer only at those that may be. */
static bool is_too_large(struct tier *tier, struct keyspace *keyspace, const struct entry *entry)
{
    if (entry->key_size != ENTRY_KEY_EXTENDED && (tier->oversized.count == 0 || !entry_is_big(entry)))
        return false;
    return oversized_is(tier, keyspace, hash_bytes(&keyspace->partition->all->seed, entry_key(entry)), entry, OVERSIZED_PROBABLY);
}

uint64_t demote_window(struct tier *tier, struct keyspace *keyspace, uint32_t share, bool clean_only, struct batch *batch,
    struct unknowns *unknowns, struct unknowns *big, struct random *random, int64_t now_ms)
{
    struct heat_settings heat = { (uint32_t)tier->settings.lfu_log_factor, (uint32_t)tier->settings.lfu_decay_minutes };
    uint16_t minutes = heat_minutes(now_ms), ranks[DEMOTE_WINDOW_MAX], histogram[RANKS] = { 0 };
    uint32_t handles[DEMOTE_WINDOW_MAX];
    int count = window_collect(keyspace, handles), quota, limit = 0, at_limit;
    size_t before = store_batch_size(batch->store);
    uint64_t freed = 0;

    for (int i = 0; i < count; i++) {
        struct entry *entry = keyspace_entry(keyspace, handles[i]);

        ranks[i] = heat_now(&heat, entry->heat, entry->heat_minutes, minutes);
        if (!(entry->flags & ENTRY_PROBATION))
            ranks[i] += 256;
        if (entry->flags & (ENTRY_PINNED | ENTRY_WRITING | ENTRY_LATCHED) || checkpoint_bars(tier, keyspace, entry)) {
            ranks[i] = RANKS;
            tier->passed_over++;
        } else if (entry_record(entry) != RECORD_CLEAN && (clean_only || is_too_large(tier, keyspace, entry))) {
            ranks[i] = RANKS;
        } else {
            histogram[ranks[i]]++;
        }
    }
    quota = (int)(((uint64_t)count * share + random_below(random, DEMOTE_SHARE_ONE)) / DEMOTE_SHARE_ONE);
    at_limit = quota;
    while (limit < RANKS - 1 && at_limit > histogram[limit])
        at_limit -= histogram[limit++];
    /* What is left of its share for the sake of those who wait for the lock, the next round of the windows takes. */
    for (int i = 0; i < count && quota > 0 && store_batch_size(batch->store) - before < BATCH_HOLD_ENOUGH; i++) {
        struct entry *entry = keyspace_entry(keyspace, handles[i]);
        struct bytes key = entry_key(entry);
        uint64_t hash;

        if (ranks[i] > limit || ranks[i] == RANKS || (ranks[i] == limit && at_limit-- <= 0))
            continue;
        quota--;
        freed += entry_block_size(entry) + TABLE_BUCKET_SLOTS / 2;
        if (!entry_is_inline(entry)) {
            struct value value = entry_value(entry);

            freed += value_memory(&value, 5);
        }
        hash = hash_bytes(&keyspace->partition->all->seed, key);
        if (entry_record(entry) == RECORD_CLEAN) {
            demote_entry(tier, keyspace, hash, handles[i]);
            atomic_fetch_add_explicit(&tier->clean_demotions, 1, memory_order_relaxed);
        } else if (entry_record(entry) == RECORD_UNKNOWN) {
            unknowns_add(unknowns, keyspace, hash, key);
        } else if (entry_is_big(entry)) {
            unknowns_add(big, keyspace, hash, key);
        } else {
            batch_put(batch, keyspace, hash, handles[i], BATCH_DEMOTE, NULL);
        }
    }
    return freed;
}

enum status unknowns_resolve(struct tier *tier, struct unknowns *unknowns, struct batch *batch)
{
    enum status status = STATUS_OK;

    for (size_t i = 0; i < unknowns->count; i++) {
        struct unknown_key *at = &unknowns->keys[i];
        struct bytes key = bytes_of(unknowns->text.data + at->key_at, at->key_size);
        enum status read;
        struct keyspace *keyspace;
        uint32_t handle = 0;

        unknowns->record.size = 0;
        read = store_get(tier->store, at->incarnation, at->hash, key, &unknowns->record);
        if (read != STATUS_OK && read != STATUS_NOT_FOUND) {
            status = read;          /* it stays unknown, and hot */
            continue;
        }
        partition_lock(at->partition);
        keyspace = tier_keyspace_of(at->partition, at->incarnation);
        if (keyspace != NULL)
            handle = keyspace_find(keyspace, at->hash, key);
        /* Not if it may have been handed over to a checkpoint: the record that is about to be written would be forgotten. */
        if (handle != 0 && entry_record(keyspace_entry(keyspace, handle)) == RECORD_UNKNOWN &&
            !checkpoint_bars(tier, keyspace, keyspace_entry(keyspace, handle))) {
            struct entry *entry = keyspace_entry(keyspace, handle);

            keyspace_set_record(keyspace, entry, read == STATUS_OK ? RECORD_STALE : RECORD_NONE);
            atomic_fetch_add_explicit(&tier->resolved, 1, memory_order_relaxed);
            if (batch != NULL && !(entry->flags & ENTRY_PINNED) && !entry_is_big(entry))
                batch_put(batch, keyspace, at->hash, handle, BATCH_DEMOTE, NULL);
        }
        partition_unlock(at->partition);
    }
    unknowns->count = 0;
    unknowns->text.size = 0;
    buffer_shrink(&unknowns->text, 1 << 20);
    return status;
}
