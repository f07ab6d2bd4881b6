#include "tier/bulk.h"

#include <stdlib.h>

#include "base/mem.h"
#include "tier/grave.h"
#include "tier/load.h"
#include "tier/record.h"
#include "tier/tier_private.h"

enum {
    CAPACITY_FIRST = 256,
    PART_SHARE = 16,                /* records that are read together, for each read at a time */
    LOOK_UPS_A_LOCK = 64,           /* keys that are looked up under one hold of a partition's lock */
    STEP_BUCKET = 16, STEP_ENTRY = 8,       /* keys before a key is looked up, the CPU is asked for its bucket, and for its entry and its tag */
};

/* A record that is to be read. */
struct bulk_record {
    uint64_t place, hash;
    struct segment *segment;        /* pinned */
    uint32_t incarnation, note;
};

/* One that is being read. */
struct bulk_read {
    struct reading reading;         /* first: the reader returns it */
    uint32_t note;
};

static void end_read(void *context, struct reading *reading, struct read_record *read);

struct tier_bulk *tier_bulk_create(struct tier *tier, unsigned flight_max)
{
    struct tier_bulk *bulk = mem_zalloc(sizeof(*bulk));
    struct reader_options options = { .done = end_read, .context = bulk, .record_max = BULK_RECORD_MAX, .flight_max = flight_max };

    bulk->tier = tier;
    bulk->part_max = flight_max * PART_SHARE;
    bulk->reader = reader_open(tier, &options);
    return bulk;
}

void tier_bulk_destroy(struct tier_bulk *bulk)
{
    if (bulk == NULL)
        return;
    reader_close(bulk->reader);
    mem_free(bulk->records);
    mem_free(bulk);
}

bool bulk_add(struct tier_bulk *bulk, const struct keyspace *keyspace, uint64_t hash, struct bytes key, uint32_t note)
{
    struct reading reading;

    ASSERT_LOCKED(keyspace->partition);
    if (!reading_begin(bulk->tier, keyspace, hash, key, &reading))
        return false;
    if (reading.segment == NULL || place_size(reading.place) > BULK_RECORD_MAX || segment_check(reading.segment, reading.place) != STATUS_OK) {
        reading_end(&reading);
        return false;
    }
    if (bulk->count == bulk->capacity) {
        bulk->capacity = bulk->capacity == 0 ? CAPACITY_FIRST : bulk->capacity * 2;
        bulk->records = mem_realloc(bulk->records, bulk->capacity * sizeof(*bulk->records));
    }
    bulk->records[bulk->count++] = (struct bulk_record){ reading.place, hash, reading.segment, keyspace->incarnation, note };
    bulk->bytes += place_weight(reading.place);
    return true;
}

/* --- installing: on any thread --- */

/* The record that was read is what the store has of the key, and the key is in no other state than cold. */
static bool is_still_cold(struct keyspace *keyspace, const struct reading *reading, struct bytes key)
{
    uint64_t place;

    return keyspace->tier != NULL && keyspace_find(keyspace, reading->hash, key) == 0 && grave_find(keyspace, reading->hash, key) == NULL &&
           load_find(keyspace, reading->hash, key) == NULL && recordmap_find(keyspace->tier->map, reading->hash, key, &place) &&
           place == reading->place;
}

static void install(struct tier_bulk *bulk, const struct bulk_read *wanted, struct bytes key, struct record *record)
{
    const struct bulk_steps *steps = bulk->steps;
    struct partitions *all = bulk->tier->partitions;
    const struct reading *reading = &wanted->reading;
    struct partition *partition = &all->partitions[partition_index(all, reading->hash)];
    struct keyspace *keyspace;
    struct entry *entry = NULL;

    partition_lock(partition);
    keyspace = tier_living_keyspace(partition, reading->incarnation);
    if (keyspace != NULL && is_still_cold(keyspace, reading, key) && (steps->is_welcome == NULL || steps->is_welcome(steps->context, record))) {
        keyspace_assert_locked(keyspace);
        entry = load_install(keyspace, reading->hash, key, record);
        statistics_count(&bulk->tier->statistics.promotions);
        if (steps->installed != NULL)
            steps->installed(steps->context, keyspace, entry, wanted->note);
    }
    partition_unlock(partition);
    if (entry == NULL)
        value_free(&record->value);
    else
        bulk->installed++;
}

