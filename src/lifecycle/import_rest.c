#include "lifecycle/import_rest.h"

#include <stdlib.h>

#include "base/mem.h"
#include "containers/linear_hash.h"
#include "keyspace/pages.h"
#include "lifecycle/fetch.h"
#include "lifecycle/spool.h"
#include "value/codec.h"
#include "value/hash.h"
#include "value/list.h"
#include "value/set.h"
#include "value/stream_nodes.h"
#include "value/string.h"
#include "value/zset.h"

/* Steps of adding elements: the tree of a sorted set that is put aside gets them as they come, in its order, and the table in that of its pages. A list, a stream or a string gets them at its end.
 * What follows the nodes of a stream is one more element, whose key is the RDB type. */
enum rest_step { STEP_BOTH, STEP_TIMED, STEP_TREE, STEP_TABLE, STEP_LIST, STEP_STREAM, STEP_STREAM_END, STEP_STRING };

enum {
    BATCH = 512, BATCH_SIZE = 256 << 10,    /* elements, and their bytes, that are added under one lock; one at least */
    HELD_LOOK_MS = 1,
    SPOOL_SHARE = 4,                /* of maxmemory: larger values are put aside */
    BUCKET_SHARE = 16, BUCKETS_MAX = 256,
    BUCKET_MIN = 1 << 20,
};

struct element {
    uint32_t page;
    struct bytes key, data;         /* of the part */
};

static int compare_pages(const void *a, const void *b)
{
    uint32_t first = ((const struct element *)a)->page, second = ((const struct element *)b)->page;

    return (first > second) - (first < second);
}

/* Elements are added in the order of the table's pages. */
static bool goes_by_pages(enum rest_step step)
{
    return step == STEP_BOTH || step == STEP_TIMED || step == STEP_TABLE;
}

/* A list that grows. */
struct elements {
    struct element *list;
    size_t count, capacity;
};

static void append_element(struct elements *elements, struct bytes key, struct bytes data)
{
    if (elements->count == elements->capacity) {
        elements->capacity = elements->capacity * 2 + BATCH;
        elements->list = mem_realloc(elements->list, elements->capacity * sizeof(elements->list[0]));
    }
    elements->list[elements->count++] = (struct element){ 0, key, data };
}

typedef enum status element_found(void *context, struct bytes key, struct bytes data);

/* The data of a hash's field is its value, followed by its time if the hash may have times. */
enum { TIME_SIZE = sizeof(int64_t) };

static enum status walk_timed(const struct value *part, element_found *found, void *context)
{
    struct hash_iterator fields;
    struct bytes key, data;
    struct buffer timed = { 0 };
    enum status status = STATUS_OK;

    hash_iterate(&fields, part);
    while (status == STATUS_OK && hash_next(&fields, &key, &data)) {
        int64_t time_ms = hash_time(part, key);

        timed.size = 0;
        buffer_append_bytes(&timed, data);
        buffer_append(&timed, &time_ms, TIME_SIZE);
        status = found(context, key, buffer_bytes(&timed));
    }
    buffer_release(&timed);
    return status;
}

/* An ID is the key of its node. */
static enum status walk_nodes(const struct stream *part, element_found *found, void *context)
{
    enum status status = STATUS_OK;
    struct stream_place place;

    for (bool more = stream_node_first(part, &place); more && status == STATUS_OK; more = stream_node_next(part, &place)) {
        struct stream_id id;
        const struct listpack *pack = stream_node_read(part, &place, &id);

        status = found(context, bytes_of(&id, sizeof(id)), listpack_bytes(pack));
    }
    return status;
}

/* Calls `found` for each element of the part, until that fails. Bytes are borrowed for the call. */
static enum status walk_part(const struct rest_key *whole, const struct value *part, element_found *found, void *context)
{
    struct hash_iterator fields;
    struct set_iterator members;
    struct zset_iterator elements;
    struct list_iterator list;
    char digits[TEXT_INT_SIZE];
    double score;
    struct bytes key, data = bytes_of(NULL, 0);
    enum status status = STATUS_OK;

