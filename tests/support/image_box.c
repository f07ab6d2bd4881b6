#include "support/image_box.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/disk.h"
#include "base/mapped.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/tree.h"
#include "persist/checkpoint.h"
#include "support/image_records.h"
#include "tier/grave.h"
#include "tier/image.h"
#include "tier/record.h"
#include "tier/reading.h"
#include "tier/tags.h"

struct item {
    uint32_t incarnation;
    uint64_t hash;
    int64_t expire_ms;
    uint8_t digest[20];
    char *key;
    size_t size;
};

struct image_box {
    struct tier_box *box;
    struct item *items;
    size_t count, capacity;
    uint32_t *incarnations;         /* by database */
    enum status status;
};

static void add(struct image_box *image, uint32_t incarnation, uint64_t hash, struct bytes key, int64_t expire_ms, const struct value *value)
{
    struct item *item;

    if (image->count == image->capacity) {
        image->capacity = image->capacity * 2 + 256;
        image->items = mem_realloc(image->items, image->capacity * sizeof(struct item));
    }
    item = &image->items[image->count++];
    *item = (struct item){ .incarnation = incarnation, .hash = hash, .expire_ms = expire_ms, .key = mem_alloc(key.size + 1), .size = key.size };
    memcpy(item->key, key.data, key.size);
    item->key[key.size] = 0;
    value_digest(value, item->digest);
}

static int compare(const void *a, const void *b)
{
    const struct item *left = a, *right = b;
    size_t size = left->size < right->size ? left->size : right->size;
    int difference;

    if (left->incarnation != right->incarnation)
        return left->incarnation < right->incarnation ? -1 : 1;
    if (left->hash != right->hash)
        return left->hash < right->hash ? -1 : 1;
    difference = memcmp(left->key, right->key, size);
    return difference != 0 ? difference : (left->size > right->size) - (left->size < right->size);
}

static void release(struct image_box *image)
{
    for (size_t i = 0; i < image->count; i++)
        mem_free(image->items[i].key);
    mem_free(image->items);
    image->items = NULL;
    image->count = image->capacity = 0;
}

/* What RAM shadows of the store's records: by an entry, or a grave. All partitions are locked, or there is no RAM (an image). */
static bool is_shadowed(struct image_box *image, int space, uint64_t hash, struct bytes key)
{
    struct partitions *all = image->box->partitions;
    struct keyspace *keyspace = all->partitions[partition_index(all, hash)].keyspaces[space];

    return keyspace != NULL && (keyspace_find(keyspace, hash, key) != 0 || grave_find(keyspace, hash, key) != NULL);
}

/* The bytes of a record that the index shows: of an image, by its tags; or of the tier, whose disk may fail. */
static enum status record_bytes(struct image_box *image, const struct image_records *records, int space, const struct store_record *at,
    struct buffer *bytes, struct bytes *found)
{
    struct partitions *all = image->box->partitions;
    struct partition *partition = &all->partitions[partition_index(all, at->hash)];
    struct read_buffers buffers = { 0 };
    struct read_record read;
    struct reading reading;

    bytes->size = 0;
    if (records != NULL) {
        CHECK(image_records_get(records, image->incarnations[space], at->hash, at->key, bytes) == STATUS_OK);
        *found = buffer_bytes(bytes);
        return STATUS_OK;
    }
    partition_assert_locked(partition);
    CHECK(reading_begin(image->box->tier, partition->keyspaces[space], at->hash, at->key, &reading));
    reading_now(image->box->tier, &reading, &buffers, &read);
    reading_end(&reading);
    CHECK(read.status != STATUS_NOT_FOUND);
    buffer_append_bytes(bytes, read.bytes);
    read_buffers_release(&buffers);
    *found = buffer_bytes(bytes);
    return read.status;
}

