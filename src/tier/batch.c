#include "tier/batch.h"

#include "base/check.h"
#include "base/mem.h"
#include "keyspace/uses.h"
#include "tier/due.h"
#include "tier/epoch.h"
#include "tier/grave.h"
#include "tier/handover.h"
#include "tier/latch.h"
#include "tier/oversized.h"
#include "tier/record.h"
#include "tier/request.h"
#include "tier/tail.h"
#include "tier/tier_private.h"

enum {
    ITEMS_A_HOLD = 128,             /* finished under one hold of a lock */
    BUCKET_AHEAD = 8, ENTRY_AHEAD = 4,      /* items */
};

void batch_init(struct batch *batch)
{
    *batch = (struct batch){ .store = store_batch_create() };
}

void batch_release(struct batch *batch)
{
    store_batch_destroy(batch->store);
    mem_free(batch->items);
    buffer_release(&batch->text);
    buffer_release(&batch->record);
}

static void batch_clear(struct batch *batch)
{
    store_batch_clear(batch->store);
    batch->count = 0;
    batch->text.size = 0;
    batch->failed = false;
    batch->packing_work = 0;
    buffer_shrink(&batch->text, 1 << 20);
    buffer_shrink(&batch->record, 1 << 20);
}

static struct batch_item *add_item(struct batch *batch, enum batch_kind kind, const struct keyspace *keyspace, uint64_t hash, struct bytes key,
    struct demote_request *request)
{
    if (batch->count == batch->capacity) {
        batch->capacity = batch->capacity * 2 + 64;
        batch->items = mem_realloc(batch->items, batch->capacity * sizeof(struct batch_item));
    }
    batch->items[batch->count] = (struct batch_item){
        .kind = kind,
        .partition = keyspace->partition,
        .incarnation = keyspace->incarnation,
        .hash = hash,
        .key_at = batch->text.size,
        .key_size = key.size,
        .request = request,
    };
    buffer_append_bytes(&batch->text, key);
    return &batch->items[batch->count++];
}

size_t batch_work(const struct batch *batch)
{
    return store_batch_size(batch->store) + batch->packing_work;
}

/* `death_ms` -1: never. */
static void put_expiry(struct tier *tier, struct batch *batch, uint32_t incarnation, uint64_t hash, struct bytes key, int64_t death_ms)
{
    if (death_ms < 0)
        return;
    store_batch_put_expiry(batch->store, death_ms, incarnation, hash, key);
    due_note_put(tier, death_ms);
}

/* The record's part in the store's batch. Returns its place. */
static uint64_t put_record(struct tier *tier, struct batch *batch, int db, uint32_t incarnation, uint64_t hash, const struct entry *entry,
    struct bytes key)
{
    int64_t death_ms = entry_death_ms(entry);

    CHECK(!batch->failed);
    put_expiry(tier, batch, incarnation, hash, key, death_ms);
    batch->record_bytes += batch->record.size + sizeof(struct entry) + key.size;
    batch->packing_work += packing_pack(tier, db, &batch->record);
    return store_batch_append(tier->store, batch->store, tail_of(death_ms, false), incarnation, (unsigned)entry_type(entry), key,
        buffer_bytes(&batch->record), record_dictionary(buffer_bytes(&batch->record)));
}

/* The key's record is at `place` from now on. `is_new`: it has had none. */
static void set_place(struct tier *tier, struct batch *batch, struct keyspace *keyspace, uint64_t hash, struct bytes key, uint64_t place,
    bool is_new)
{
    uint64_t before = PLACE_UNKNOWN;

    if (is_new) {
        recordmap_add(keyspace->tier->map, hash, key, place);
        keyspace_count_records(keyspace, hash, 1);
        store_batch_index(batch->store, keyspace->incarnation, hash, key);
    } else {
        CHECK(recordmap_find(keyspace->tier->map, hash, key, &before));
        recordmap_move(keyspace->tier->map, hash, key, before, place);
    }
    segments_dead(store_segments(tier->store), before);
}

/* Changes the entry after its record was put. Under the partition's lock. */
static void note_put(struct tier *tier, struct batch *batch, struct keyspace *keyspace, uint64_t hash, uint32_t handle, uint64_t place,
    enum batch_kind kind, struct demote_request *request)
{
    struct entry *entry = keyspace_entry(keyspace, handle);
    struct bytes key = entry_key(entry);