    if (part->type == VALUE_HASH && whole->has_times) {
        status = walk_timed(part, found, context);
    } else if (part->type == VALUE_HASH) {
        hash_iterate(&fields, part);
        while (status == STATUS_OK && hash_next(&fields, &key, &data))
            status = found(context, key, data);
    } else if (part->type == VALUE_ZSET) {
        zset_iterate(&elements, part, zset_count(part) - 1, ZSET_DOWN);
        while (status == STATUS_OK && zset_next(&elements, &key, &score))
            status = found(context, key, bytes_of(&score, sizeof(score)));
    } else if (part->type == VALUE_LIST) {
        list_iterate(&list, part, 0, LIST_TAIL);
        while (status == STATUS_OK && list_step(&list))
            status = found(context, list_element(&list, digits), data);
        list_iterate_end(&list);
    } else if (part->type == VALUE_STREAM) {
        status = walk_nodes(stream_of(part), found, context);
    } else if (part->type == VALUE_STRING) {
        status = found(context, string_bytes(part, digits), data);
    } else {
        set_iterate(&members, part);
        while (status == STATUS_OK && set_next(&members, &key))
            status = found(context, key, data);
    }
    return status;
}

/* Elements as a spool has them. */
static enum status copy_element(void *context, struct bytes key, struct bytes data)
{
    spool_append(context, key, data);
    return STATUS_OK;
}

static struct partition *partition_of(const struct import_rest *rest, const struct rest_key *key)
{
    struct partitions *all = rest->engine->partitions;

    return &all->partitions[partition_index(all, key->hash)];
}

/* Finds the entry, which may be cold. The partition is locked. */
static enum status find_entry(const struct import_rest *rest, struct keyspace *keyspace, const struct rest_key *key, uint32_t *handle) REQUIRES(keyspace->partition->lock);
static enum status find_entry(const struct import_rest *rest, struct keyspace *keyspace, const struct rest_key *key, uint32_t *handle)
{
    struct tier *tier = rest->engine->tier;

    *handle = keyspace_find(keyspace, key->hash, key->name);
    if (*handle == 0 && tier != NULL) {
        enum status status = tier_load_in_place(tier, keyspace, key->hash, key->name);

        if (status != STATUS_OK)
            return status;
        *handle = keyspace_find(keyspace, key->hash, key->name);
    }
    if (*handle == 0)
        return STATUS_NOT_FOUND;
    return entry_is_held(keyspace, keyspace_entry(keyspace, *handle)) ? STATUS_LOCKED : STATUS_OK;
}

static enum status bring_page(const struct import_rest *rest, const struct pages_access *access, uint32_t number) REQUIRES(access->pages.space->partition->lock);
static enum status bring_page(const struct import_rest *rest, const struct pages_access *access, uint32_t number)
{
    struct keyspace *space = access->pages.space;
    char name[PAGE_NAME_SIZE];
    uint64_t hash = pages_name(access->pages.id, number, name);
    enum status status = STATUS_OK;

    keyspace_assert_locked(space);
    if (pages_have(space, access->pages.id, number))
        return STATUS_OK;
    if (rest->engine->tier != NULL)
        status = tier_load_in_place(rest->engine->tier, space, hash, bytes_of(name, sizeof(name)));
    return status == STATUS_OK && !pages_have(space, access->pages.id, number) ? STATUS_CORRUPT : status;
}

/* The pages that it will split next, in the order of splitting, are read, so that it need not put that off. */
static void bring_ahead(const struct import_rest *rest, const struct pages_access *access) REQUIRES(access->pages.space->partition->lock);
static void bring_ahead(const struct import_rest *rest, const struct pages_access *access)
{
    const struct paged_table *table = &access->paged.table;
    uint32_t numbers[PAGE_ROW_AHEAD_MAX], count = 0;

    if (rest->engine->tier != NULL && table->root->count > 0 && table->root->size >= (uint64_t)table->root->pages * table->limits.size_min)     /* not one whose pages are yet to be filled */
        count = paged_table_ahead(table, numbers);
    for (uint32_t i = 0; i < count; i++)
        (void)bring_page(rest, access, numbers[i]);
}

static double score_of(const struct element *element)
{
    double score;

    memcpy(&score, element->data.data, sizeof(score));
    return score;
}

/* False: it is damaged, or not after the others. */
static bool add_node(struct stream *stream, const struct element *element)
{
    struct stream_id id;

    memcpy(&id, element->key.data, sizeof(id));
    if (!stream_build_node(stream, id, element->data))
        return false;
    stream_build_part(stream);
    return true;
}

static bool end_stream(const struct value *value, const struct value_limits *limits, const struct element *element)
{
    struct buffer scratch = { 0 };
    bool good = codec_read_stream_end((uint8_t)element->key.data[0], element->data, limits, &scratch, value) == STATUS_OK;

    buffer_release(&scratch);
    return good;
}