/* `records` NULL: of the tier, but for what is shadowed. */
static void add_records(struct image_box *image, struct store *store, int space, const struct image_records *records)
{
    struct value_limits limits = tier_limits(image->box->tier);
    struct store_iterator *iterator = store_scan(store, image->incarnations[space], 0);
    struct store_record at;
    struct buffer scratch = { 0 }, bytes = { 0 };
    enum status status;

    while ((status = store_next(iterator, &at)) == STATUS_OK) {
        struct record record;
        struct bytes found;

        if (records == NULL && is_shadowed(image, space, at.hash, at.key))
            continue;
        scratch.size = 0;
        status = record_bytes(image, records, space, &at, &bytes, &found);
        if (status != STATUS_OK)
            break;
        CHECK(record_decode(found, store_dictionaries(store), &limits, &scratch, &record) == STATUS_OK);
        add(image, image->incarnations[space], at.hash, at.key, record.expire_ms, &record.value);
        value_free(&record.value);
    }
    if (status != STATUS_NOT_FOUND)
        image->status = status;
    store_scan_close(iterator);
    buffer_release(&scratch);
    buffer_release(&bytes);
}

static void add_entries(struct image_box *image, const struct keyspace *keyspace)
{
    const struct heap *heap = &keyspace->heap;

    for (uint32_t segment = 0; segment < heap->segment_count; segment++) {
        uint32_t unit = 1;
        struct entry *entry;

        if (heap->segments[segment] == NULL)
            continue;
        while ((entry = heap_walk(heap, segment, &unit)) != NULL) {
            struct value value = entry_value(entry);

            unit += entry_block_size(entry) / ENTRY_UNIT;
            add(image, keyspace->incarnation, keyspace_hash(keyspace, entry_key(entry)), entry_key(entry),
                entry_expire_ms(entry), &value);
        }
    }
}

/* With the writer held and all partitions locked. */
static void note_all(struct image_box *image)
{
    struct partitions *all = image->box->partitions;

    for (int space = 0; space < all->space_count; space++) {
        image->incarnations[space] = partitions_incarnation(all, space);
        add_records(image, image->box->tier->store, space, NULL);
        for (uint32_t i = 0; i < all->count; i++) {
            if (all->partitions[i].keyspaces[space] != NULL)
                add_entries(image, all->partitions[i].keyspaces[space]);
        }
    }
}

static bool cut(struct image_box *image)
{
    struct tier *tier = image->box->tier;
    bool may;

    mutex_lock(&tier->counting.lock);
    partitions_lock_all(image->box->partitions);
    may = tier_may_cut(tier);
    if (may) {
        note_all(image);
        tier_cut(tier);
    }
    partitions_unlock_all(image->box->partitions);
    mutex_unlock(&tier->counting.lock);
    return may;
}

struct tag_counts {
    const struct image_box *found;
    uint64_t *by_space, *weights;   /* live ones, by slot */
};

static bool count_section(void *context, const struct tags_section *section)
{
    struct tag_counts *counts = context;
    struct recordmap *map = tags_section_map(section);
    struct recordmap_record record;
    struct recordmap_walk walk;
    bool is_live = false;

    for (int space = 0; space < counts->found->box->partitions->space_count; space++) {
        bool is_this = counts->found->incarnations[space] == section->incarnation;

        counts->by_space[space] += is_this ? section->count : 0;
        is_live = is_live || is_this;
    }
    recordmap_walk_begin(&walk, map, 0);
    while (is_live && recordmap_walk_next(&walk, &record)) {
        if (place_is_in_segment(record.place))
            counts->weights[place_slot(record.place)] += place_weight(record.place);
    }
    recordmap_destroy(map);
    return true;
}

/* If the file says what is live in each segment, it is what its records say. */
static void verify_weights(struct image_box *found, struct bytes file, const uint64_t *by_slot)
{
    struct tags_weights weights;
    uint64_t total = 0, listed = 0;

    tags_weights_of(file, &weights);
    for (uint32_t i = 0; i < weights.count; i++) {
        BOX_DEMAND(found->box, by_slot[weights.list[i].slot] == weights.list[i].weight, "the weight of segment %llu",
            (unsigned long long)weights.list[i].sequence);
        listed += weights.list[i].weight;
    }
    for (uint32_t slot = 0; slot >> PLACE_SLOT_BITS == 0; slot++)
        total += by_slot[slot];
    BOX_DEMAND(found->box, !weights.is_known || total == listed, "weights of segments are missing");
    mem_free(weights.list);
}

