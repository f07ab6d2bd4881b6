#include "tier/bulk.h"

#include <stdlib.h>

#include "base/mem.h"
#include "tier/grave.h"
#include "tier/load.h"
#include "tier/record.h"
#include "tier/tier_private.h"

enum {
    CAPACITY_FIRST = 256,
    BUFFER_KEPT_MAX = 64 << 10,
    LOOK_UPS_A_LOCK = 64,           /* keys that are looked up under one hold of a partition's lock */
    STEP_BUCKET = 16, STEP_ENTRY = 8,       /* keys before a key is looked up, the CPU is asked for its bucket, and for its entry and its tag */
};

struct tier_bulk *tier_bulk_create(struct tier *tier)
{
    struct tier_bulk *bulk = mem_zalloc(sizeof(*bulk));

    bulk->tier = tier;
    return bulk;
}

void tier_bulk_destroy(struct tier_bulk *bulk)
{
    if (bulk == NULL)
        return;
    mem_free(bulk->records);
    segment_buffer_release(&bulk->read);
    buffer_release(&bulk->scratch);
    mem_free(bulk);
}

bool bulk_add(struct tier_bulk *bulk, const struct keyspace *keyspace, uint64_t hash, struct bytes key, uint32_t note)
{
    struct segment *segment;
    uint64_t place;

    ASSERT_LOCKED(keyspace->partition);
    if (!recordmap_find(keyspace->tier->map, hash, key, &place) || place == 0 || place_size(place) > BULK_RECORD_MAX)
        return false;
    segment = segments_pin(store_segments(bulk->tier->store), place);
    if (segment == NULL)
        return false;
    if (segment_check(segment, place) != STATUS_OK) {
        segments_unpin(segment);
        return false;
    }
    if (bulk->count == bulk->capacity) {
        bulk->capacity = bulk->capacity == 0 ? CAPACITY_FIRST : bulk->capacity * 2;
        bulk->records = mem_realloc(bulk->records, bulk->capacity * sizeof(*bulk->records));
    }
    bulk->records[bulk->count++] = (struct bulk_record){ place, hash, segment, keyspace->db, note };
    bulk->bytes += place_weight(place);
    return true;
}

static int compare_places(const void *left, const void *right)
{
    const struct bulk_record *a = left, *b = right;

    return a->place < b->place ? -1 : a->place > b->place;
}

/* --- one read --- */

static uint64_t end_of(const struct bulk_record *record)
{
    return place_offset(record->place) + place_size(record->place);
}

/* The records from `first` on that one read has; returns the index after the last one. */
static size_t find_group(const struct tier_bulk *bulk, size_t first)
{
    const struct bulk_record *records = bulk->records;
    uint64_t begin = place_offset(records[first].place);
    size_t next = first + 1;

    while (next < bulk->count && records[next].segment == records[first].segment &&
           place_offset(records[next].place) <= end_of(&records[next - 1]) + BULK_GAP && end_of(&records[next]) - begin <= BULK_READ_SIZE)
        next++;
    return next;
}

static enum status read_group(struct tier_bulk *bulk, size_t first, size_t end, struct segment_span *span, struct bytes *bytes)
{
    struct tier *tier = bulk->tier;
    enum segment_access access = access_choose(&tier->access);
    bool was_cached = false;
    enum status status;

    segment_span_between(bulk->records[first].segment, bulk->records[first].place, bulk->records[end - 1].place, access, span);
    bulk->reads++;
    status = segments_read_span(store_segments(tier->store), span, segment_buffer_grow(&bulk->read, span->size), bytes,
        access == SEGMENT_BUFFERED ? &was_cached : NULL);
    if (access == SEGMENT_BUFFERED)
        access_note(&tier->access, was_cached);
    return status;
}

/* --- installing --- */

/* The record that was read is what the store has of the key, and the key is in no other state than cold. */
static bool is_still_cold(struct keyspace *keyspace, const struct bulk_record *wanted, const struct segment_record *read)
{
    uint64_t place;

    return keyspace->incarnation == read->incarnation && keyspace->tier != NULL && keyspace_find(keyspace, read->hash, read->key) == 0 &&
           grave_find(keyspace, read->hash, read->key) == NULL && load_find(keyspace, read->hash, read->key) == NULL &&
           recordmap_find(keyspace->tier->map, read->hash, read->key, &place) && place == wanted->place;
}