static bool add_timed(struct value *value, const struct value_limits *limits, const struct element *element)
{
    size_t size = element->data.size - TIME_SIZE;
    int64_t time_ms;

    memcpy(&time_ms, element->data.data + size, TIME_SIZE);
    if (!hash_set(value, limits, element->key, bytes_of(element->data.data, size)))
        return false;
    if (time_ms >= 0)
        hash_set_time(value, limits, element->key, time_ms);
    return true;
}

/* False: it is there already, or damaged. */
static bool add_to_value(struct value *value, const struct value_limits *limits, enum rest_step step, const struct element *element)
{
    if (step == STEP_TIMED)
        return add_timed(value, limits, element);
    if (value->type == VALUE_HASH)
        return hash_set(value, limits, element->key, element->data);
    if (value->type == VALUE_SET)
        return set_add(value, limits, element->key);
    switch (step) {
    case STEP_LIST:
        list_grow(value, limits, 1, element->key.size);
        list_push(value, LIST_TAIL, element->key);
        return true;
    case STEP_STREAM: return add_node(stream_of(value), element);
    case STEP_STREAM_END: return end_stream(value, limits, element);
    case STEP_STRING:
        string_append(value, element->key);
        return true;
    case STEP_BOTH: return zset_put(value, limits, element->key, score_of(element));
    case STEP_TREE: return paged_order_insert(value, element->key, score_of(element));
    case STEP_TABLE: return paged_zset_insert_in_table(value, element->key, score_of(element));
    case STEP_TIMED: break;
    }
    return false;
}

static enum status bring_wanted(const struct import_rest *rest, struct pages_access *access) REQUIRES(access->pages.space->partition->lock);
static enum status bring_wanted(const struct import_rest *rest, struct pages_access *access)
{
    enum status status = STATUS_OK;

    for (uint32_t i = 0; i < access->paged.wanted_count && status == STATUS_OK; i++)
        status = bring_page(rest, access, access->paged.wanted[i]);
    paged_forget_wanted(&access->paged);
    return status;
}

static bool has_place_of_time(const struct value *value, const struct element *element)
{
    int64_t time_ms;

    memcpy(&time_ms, element->data.data + element->data.size - TIME_SIZE, TIME_SIZE);
    return time_ms < 0 || hash_has_change(value, &element->key, 1, 1, time_ms);
}

static bool has_place(const struct value *value, enum rest_step step, const struct element *element)
{
    switch (step) {
    case STEP_LIST: return list_has_push(value, LIST_TAIL, 1, element->key.size);
    case STEP_STREAM: return stream_has_add(stream_of(value));
    case STEP_STREAM_END: return stream_has_range(stream_of(value), (struct stream_id){ 0, 0 }, STREAM_ID_MAX, 1, STREAM_UP) && stream_has_range(stream_of(value), (struct stream_id){ 0, 0 }, STREAM_ID_MAX, 1, STREAM_DOWN);
    case STEP_STRING: return string_has_change(value, string_size(value), element->key.size);
    case STEP_TIMED: return has_place_of_time(value, element);
    default: return paged_order_has_place(value, score_of(element), element->key);
    }
}

/* The pages that the element needs. */
static enum status bring_for(const struct import_rest *rest, struct pages_access *access, const struct value *value, enum rest_step step, const struct element *element)
    REQUIRES(access->pages.space->partition->lock);
static enum status bring_for(const struct import_rest *rest, struct pages_access *access, const struct value *value, enum rest_step step, const struct element *element)
{
    enum status status = goes_by_pages(step) ? bring_page(rest, access, paged_table_page(&access->paged.table, element->key)) : STATUS_OK;

    if (step == STEP_TABLE || (step == STEP_BOTH && !paged_walks_tree(value)))
        return status;
    while (status == STATUS_OK && !has_place(value, step, element))
        status = bring_wanted(rest, access);
    return status;
}

/* A table that got into pages is left in `table`. */
static enum status add_locked(const struct import_rest *rest, struct keyspace *keyspace, const struct rest_key *key, enum rest_step step, const struct element *elements, size_t count,
    struct value *table) REQUIRES(keyspace->partition->lock);
static enum status add_locked(const struct import_rest *rest, struct keyspace *keyspace, const struct rest_key *key, enum rest_step step, const struct element *elements, size_t count,
    struct value *table)
{
    const struct value_limits *limits = &rest->turn->limits;
    struct pages_access access;
    struct value value;
    uint32_t handle;
    struct entry *entry;
    enum status status = find_entry(rest, keyspace, key, &handle);

