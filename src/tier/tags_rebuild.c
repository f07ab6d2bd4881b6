#include "tier/tags_rebuild.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tier/locate.h"
#include "tier/tags.h"
#include "tier/tags_private.h"
#include "tier/tier_private.h"

enum { KEY_SHOWN = 100, REPORT_US = 2000000 };

static bool is_good(const struct located_key *key, struct message *message)
{
    int shown = (int)(key->key.size < KEY_SHOWN ? key->key.size : KEY_SHOWN);

    if (key->state == LOCATED_NOWHERE)
        message_set(message, "the record of the key '%.*s' is in no segment", shown, key->key.data);
    else if (key->state == LOCATED_UNSURE)
        message_set(message, "a segment is damaged, and the newest record of the key '%.*s' may have been there", shown, key->key.data);
    return key->state == LOCATED;
}

/* --- into maps --- */

struct rebuild {
    struct tier *tier;
    struct partitions *partitions;
    const uint32_t *incarnations;   /* by database */
    struct message *message;
    int64_t reported_us;
    int db;                         /* of the key before */
};

static bool add_to_map(void *context, const struct located_key *key)
{
    struct rebuild *rebuild = context;
    struct partitions *partitions = rebuild->partitions;
    struct partition *partition = &partitions->partitions[partition_index(partitions, key->hash)];
    struct keyspace *keyspace;

    if (!is_good(key, rebuild->message))
        return false;
    for (int db = 0; rebuild->incarnations[rebuild->db] != key->incarnation; db++)
        rebuild->db = db;
    partition_lock(partition);
    keyspace = partition_keyspace(partition, rebuild->db);
    recordmap_add(keyspace->tier->map, key->hash, key->key, key->place);
    keyspace_count_records(keyspace, key->hash, 1);
    partition_unlock(partition);
    return true;
}

static void report_progress(void *context, uint64_t count)
{
    struct rebuild *rebuild = context;
    const struct tier_hooks *hooks = &rebuild->tier->hooks;
    int64_t now_us = clock_mono_us();
    char text[100];

    if (now_us - rebuild->reported_us < REPORT_US || hooks->notice == NULL)
        return;
    rebuild->reported_us = now_us;
    snprintf(text, sizeof(text), "Reading the image's tags from its store: %llu keys so far", (unsigned long long)count);
    hooks->notice(hooks->context, text);
}

enum status tags_rebuild(struct tier *tier, struct partitions *partitions, struct message *message)
{
    uint32_t *incarnations = mem_alloc((size_t)partitions->space_count * sizeof(incarnations[0]));
    struct rebuild rebuild = { tier, partitions, incarnations, message, clock_mono_us(), 0 };
    struct locate_options options = { .incarnations = incarnations, .count = partitions->space_count, .progress = report_progress };
    enum status status;

    for (int space = 0; space < partitions->space_count; space++)
        incarnations[space] = partitions_incarnation(partitions, space);
    status = locate_all(tier->store, &options, add_to_map, &rebuild, message);
    mem_free(incarnations);
    return status == STATUS_CANCELLED ? STATUS_CORRUPT : status;
}

/* --- into a file --- */

/* The records of an incarnation in a partition. */
struct tags_group {
    uint32_t incarnation, partition;
    struct recordmap *map;
    uint32_t *slots;                /* records by slot; NULL: hashes are not by slot */
};

struct tags_builder {
    uint32_t partition_count;
    bool by_slot;
    struct tags_group *groups;
    size_t count, capacity;
    bool is_unordered;              /* they are not ascending */
};

struct tags_builder *tags_builder_create(uint32_t partition_count, bool by_slot)
{
    struct tags_builder *builder = mem_zalloc(sizeof(*builder));

    builder->partition_count = partition_count;
    builder->by_slot = by_slot;
    return builder;
}