static void install(struct tier_bulk *bulk, const struct bulk_record *wanted, const struct segment_record *read, struct record *record,
    const struct bulk_steps *steps)
{
    struct partitions *all = bulk->tier->partitions;
    struct partition *partition = &all->partitions[partition_index(all, wanted->hash)];
    struct keyspace *keyspace;
    struct entry *entry = NULL;

    partition_lock(partition);
    keyspace = partition_keyspace_if(partition, wanted->db);
    if (keyspace != NULL && is_still_cold(keyspace, wanted, read) && (steps->is_welcome == NULL || steps->is_welcome(steps->context, record))) {
        keyspace_assert_locked(keyspace);
        entry = load_install(bulk->tier, keyspace, read->hash, read->key, record);
        if (steps->installed != NULL)
            steps->installed(steps->context, keyspace, entry, wanted->note);
    }
    partition_unlock(partition);
    if (entry == NULL)
        value_free(&record->value);
    else
        bulk->installed++;
}

static void note_failure(struct tier_bulk *bulk, const struct bulk_record *wanted, enum status status)
{
    struct failed_read read = { .hash = wanted->hash, .place = wanted->place, .segment = wanted->segment };

    read.incarnation = bulk->tier->partitions->incarnations[wanted->db];
    damage_note(bulk->tier, &read, status);
    bulk->failed++;
}

/* `bytes` begin where the record does. */
static void install_read(struct tier_bulk *bulk, const struct bulk_record *wanted, struct bytes bytes, const struct value_limits *limits,
    const struct bulk_steps *steps)
{
    struct segment_record read;
    struct record record;
    enum status status;
    uint64_t size;

    bulk->scratch.size = 0;
    status = segment_record_parse(bytes, &read, &size);
    if (status == STATUS_OK && read.hash != wanted->hash)
        return;                     /* another key's, with the same tag */
    if (status == STATUS_OK)
        status = record_decode(read.value, limits, &bulk->scratch, &record);
    if (status != STATUS_OK) {
        note_failure(bulk, wanted, status == STATUS_TRUNCATED ? STATUS_CORRUPT : status);
        return;
    }
    statistics_add(&bulk->tier->statistics.record_bytes, read.value.size);
    statistics_count(&bulk->tier->statistics.record_count);
    install(bulk, wanted, &read, &record, steps);
}

static void run_group(struct tier_bulk *bulk, size_t first, size_t end, const struct value_limits *limits, const struct bulk_steps *steps)
{
    const struct bulk_record *records = bulk->records;
    struct segment_span span;
    struct bytes bytes;
    enum status status;

    status = read_group(bulk, first, end, &span, &bytes);
    if (status != STATUS_OK) {
        note_failure(bulk, &records[first], status);
        return;
    }
    for (size_t i = first; i < end; i++) {
        uint64_t at = span.skip + place_offset(records[i].place) - place_offset(records[first].place);
        bool is_second = i > first && records[i].place == records[i - 1].place && records[i].hash == records[i - 1].hash;

        if (at < bytes.size && !is_second)
            install_read(bulk, &records[i], bytes_of(bytes.data + at, bytes.size - at), limits, steps);
    }
}

static void empty(struct tier_bulk *bulk)
{
    for (size_t i = 0; i < bulk->count; i++)
        segments_unpin(bulk->records[i].segment);
    bulk->count = 0;
    bulk->bytes = 0;
    if (bulk->read.capacity > BULK_READ_SIZE + BUFFER_KEPT_MAX)
        segment_buffer_release(&bulk->read);
    buffer_shrink(&bulk->scratch, BUFFER_KEPT_MAX);
}

void bulk_run(struct tier_bulk *bulk, const struct bulk_steps *steps)
{
    struct value_limits limits = tier_limits(bulk->tier);

    if (bulk->count == 0)
        return;
    qsort(bulk->records, bulk->count, sizeof(*bulk->records), compare_places);
    for (size_t first = 0, end; first < bulk->count; first = end) {
        end = find_group(bulk, first);
        if (!steps->goes_on(steps->context, end_of(&bulk->records[end - 1]) - place_offset(bulk->records[first].place)))
            break;
        run_group(bulk, first, end, &limits, steps);
    }
    empty(bulk);
}

/* --- the keys of a look-ahead --- */