    if (status != STATUS_OK)
        return status;
    value = entry_value(keyspace_entry(keyspace, handle));
    if (value.type != key->type || ((step == STEP_TREE || step == STEP_TABLE) && !value_is_paged(&value)))
        return STATUS_INVALID;
    partition_changing(keyspace, key->hash, handle);
    if (value_is_paged(&value)) {
        pages_attach(&access, keyspace, &value, limits, rest->turn->now_ms);
        keyspace_assert_locked(access.pages.space);
        bring_ahead(rest, &access);
    }
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        if (value_is_paged(&value)) {
            keyspace_assert_locked(access.pages.space);
            status = bring_for(rest, &access, &value, step, &elements[i]);
        }
        if (status == STATUS_OK)
            status = add_to_value(&value, limits, step, &elements[i]) ? STATUS_OK : STATUS_INVALID;
    }
    if (!value_is_paged(&value))
        (void)pages_take(&access, keyspace, key->hash, limits, rest->turn->now_ms, &value, table);
    entry = keyspace_entry(keyspace, handle);
    keyspace_mark_dirty(keyspace, entry);
    entry_replace_value(entry, &value);
    if (step == STEP_TIMED)
        keyspace_note_times(keyspace, key->hash, handle, rest->turn->now_ms);
    return status;
}

static enum status add_batch(struct import_rest *rest, const struct rest_key *key, enum rest_step step, const struct element *elements, size_t count)
{
    struct waiting *waiting = &rest->engine->waiting;
    struct partition *partition = partition_of(rest, key);
    struct value table = { 0 };
    enum status status;

    for (;;) {
        uint32_t version = waiting_version(waiting);
        struct keyspace *keyspace;

        partition_lock(partition);
        keyspace = partition_keyspace(partition, key->db);
        keyspace_assert_locked(keyspace);
        status = add_locked(rest, keyspace, key, step, elements, count, &table);
        partition_unlock(partition);
        if (status != STATUS_LOCKED)
            break;
        waiting_wait(waiting, version, HELD_LOOK_MS);       /* the tier ends it */
    }
    if (value_is_object(&table))
        value_free(&table);
    return status;
}

/* Loads the pages of these elements. */
static void fetch_batch(struct import_rest *rest, const struct rest_key *key, const struct element *elements, size_t count)
{
    if (rest->engine->tier == NULL)
        return;
    if (rest->fetch == NULL)
        rest->fetch = fetch_create(rest->engine);
    if (rest->fetch == NULL)
        return;
    rest->batches++;
    fetch_add(rest->fetch, rest->batches, key->name, key->hash, key->db);
    for (size_t i = 0; i < count && key->name.size <= FETCH_KEY_SIZE_MAX; i++) {
        if (i == 0 || elements[i].page != elements[i - 1].page)
            fetch_add_element(rest->fetch, elements[i].key);
    }
    fetch_submit(rest->fetch, rest->batches);
}

/* False: it is not in pages. */
static bool find_root(const struct import_rest *rest, const struct rest_key *key, struct paged_root *root)
{
    struct partition *partition = partition_of(rest, key);
    struct keyspace *keyspace;
    bool is_paged = false;
    uint32_t handle;

    partition_lock(partition);
    keyspace = partition_keyspace(partition, key->db);
    keyspace_assert_locked(keyspace);
    if (find_entry(rest, keyspace, key, &handle) == STATUS_OK) {
        struct value value = entry_value(keyspace_entry(keyspace, handle));

        is_paged = value_is_paged(&value);
        if (is_paged)
            *root = paged_of(&value)->root;
    }
    partition_unlock(partition);
    return is_paged;
}

/* In the order of their pages, which are as they are now. */
static void sort_elements(const struct import_rest *rest, const struct rest_key *key, struct element *elements, size_t count)
{
    struct paged_root root;

    if (count == 0 || !find_root(rest, key, &root))
        return;
    for (size_t i = 0; i < count; i++)
        elements[i].page = (uint32_t)linear_hash_index(root.pages, hash_bytes(&rest->turn->limits.seed, elements[i].key));
    qsort(elements, count, sizeof(*elements), compare_pages);
}

static size_t batch_of(const struct elements *elements, size_t first)
{
    size_t count = 0, size = 0;

    for (size_t i = first; i < elements->count && count < BATCH && (count == 0 || size < BATCH_SIZE); i++) {
        size += elements->list[i].key.size + elements->list[i].data.size;
        count++;
    }
    return count;
}