    ASSERT_LOCKED(keyspace->partition);
    CHECK(entry_record(entry) != RECORD_UNKNOWN && !(entry->flags & ENTRY_LATCHED));
    CHECK(grave_find(keyspace, hash, key) == NULL);      /* tier rule 1: one pending operation a key */
    /* Tier rule 1: the tag first. Rule 2: yes from the moment the put is queued. */
    set_place(tier, batch, keyspace, hash, key, place, entry_record(entry) == RECORD_NONE);
    keyspace_set_record(keyspace, entry, RECORD_STALE);
    entry->flags |= ENTRY_WRITING;
    /* As of the last cut it is as good as written. */
    epoch_leave_cut(keyspace, entry);
    add_item(batch, kind, keyspace, hash, key, request);
}

void batch_put(struct tier *tier, struct batch *batch, struct keyspace *keyspace, uint64_t hash, uint32_t handle, enum batch_kind kind,
    struct demote_request *request)
{
    struct entry *entry = keyspace_entry(keyspace, handle);
    uint64_t place;

    tier_prefetch(keyspace, hash);              /* the map is changed when the record was encoded */
    batch->record.size = 0;
    record_encode(entry, &batch->record);
    place = put_record(tier, batch, keyspace->db, keyspace->incarnation, hash, entry, entry_key(entry));
    if (kind == BATCH_DEMOTE)
        packed_put(tier, keyspace, hash, entry, place, buffer_bytes(&batch->record));
    note_put(tier, batch, keyspace, hash, handle, place, kind, request);
}

enum status batch_put_handed(struct tier *tier, struct batch *batch, const struct handed *handed)
{
    struct keyspace of = { .partition = handed->partition, .incarnation = handed->incarnation };
    bool fits = handed->key.size + handed->record.size <= oversized_limit(tier);
    uint64_t place;

    batch->record.size = 0;
    if (fits)
        buffer_append_bytes(&batch->record, buffer_bytes(&handed->record));
    (void)packing_pack(tier, handed->db, &batch->record);
    place = store_batch_append(tier->store, batch->store, tail_of(handed->expire_ms, false), handed->incarnation, (unsigned)handed->type,
        handed->key, buffer_bytes(&batch->record), record_dictionary(buffer_bytes(&batch->record)));
    store_batch_index(batch->store, handed->incarnation, handed->hash, handed->key);
    put_expiry(tier, batch, handed->incarnation, handed->hash, handed->key, handed->expire_ms);
    add_item(batch, BATCH_HANDED, &of, handed->hash, handed->key, NULL)->place = place;
    return fits ? STATUS_OK : STATUS_TOO_LARGE;
}

/* Frees the memory of a big record. */
static void drop_record(struct batch *batch)
{
    buffer_release(&batch->record);
    batch->record = (struct buffer){ 0 };
}

enum status batch_put_big(struct tier *tier, struct batch *batch, struct partition *partition, uint32_t incarnation, uint64_t hash,
    struct bytes key, enum batch_kind kind, struct demote_request *request)
{
    struct keyspace *keyspace;
    struct entry *copy = NULL;
    struct value value;
    uint32_t handle = 0;
    size_t value_size = 0, record_size;
    uint64_t place = 0;
    int db = 0;
    bool fits = true;

    CHECK(batch->count == 0);
    partition_lock(partition);
    keyspace = tier_keyspace_of(partition, incarnation);
    if (keyspace != NULL)
        handle = keyspace_find(keyspace, hash, key);
    if (handle != 0) {
        struct entry *entry = keyspace_entry(keyspace, handle);

        db = keyspace->db;
        if (!(entry->flags & ENTRY_WRITING) && (kind == BATCH_CLEAN || !(entry->flags & ENTRY_PINNED)) &&
            entry_record(entry) != RECORD_UNKNOWN && entry_record(entry) != RECORD_CLEAN && !epoch_bars_write(tier, keyspace, entry)) {
            value_size = oversized_value_size(entry);
            fits = !oversized_is(tier, keyspace, hash, entry, kind == BATCH_CLEAN ? OVERSIZED_SURELY : OVERSIZED_PROBABLY);
            if (fits)
                copy = latch_begin(tier, keyspace, hash, key, handle);
        }
    }
    partition_unlock(partition);
    if (copy == NULL)
        return fits ? STATUS_OK : STATUS_TOO_LARGE;
    tier->holds_big = true;
    /* All that takes long, the copy into the store's batch too, is done here, where no client waits. */
    batch->record.size = 0;
    record_encode(copy, &batch->record);
    record_size = batch->record.size + key.size;
    fits = record_size <= oversized_limit(tier);
    if (fits)
        place = put_record(tier, batch, db, incarnation, hash, copy, key);
    drop_record(batch);
    value = entry_value(copy);
    mem_free(copy);