/* By partition, so that one is locked once for many keys, and what is read of it stays in the CPU's caches. */
static struct tier_wanted *sort_by_partition(const struct partitions *all, const struct tier_wanted *wanted, size_t count, size_t *ends)
{
    struct tier_wanted *sorted = mem_alloc((count + 1) * sizeof(*sorted));
    size_t sum = 0;

    for (uint32_t i = 0; i < all->count; i++)
        ends[i] = 0;
    for (size_t i = 0; i < count; i++)
        ends[partition_index(all, wanted[i].hash)]++;
    for (uint32_t i = 0; i < all->count; i++) {
        size_t here = ends[i];

        ends[i] = sum;
        sum += here;
    }
    for (size_t i = 0; i < count; i++)
        sorted[ends[partition_index(all, wanted[i].hash)]++] = wanted[i];
    return sorted;
}

struct look_ahead {
    struct tier_bulk *bulk;
    const char *keys;
    uint64_t bytes_max;
};

static void look_up(const struct look_ahead *look, struct partition *partition, const struct tier_wanted *wanted)
    REQUIRES(partition->lock);
static void look_up(const struct look_ahead *look, struct partition *partition, const struct tier_wanted *wanted)
{
    struct keyspace *keyspace = partition_keyspace_if(partition, wanted->db);
    struct bytes key = bytes_of(look->keys + wanted->key_at, wanted->key_size);

    if (keyspace == NULL || keyspace->tier == NULL || look->bulk->bytes >= look->bytes_max)
        return;
    keyspace_assert_locked(keyspace);
    if (keyspace_find(keyspace, wanted->hash, key) == 0 && grave_find(keyspace, wanted->hash, key) == NULL)
        bulk_add(look->bulk, keyspace, wanted->hash, key, 0);
}

static void fetch_bucket(struct partition *partition, const struct tier_wanted *wanted) REQUIRES(partition->lock);
static void fetch_bucket(struct partition *partition, const struct tier_wanted *wanted)
{
    struct keyspace *keyspace = partition_keyspace_if(partition, wanted->db);

    if (keyspace != NULL)
        __builtin_prefetch(table_bucket_at(&keyspace->table, wanted->hash));
}

static void fetch_entry(struct partition *partition, const struct tier_wanted *wanted) REQUIRES(partition->lock);
static void fetch_entry(struct partition *partition, const struct tier_wanted *wanted)
{
    struct keyspace *keyspace = partition_keyspace_if(partition, wanted->db);

    if (keyspace == NULL)
        return;
    __builtin_prefetch(table_entry_at(&keyspace->table, wanted->hash));
    tier_prefetch(keyspace, wanted->hash);
}

/* All are of the partition. */
static void look_up_some(const struct look_ahead *look, struct partition *partition, const struct tier_wanted *wanted, size_t count)
{
    partition_lock(partition);
    for (size_t i = 0; i < count + STEP_BUCKET; i++) {
        if (i < count)
            fetch_bucket(partition, &wanted[i]);
        if (i >= STEP_BUCKET - STEP_ENTRY && i - (STEP_BUCKET - STEP_ENTRY) < count)
            fetch_entry(partition, &wanted[i - (STEP_BUCKET - STEP_ENTRY)]);
        if (i >= STEP_BUCKET)
            look_up(look, partition, &wanted[i - STEP_BUCKET]);
    }
    partition_unlock(partition);
}

void tier_bulk_load(struct tier_bulk *bulk, const struct tier_wanted *wanted, size_t count, const char *keys, uint64_t bytes_max,
    bool (*goes_on)(void *context, uint64_t size), void *context)
{
    struct partitions *all = bulk->tier->partitions;
    struct look_ahead look = { bulk, keys, bytes_max };
    struct bulk_steps steps = { .context = context, .goes_on = goes_on };
    size_t *ends = mem_alloc(all->count * sizeof(*ends)), begin = 0;
    struct tier_wanted *sorted = sort_by_partition(all, wanted, count, ends);

    for (uint32_t i = 0; i < all->count; begin = ends[i++]) {
        for (size_t at = begin; at < ends[i]; at += LOOK_UPS_A_LOCK)
            look_up_some(&look, &all->partitions[i], sorted + at, ends[i] - at < LOOK_UPS_A_LOCK ? ends[i] - at : LOOK_UPS_A_LOCK);
    }
    mem_free(sorted);
    mem_free(ends);
    bulk_run(bulk, &steps);
}