static void verify_tags(struct image_box *found, const char *dir)
{
    int count = found->box->partitions->space_count;
    uint64_t *tags = mem_zalloc((size_t)count * sizeof(*tags)), *weights = mem_zalloc(sizeof(*weights) << PLACE_SLOT_BITS);
    const char *problem = NULL;
    uint32_t partition_count;
    struct message message;
    struct mapped file;
    char path[400];

    snprintf(path, sizeof(path), "%s/tags", dir);
    BOX_DEMAND(found->box, mapped_open(path, &file, &message), "%s", message.text);
    BOX_DEMAND(found->box, tags_walk_file(&(struct tags_file){ .bytes = file.bytes, .dir = dir }, &partition_count, count_section, &(struct tag_counts){ found, tags, weights }, &problem) == STATUS_OK,
        "%s: %s", path, problem);
    verify_weights(found, file.bytes, weights);
    mem_free(weights);
    mapped_close(&file);
    for (int space = 0; space < count; space++) {
        uint64_t records = 0;

        for (size_t i = 0; i < found->count; i++)
            records += found->items[i].incarnation == found->incarnations[space];
        BOX_DEMAND(found->box, records == tags[space], "the image has %llu records and %llu tags in space %d",
            (unsigned long long)records, (unsigned long long)tags[space], space);
    }
    mem_free(tags);
}

static void verify(struct image_box *wanted, const char *dir)
{
    struct store_env *env = store_env_create(disk_system());
    struct image_box found = { .box = wanted->box, .incarnations = wanted->incarnations };
    char path[400];
    struct message message;
    struct store_options options = { .dir = path, .env = env, .is_read_only = true };
    struct image_records records;
    struct store *store;

    snprintf(path, sizeof(path), "%s/store", dir);
    BOX_DEMAND(wanted->box, store_open(&options, &store, &message) == STATUS_OK, "%s", message.text);
    image_records_open(&records, dir, store);
    for (int space = 0; space < wanted->box->partitions->space_count; space++)
        add_records(&found, store, space, &records);
    image_records_close(&records);
    CHECK(found.status == STATUS_OK);
    if (wanted->count > 0)
        qsort(wanted->items, wanted->count, sizeof(struct item), compare);
    if (found.count > 0)
        qsort(found.items, found.count, sizeof(struct item), compare);
    for (size_t i = 0; i < wanted->count || i < found.count; i++) {
        const struct item *there = i < found.count ? &found.items[i] : NULL, *was = i < wanted->count ? &wanted->items[i] : NULL;
        int order = there == NULL ? -1 : was == NULL ? 1 : compare(was, there);

        BOX_DEMAND(wanted->box, order >= 0, "'%.60s' of %u was there at the cut, but is not in the image", was->key, was->incarnation);
        BOX_DEMAND(wanted->box, order <= 0, "'%.60s' of %u is in the image, but was not there at the cut", there->key, there->incarnation);
        BOX_DEMAND(wanted->box, memcmp(was->digest, there->digest, 20) == 0 && was->expire_ms == there->expire_ms,
            "'%.60s' of %u is not as it was at the cut", was->key, was->incarnation);
    }
    verify_tags(&found, dir);
    release(&found);
    store_close(store);
    store_env_destroy(env);
}

enum status image_box_take(struct tier_box *box, const char *dir, bool clean)
{
    struct image_box image = { .box = box };
    struct message message = { "" };
    uint64_t number;
    enum status status = STATUS_OK;

    image.incarnations = mem_zalloc((size_t)box->partitions->space_count * sizeof(uint32_t));
    tier_image_begin(box->tier);
    if (clean)
        status = tier_clean(box->tier, &message);
    if (status == STATUS_OK) {
        status = STATUS_LOCKED;
        if (cut(&image))
            status = tier_image(box->tier, dir, &number, &message);
    }
    tier_image_end(box->tier);
    if (status == STATUS_OK && image.status == STATUS_OK)
        verify(&image, dir);
    tree_remove(dir);
    release(&image);
    mem_free(image.incarnations);
    return status;
}