    partition_lock(partition);
    handle = latch_end(tier);
    if (handle != 0 && fits)
        note_put(tier, batch, keyspace, hash, handle, place, kind, request);
    partition_unlock(partition);
    if (handle == 0) {                  /* an orphan */
        value_free(&value);
        if (place != 0)
            segments_take_back(store_segments(tier->store), place);
        batch_clear(batch);             /* there is nothing else in it */
    } else if (fits) {
        oversized_forget(tier, incarnation, hash);
    } else {
        oversized_note(tier, incarnation, hash, key, value_size, record_size);
    }
    tier->holds_big = handle != 0 && fits;                  /* until the batch is written */
    tier->hooks.memory_freed(tier->hooks.context);          /* writers may have waited for the key */
    return fits || handle == 0 ? STATUS_OK : STATUS_TOO_LARGE;
}

void batch_bury(struct batch *batch, struct keyspace *keyspace, struct grave *grave)
{
    ASSERT_LOCKED(keyspace->partition);
    CHECK(!batch->failed);
    grave_begin_applying(keyspace, grave);
    store_batch_delete(batch->store, keyspace->incarnation, grave->node.hash, grave->node.key);
    add_item(batch, BATCH_BURY, keyspace, grave->node.hash, grave->node.key, NULL);
}

void demote_entry(struct tier *tier, struct keyspace *keyspace, uint64_t hash, uint32_t handle)
{
    struct demoted *demoted = &tier->demoted;
    struct entry *entry = keyspace_entry(keyspace, handle);
    bool is_big = entry_is_big(entry);
    struct value value;

    CHECK(entry_record(entry) == RECORD_CLEAN && !(entry->flags & ENTRY_PINNED));      /* tier rule 6 */
    ghost_note(&keyspace->tier->ghost, hash, uses_all(entry), keyspace->table.count);
    keyspace_remove(keyspace, hash, handle, &value);
    if (!is_big) {
        value_free(&value);
        return;
    }
    if (demoted->count == demoted->capacity) {
        demoted->capacity = demoted->capacity * 2 + 16;
        demoted->values = mem_realloc(demoted->values, demoted->capacity * sizeof(struct value));
    }
    demoted->values[demoted->count++] = value;
}

void demoted_free(struct tier *tier)
{
    for (size_t i = 0; i < tier->demoted.count; i++)
        value_free(&tier->demoted.values[i]);
    tier->demoted.count = 0;
}

void demoted_release(struct demoted *demoted)
{
    CHECK(demoted->count == 0);
    mem_free(demoted->values);
}

static void finish_put(struct tier *tier, struct keyspace *keyspace, const struct batch_item *item, struct bytes key)
{
    uint32_t handle = keyspace_find(keyspace, item->hash, key);
    struct entry *entry = handle != 0 ? keyspace_entry(keyspace, handle) : NULL;
    enum tier_move result = TIER_BUSY;

    keyspace_assert_locked(keyspace);
    if (entry != NULL && entry->flags & ENTRY_WRITING) {
        entry->flags &= (uint8_t)~ENTRY_WRITING;
        keyspace_set_record(keyspace, entry, RECORD_CLEAN);
        if (item->kind == BATCH_DEMOTE && !(entry->flags & ENTRY_PINNED) && !tier_keeps(tier, keyspace, entry)) {
            demote_entry(tier, keyspace, item->hash, handle);
            statistics_count(&tier->statistics.demotions);
            result = TIER_MOVED;
        }
    }
    if (item->request != NULL)
        item->request->result = result;
}

/* A value as of the cut is on the disk. The key had a tag already: from when it was handed over, or of an older record. */
static void finish_handed(struct tier *tier, struct keyspace *keyspace, const struct batch_item *item, struct bytes key)
{
    uint64_t before = 0;

    keyspace_assert_locked(keyspace);
    CHECK(recordmap_find(keyspace->tier->map, item->hash, key, &before));
    recordmap_move(keyspace->tier->map, item->hash, key, before, item->place);
    segments_dead(store_segments(tier->store), before);
}