void tags_builder_destroy(struct tags_builder *builder)
{
    if (builder == NULL)
        return;
    for (size_t i = 0; i < builder->count; i++) {
        recordmap_destroy(builder->groups[i].map);
        mem_free(builder->groups[i].slots);
    }
    mem_free(builder->groups);
    mem_free(builder);
}

static bool is_before(uint32_t incarnation, uint32_t partition, const struct tags_group *group)
{
    return incarnation < group->incarnation || (incarnation == group->incarnation && partition < group->partition);
}

static struct tags_group *group_of(struct tags_builder *builder, uint32_t incarnation, uint32_t partition)
{
    struct tags_group *last = builder->count > 0 ? &builder->groups[builder->count - 1] : NULL;

    if (last != NULL && last->incarnation == incarnation && last->partition == partition)
        return last;
    builder->is_unordered = builder->is_unordered || (last != NULL && is_before(incarnation, partition, last));
    for (size_t i = 0; i < builder->count && builder->is_unordered; i++) {
        if (builder->groups[i].incarnation == incarnation && builder->groups[i].partition == partition)
            return &builder->groups[i];
    }
    if (builder->count == builder->capacity) {
        builder->capacity = builder->capacity * 2 + 64;
        builder->groups = mem_realloc(builder->groups, builder->capacity * sizeof(builder->groups[0]));
    }
    builder->groups[builder->count] = (struct tags_group){ incarnation, partition,
        recordmap_create(0, recordmap_best_tag_shift((unsigned)__builtin_ctz(builder->partition_count), builder->by_slot || incarnation_is_of_pages(incarnation))),
        builder->by_slot ? mem_zalloc(tags_slots_size(true, builder->partition_count)) : NULL };
    return &builder->groups[builder->count++];
}

void tags_builder_add(struct tags_builder *builder, uint32_t incarnation, uint64_t hash, struct bytes key, uint64_t place)
{
    uint32_t count = builder->partition_count, partition = count == 1 ? 0 : (uint32_t)(hash >> (64 - __builtin_ctz(count)));

    struct tags_group *group = group_of(builder, incarnation, partition);

    recordmap_add(group->map, hash, key, place);
    if (group->slots != NULL)
        group->slots[hash >> SLOT_SHIFT & (SLOT_COUNT / count - 1)]++;
}

static int compare_groups(const void *a, const void *b)
{
    const struct tags_group *first = a, *second = b;

    if (first->partition != second->partition)
        return first->partition < second->partition ? -1 : 1;
    return first->incarnation < second->incarnation ? -1 : first->incarnation > second->incarnation;
}

void tags_builder_print(struct tags_builder *builder, struct buffer *file)
{
    if (builder->count > 0)
        qsort(builder->groups, builder->count, sizeof(builder->groups[0]), compare_groups);
    tags_begin(file, builder->partition_count, builder->by_slot);
    for (size_t i = 0; i < builder->count; i++) {
        const struct tags_group *group = &builder->groups[i];

        tags_add(file, group->incarnation, group->partition, group->map,
            bytes_of((const char *)group->slots, tags_slots_size(builder->by_slot, builder->partition_count)));
    }
    tags_end(file);
}

struct making {
    struct tags_builder *builder;
    struct message *message;
};

static bool add_to_builder(void *context, const struct located_key *key)
{
    struct making *making = context;

    if (!is_good(key, making->message))
        return false;
    tags_builder_add(making->builder, key->incarnation, key->hash, key->key, key->place);
    return true;
}

enum status tags_make(struct store *store, const uint32_t *incarnations, int count, uint32_t partition_count, struct buffer *file,
    struct message *message)
{
    struct making making = { tags_builder_create(partition_count, store_is_by_slot(store)), message };
    struct locate_options options = { .incarnations = incarnations, .count = count };
    enum status status = locate_all(store, &options, add_to_builder, &making, message);

    if (status == STATUS_OK)
        tags_builder_print(making.builder, file);
    tags_builder_destroy(making.builder);
    return status == STATUS_CANCELLED ? STATUS_CORRUPT : status;
}