static void end_read(void *context, struct reading *reading, struct read_record *read)
{
    struct tier_bulk *bulk = context;
    enum status status = read->status;
    struct record record;

    if (status == STATUS_OK)
        status = load_decode(bulk->tier, reading, read, &record);
    if (status == STATUS_OK)
        install(bulk, (struct bulk_read *)reading, read->key, &record);
    else if (status != STATUS_NOT_FOUND)        /* another key's, with the same tag */
        bulk->failed++;
    reading_end(reading);
}

/* --- reading --- */

static int compare_places(const void *left, const void *right)
{
    const struct bulk_record *a = left, *b = right;

    return a->place < b->place ? -1 : a->place > b->place;
}

/* Sorts the records, and lets a key have one only. */
static void sort_records(struct tier_bulk *bulk)
{
    struct bulk_record *records = bulk->records;
    size_t count = 0;

    if (bulk->count > 0)            /* qsort may not be given NULL */
        qsort(records, bulk->count, sizeof(*records), compare_places);
    for (size_t i = 0; i < bulk->count; i++) {
        if (count > 0 && records[count - 1].place == records[i].place && records[count - 1].hash == records[i].hash)
            segments_unpin(records[i].segment);
        else
            records[count++] = records[i];
    }
    bulk->count = count;
}

/* The records from `first` on that are read together; returns the index after the last one. */
static size_t find_part(const struct tier_bulk *bulk, size_t first, uint64_t *size)
{
    size_t next = first;

    *size = 0;
    while (next < bulk->count && next - first < bulk->part_max && (next == first || *size + place_size(bulk->records[next].place) <= BULK_PART_SIZE))
        *size += place_size(bulk->records[next++].place);
    return next;
}

static void read_part(struct tier_bulk *bulk, size_t first, size_t end)
{
    struct bulk_read *reads = mem_alloc((end - first) * sizeof(*reads));

    for (size_t i = first; i < end; i++) {
        const struct bulk_record *record = &bulk->records[i];
        struct bulk_read *read = &reads[i - first];

        *read = (struct bulk_read){ .reading = { .place = record->place, .hash = record->hash, .segment = record->segment,
            .incarnation = record->incarnation }, .note = record->note };
        reader_add(bulk->reader, &read->reading);
    }
    reader_finish(bulk->reader);
    mem_free(reads);
}

void bulk_run(struct tier_bulk *bulk, const struct bulk_steps *steps)
{
    uint64_t size;
    size_t first = 0, end;

    bulk->steps = steps;
    sort_records(bulk);
    for (; first < bulk->count; first = end) {
        end = find_part(bulk, first, &size);
        if (!steps->goes_on(steps->context, size))
            break;
        read_part(bulk, first, end);
    }
    for (; first < bulk->count; first++)
        segments_unpin(bulk->records[first].segment);
    bulk->count = 0;
    bulk->bytes = 0;
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

static void look_up_wanted(const struct look_ahead *look, struct partition *partition, const struct tier_wanted *wanted)
    REQUIRES(partition->lock);
static void look_up_wanted(const struct look_ahead *look, struct partition *partition, const struct tier_wanted *wanted)
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
            look_up_wanted(look, partition, &wanted[i - STEP_BUCKET]);
    }
    partition_unlock(partition);
}

static void look_up_all(const struct look_ahead *look, const struct tier_wanted *wanted, size_t count)
{
    struct partitions *all = look->bulk->tier->partitions;
    size_t *ends = mem_alloc(all->count * sizeof(*ends)), begin = 0;
    struct tier_wanted *sorted = sort_by_partition(all, wanted, count, ends);

    for (uint32_t i = 0; i < all->count; begin = ends[i++]) {
        for (size_t at = begin; at < ends[i]; at += LOOK_UPS_A_LOCK)
            look_up_some(look, &all->partitions[i], sorted + at, ends[i] - at < LOOK_UPS_A_LOCK ? ends[i] - at : LOOK_UPS_A_LOCK);
    }
    mem_free(sorted);
    mem_free(ends);
}

void tier_bulk_load(struct tier_bulk *bulk, const struct tier_wanted *wanted, size_t count, const char *keys, uint64_t bytes_max,
    bool (*goes_on)(void *context, uint64_t size), void *context)
{
    struct partitions *all = bulk->tier->partitions;
    struct look_ahead look = { bulk, keys, bytes_max };
    struct bulk_steps steps = { .context = context, .goes_on = goes_on };

    if (count >= all->count)
        look_up_all(&look, wanted, count);
    for (size_t i = 0; i < count && count < all->count; i++)
        look_up_some(&look, &all->partitions[partition_index(all, wanted[i].hash)], &wanted[i], 1);
    if (bulk->count > 0)
        bulk_run(bulk, &steps);
}