/* `text` has them as a spool does. */
static enum status add_all(struct import_rest *rest, const struct rest_key *key, enum rest_step step, struct bytes text)
{
    struct elements elements = { 0 };
    struct bytes element, data;
    enum status status = STATUS_OK;

    while (spool_next(&text, &element, &data))
        append_element(&elements, element, data);
    if (goes_by_pages(step))
        sort_elements(rest, key, elements.list, elements.count);
    for (size_t i = 0, some; i < elements.count && status == STATUS_OK; i += some) {
        some = batch_of(&elements, i);
        if (goes_by_pages(step))
            fetch_batch(rest, key, elements.list + i, some);
        status = add_batch(rest, key, step, elements.list + i, some);
        if (status == STATUS_OK)
            status = rest->wait(rest->context);
    }
    mem_free(elements.list);
    return status;
}

static uint64_t memory_limit(const struct import_rest *rest)
{
    return (uint64_t)config_number(rest->engine->config, CONFIG_MAXMEMORY);
}

static uint64_t bucket_size(const struct import_rest *rest)
{
    uint64_t size = memory_limit(rest) / BUCKET_SHARE;

    return size > BUCKET_MIN ? size : BUCKET_MIN;
}

enum status import_rest_begin(struct import_rest *rest, const struct rest_key *key, uint64_t size)
{
    const struct value kind = { .type = (uint8_t)key->type };
    struct paged_root root;

    spool_destroy(rest->spool);
    rest->spool = NULL;
    if (!paged_has_table(&kind) || memory_limit(rest) == 0 || size <= memory_limit(rest) / SPOOL_SHARE || !find_root(rest, key, &root))
        return STATUS_OK;
    rest->pages = root.pages;
    rest->buckets = size / bucket_size(rest) < BUCKETS_MAX ? (uint32_t)(size / bucket_size(rest)) + 1 : BUCKETS_MAX;
    return spool_create(disk_system(), ".", rest->buckets, &rest->spool);
}

static enum status put_aside(void *context, struct bytes key, struct bytes data)
{
    struct import_rest *rest = context;
    uint64_t page = linear_hash_index(rest->pages, hash_bytes(&rest->turn->limits.seed, key));

    return spool_add(rest->spool, (uint32_t)(page * rest->buckets / rest->pages), key, data);
}

static enum rest_step step_of(const struct import_rest *rest, const struct rest_key *key, const struct value *part)
{
    switch (part->type) {
    case VALUE_LIST: return STEP_LIST;
    case VALUE_STREAM: return STEP_STREAM;
    case VALUE_STRING: return STEP_STRING;
    case VALUE_HASH: return key->has_times ? STEP_TIMED : STEP_BOTH;
    default: return rest->spool != NULL ? STEP_TREE : STEP_BOTH;
    }
}

enum status import_rest_add(struct import_rest *rest, const struct rest_key *key, const struct value *part)
{
    struct buffer text = { 0 };
    enum status status = STATUS_OK;

    if (rest->spool != NULL)
        status = walk_part(key, part, put_aside, rest);
    if (status != STATUS_OK || (rest->spool != NULL && part->type != VALUE_ZSET))
        return status;
    (void)walk_part(key, part, copy_element, &text);
    status = add_all(rest, key, step_of(rest, key, part), buffer_bytes(&text));
    buffer_release(&text);
    return status;
}

enum status import_rest_end(struct import_rest *rest, const struct rest_key *key)
{
    struct buffer text = { 0 };
    enum status status = STATUS_OK;

    for (uint32_t bucket = 0; rest->spool != NULL && bucket < rest->buckets && status == STATUS_OK; bucket++) {
        do {
            status = spool_take(rest->spool, bucket, bucket_size(rest), &text);
            if (status == STATUS_OK)
                status = add_all(rest, key, key->type == VALUE_ZSET ? STEP_TABLE : key->has_times ? STEP_TIMED : STEP_BOTH, buffer_bytes(&text));
        } while (status == STATUS_OK && text.size > 0);
    }
    buffer_release(&text);
    spool_destroy(rest->spool);
    rest->spool = NULL;
    return status;
}

enum status import_rest_end_stream(struct import_rest *rest, const struct rest_key *key, uint8_t type, struct bytes bytes)
{
    const struct element end = { 0, bytes_of(&type, 1), bytes };

    return add_batch(rest, key, STEP_STREAM_END, &end, 1);
}

void import_rest_release(struct import_rest *rest)
{
    fetch_destroy(rest->fetch);
    spool_destroy(rest->spool);
    rest->fetch = NULL;
    rest->spool = NULL;
}