static void finish_bury(struct tier *tier, struct keyspace *keyspace, const struct batch_item *item, struct bytes key)
{
    struct grave *grave = grave_find(keyspace, item->hash, key);

    keyspace_assert_locked(keyspace);
    CHECK(grave != NULL);
    outdated_note(&tier->outdated, 1);         /* it may have expired some day */
    grave_applied(tier, keyspace, grave);
}

static void finish_item(struct tier *tier, const struct batch *batch, const struct batch_item *item) REQUIRES(item->partition->lock);
static void finish_item(struct tier *tier, const struct batch *batch, const struct batch_item *item)
{
    struct keyspace *keyspace = tier_keyspace_of(item->partition, item->incarnation);
    struct bytes key = bytes_of(batch->text.data + item->key_at, item->key_size);

    if (keyspace == NULL) {             /* flushed meanwhile: its records are purged as a whole */
        if (item->kind == BATCH_HANDED)
            segments_dead(store_segments(tier->store), item->place);
        if (item->request != NULL)
            item->request->result = TIER_NOT_THERE;
        return;
    }
    switch (item->kind) {
    case BATCH_HANDED:
        finish_handed(tier, keyspace, item, key);
        return;
    case BATCH_BURY:
        finish_bury(tier, keyspace, item, key);
        return;
    case BATCH_DEMOTE:
    case BATCH_CLEAN:
        finish_put(tier, keyspace, item, key);
    }
}

/* Prefetches the buckets of the items at `to_bucket`, and the entry of the one at `to_entry`; they may be beyond the end, or of other partitions. */
static void fetch_ahead(const struct batch *batch, struct partition *partition, size_t to_bucket, size_t to_entry) REQUIRES(partition->lock);
static void fetch_ahead(const struct batch *batch, struct partition *partition, size_t to_bucket, size_t to_entry)
{
    const struct batch_item *items = batch->items;
    const struct keyspace *keyspace = to_entry < batch->count ? tier_keyspace_of(partition, items[to_entry].incarnation) : NULL;

    if (keyspace == NULL || items[to_entry].partition != partition)
        return;
    __builtin_prefetch(table_entry_at(&keyspace->table, items[to_entry].hash));
    if (to_bucket < batch->count && items[to_bucket].incarnation == keyspace->incarnation && items[to_bucket].partition == partition)
        __builtin_prefetch(table_bucket_at(&keyspace->table, items[to_bucket].hash));
}

/* Items from `first` on that are of one partition, under one hold of its lock. Returns how many. */
static size_t finish_partition(struct tier *tier, const struct batch *batch, size_t first)
{
    struct partition *partition = batch->items[first].partition;
    size_t end = first;

    partition_lock(partition);
    for (; end < batch->count && end - first < ITEMS_A_HOLD && batch->items[end].partition == partition; end++) {
        partition_assert_locked(batch->items[end].partition);
        fetch_ahead(batch, partition, end + BUCKET_AHEAD, end + ENTRY_AHEAD);
        finish_item(tier, batch, &batch->items[end]);
    }
    partition_unlock(partition);
    demoted_free(tier);
    return end - first;
}

static void finish_all(struct tier *tier, struct batch *batch)
{
    for (size_t i = 0; i < batch->count;)
        i += finish_partition(tier, batch, i);
    statistics_count(&tier->statistics.batches);
    statistics_add(&tier->statistics.record_bytes, batch->record_bytes);
    statistics_add(&tier->statistics.record_count, batch->count);
    batch->record_bytes = 0;
    batch_clear(batch);
    tier->holds_big = false;
}

bool tier_holds_big(const struct tier *tier)
{
    return tier->holds_big && tier->state == TIER_OK;
}

enum status batch_commit(struct tier *tier, struct batch *batch)
{
    enum status status;

    if (store_batch_count(batch->store) == 0) {
        batch_clear(batch);
        return STATUS_OK;
    }
    status = store_write(tier->store, batch->store);
    if (status != STATUS_OK) {
        batch->failed = true;
        return status;
    }
    finish_all(tier, batch);
    packing_after_batch(tier);
    return STATUS_OK;
}
