#include "containers/dict.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "containers/buckets.h"
#include "containers/pair.h"

/* containers/buckets.h describes how the table grows and shrinks.
 *
 *   slot  = 16 bits of the hash << 48 | address of the entry; 0: empty. User addresses have 48 bits on supported machines.
 *   entry = containers/pair.h
 *
 * A bucket's slots are used from the left. If there are more than eight entries, the last slot is the address of a
 * struct overflow with the lowest bit set. The overflow then contains at least two. */
enum {
    DICT_BUCKET_SLOTS = 8,
    TAG_SHIFT = 48,
    OVERFLOW_MARK = 1,
    OVERFLOW_SLOTS_FIRST = 3,   /* with the counts one jemalloc class of 32 bytes; grows in steps of two */

    /* Average number of pairs per bucket. Memory is 64 bytes divided by the load, plus overflows; 6 is about the best.
     * The distance of the limits keeps a dict from growing and shrinking alternately. */
    LOAD_MAX = 6,
    LOAD_MIN = 4,
};

struct dict_bucket {
    uint64_t slots[DICT_BUCKET_SLOTS];
};

_Static_assert(sizeof(struct dict_bucket) == BUCKET_SIZE, "the size of a bucket in buckets.h");

struct overflow {
    uint32_t count, capacity;
    uint64_t slots[];
};

struct dict {
    struct hash_seed seed;
    size_t count, size;                 /* of pairs, and their bytes */
    struct buckets buckets;             /* of struct dict_bucket */
    uint32_t longest;                   /* upper bound of the entries of a bucket; needed for a fair random choice */
};

static inline uint8_t *slot_entry(uint64_t slot)
{
    return (uint8_t *)(uintptr_t)(slot & ((1ull << TAG_SHIFT) - 1));
}

static inline uint64_t slot_of(const uint8_t *entry, uint64_t hash)
{
    uint64_t address = (uintptr_t)entry;

    CHECK(address >> TAG_SHIFT == 0);
    return address | hash >> TAG_SHIFT << TAG_SHIFT;
}

static inline struct overflow *overflow_of(const struct dict_bucket *bucket)
{
    uint64_t last = bucket->slots[DICT_BUCKET_SLOTS - 1];

    return last & OVERFLOW_MARK ? (struct overflow *)(uintptr_t)(last - OVERFLOW_MARK) : NULL;
}

static size_t overflow_size(size_t capacity)
{
    return sizeof(struct overflow) + capacity * sizeof(uint64_t);
}

/* Buckets: an unordered array of slots, numbered from 0, in the bucket and its overflow */

static inline size_t bucket_size(const struct dict_bucket *bucket)
{
    const struct overflow *overflow = overflow_of(bucket);
    size_t size = 0;

    if (overflow != NULL)
        return DICT_BUCKET_SLOTS - 1 + overflow->count;
    while (size < DICT_BUCKET_SLOTS && bucket->slots[size] != 0)
        size++;
    return size;
}

static inline uint64_t *bucket_slot(struct dict_bucket *bucket, size_t index)
{
    struct overflow *overflow = index < DICT_BUCKET_SLOTS - 1 ? NULL : overflow_of(bucket);

    return overflow != NULL ? &overflow->slots[index - (DICT_BUCKET_SLOTS - 1)] : &bucket->slots[index];
}

static void overflow_set(struct dict_bucket *bucket, struct overflow *overflow)
{
    bucket->slots[DICT_BUCKET_SLOTS - 1] = (uintptr_t)overflow | OVERFLOW_MARK;
}

static void bucket_add(struct dict_bucket *bucket, uint64_t slot)
{
    struct overflow *overflow = overflow_of(bucket);
    size_t size = bucket_size(bucket);

    if (size < DICT_BUCKET_SLOTS) {
        bucket->slots[size] = slot;
        return;
    }
    if (overflow == NULL) {
        overflow = mem_alloc(overflow_size(OVERFLOW_SLOTS_FIRST));
        overflow->count = 1;
        overflow->capacity = OVERFLOW_SLOTS_FIRST;
        overflow->slots[0] = bucket->slots[DICT_BUCKET_SLOTS - 1];
        overflow_set(bucket, overflow);
    } else if (overflow->count == overflow->capacity) {
        size_t more = overflow->capacity < 16 ? 2 : overflow->capacity / 2;

        overflow = mem_realloc(overflow, overflow_size(overflow->capacity + more));
        overflow->capacity += more;
        overflow_set(bucket, overflow);
    }
    overflow->slots[overflow->count++] = slot;
}

/* The last slot moves into the gap. */
static void bucket_cut(struct dict_bucket *bucket, size_t index)
{
    struct overflow *overflow = overflow_of(bucket);
    size_t last = bucket_size(bucket) - 1;

    *bucket_slot(bucket, index) = *bucket_slot(bucket, last);
    if (overflow == NULL) {
        bucket->slots[last] = 0;
    } else if (--overflow->count == 1) {
        bucket->slots[DICT_BUCKET_SLOTS - 1] = overflow->slots[0];
        mem_free(overflow);
    }
}

static inline struct dict_bucket *bucket_at(const struct dict *dict, size_t index)
{
    return buckets_at(&dict->buckets, index);
}

static inline struct dict_bucket *bucket_append(struct dict *dict, struct dict_bucket **other_half)
{
    void *half, *bucket = buckets_append(&dict->buckets, &half);

    *other_half = half;
    return bucket;
}

static uint64_t entry_hash(const struct dict *dict, const uint8_t *entry)
{
    return hash_bytes(&dict->seed, pair_of(entry).key);
}

static void longest_raise(struct dict *dict, const struct dict_bucket *bucket)
{
    size_t size = bucket_size(bucket);

    if (size > dict->longest)
        dict->longest = (uint32_t)size;
}

static void split_bucket(struct dict *dict)
{
    struct dict_bucket *old, *new = bucket_append(dict, &old);
    size_t size = bucket_size(old), index = dict->buckets.count - 1;

    /* All of them will be hashed, and none is likely to be in the cache. */
    for (size_t i = 0; i < size; i++)
        __builtin_prefetch(slot_entry(*bucket_slot(old, i)));
    for (size_t i = size; i-- > 0;) {
        uint64_t slot = *bucket_slot(old, i);

        if (buckets_index(&dict->buckets, entry_hash(dict, slot_entry(slot))) == index) {
            bucket_add(new, slot);
            bucket_cut(old, i);
        }
    }
}

static void merge_last_bucket(struct dict *dict)
{
    void *half;
    struct dict_bucket *from = buckets_last(&dict->buckets, &half), *to = half;

    for (size_t i = bucket_size(from); i-- > 0;) {
        bucket_add(to, *bucket_slot(from, i));
        bucket_cut(from, i);
    }
    longest_raise(dict, to);
    buckets_drop(&dict->buckets);
}

/* A single bucket is filled completely. */
static inline size_t pairs_max(const struct dict *dict)
{
    return dict->buckets.count == 1 ? DICT_BUCKET_SLOTS : (size_t)dict->buckets.count * LOAD_MAX;
}

struct dict *dict_create(const struct hash_seed *seed)
{
    struct dict *dict = mem_zalloc(sizeof(*dict));

    dict->seed = *seed;
    buckets_init(&dict->buckets);
    return dict;
}

void dict_destroy(struct dict *dict)
{
    if (dict == NULL)
        return;
    for (size_t i = 0; i < dict->buckets.count; i++) {
        struct dict_bucket *bucket = bucket_at(dict, i);
        size_t size = bucket_size(bucket);

        if (i + 1 < dict->buckets.count)
            __builtin_prefetch(bucket_at(dict, i + 1));
        for (size_t j = 0; j < size; j++)
            mem_free(slot_entry(*bucket_slot(bucket, j)));
        mem_free(overflow_of(bucket));
    }
    buckets_release(&dict->buckets);
    mem_free(dict);
}

/* Copies buckets and entries without hashing. */
struct dict *dict_copy(const struct dict *dict)
{
    struct dict *copy = dict_create(&dict->seed);
    struct dict_bucket *other_half;

    while (copy->buckets.count < dict->buckets.count)
        bucket_append(copy, &other_half);
    for (size_t i = 0; i < dict->buckets.count; i++) {
        struct dict_bucket *from = bucket_at(dict, i), *to = bucket_at(copy, i);
        size_t size = bucket_size(from);

        for (size_t j = 0; j < size; j++)
            __builtin_prefetch(slot_entry(*bucket_slot(from, j)));
        for (size_t j = 0; j < size; j++) {
            uint64_t slot = *bucket_slot(from, j);
            size_t entry_size = pair_of(slot_entry(slot)).size;
            uint8_t *entry = mem_alloc(entry_size);

            memcpy(entry, slot_entry(slot), entry_size);
            bucket_add(to, slot_of(entry, slot));
        }
    }
    copy->count = dict->count;
    copy->size = dict->size;
    copy->longest = dict->longest;
    return copy;
}

size_t dict_count(const struct dict *dict)
{
    return dict->count;
}

size_t dict_size(const struct dict *dict)
{
    return dict->size;
}

void dict_reserve(struct dict *dict, size_t count)
{
    struct dict_bucket *other_half;

    CHECK(dict->count == 0);
    while (pairs_max(dict) < count)
        bucket_append(dict, &other_half);
}

/* The slot that contains `key`, and its bucket and index; NULL if there is none. */
static uint64_t *slot_find(const struct dict *dict, struct bytes key, uint64_t hash, struct dict_bucket **bucket, size_t *index)
{
    struct overflow *overflow;
    size_t in_place = DICT_BUCKET_SLOTS;
    uint64_t tag = hash >> TAG_SHIFT;

    *bucket = bucket_at(dict, buckets_index(&dict->buckets, hash));
    overflow = overflow_of(*bucket);
    if (overflow != NULL)
        in_place--;
    for (size_t i = 0; i < in_place; i++) {
        uint64_t slot = (*bucket)->slots[i];

        if (slot >> TAG_SHIFT == tag && slot != 0 && bytes_equal_inline(pair_of(slot_entry(slot)).key, key)) {
            *index = i;
            return &(*bucket)->slots[i];
        }
    }
    for (size_t i = 0; overflow != NULL && i < overflow->count; i++) {
        uint64_t slot = overflow->slots[i];

        if (slot >> TAG_SHIFT == tag && bytes_equal_inline(pair_of(slot_entry(slot)).key, key)) {
            *index = in_place + i;
            return &overflow->slots[i];
        }
    }
    return NULL;
}

bool dict_find(const struct dict *dict, struct bytes key, struct bytes *value)
{
    struct dict_bucket *bucket;
    size_t index;
    uint64_t *slot = slot_find(dict, key, hash_bytes(&dict->seed, key), &bucket, &index);

    if (slot != NULL && value != NULL)
        *value = pair_of(slot_entry(*slot)).value;
    return slot != NULL;
}

static uint8_t *entry_create(struct bytes key, struct bytes value)
{
    uint8_t *entry = mem_alloc(pair_size(key, value));

    pair_write(entry, key, value);
    return entry;
}

/* Gives an entry another value, in place if the allocator can. */
static uint8_t *entry_change(uint8_t *entry, struct bytes value)
{
    struct pair pair = pair_of(entry);
    size_t key_at = (size_t)((const uint8_t *)pair.key.data - entry);

    if (key_at != pair_sizes_width(pair.key, value)) {
        uint8_t *changed = entry_create(pair.key, value);

        mem_free(entry);
        return changed;
    }
    if (pair.value.size != value.size) {
        entry = mem_realloc(entry, key_at + pair.key.size + value.size);
        pair_write_sizes(entry, bytes_of(entry + key_at, pair.key.size), value);
    }
    if (value.size > 0)
        memcpy(entry + key_at + pair.key.size, value.data, value.size);
    return entry;
}

bool dict_put(struct dict *dict, struct bytes key, struct bytes value)
{
    uint64_t hash = hash_bytes(&dict->seed, key);
    struct dict_bucket *bucket;
    size_t index;
    uint64_t *slot = slot_find(dict, key, hash, &bucket, &index);

    dict->size += pair_size(key, value);
    if (slot != NULL) {
        dict->size -= pair_of(slot_entry(*slot)).size;
        *slot = slot_of(entry_change(slot_entry(*slot), value), hash);
        return false;
    }
    bucket_add(bucket, slot_of(entry_create(key, value), hash));
    longest_raise(dict, bucket);
    dict->count++;
    if (dict->count > pairs_max(dict))
        split_bucket(dict);
    return true;
}

bool dict_remove(struct dict *dict, struct bytes key)
{
    struct dict_bucket *bucket;
    size_t index;
    uint64_t *slot = slot_find(dict, key, hash_bytes(&dict->seed, key), &bucket, &index);

    if (slot == NULL)
        return false;
    dict->size -= pair_of(slot_entry(*slot)).size;
    mem_free(slot_entry(*slot));
    bucket_cut(bucket, index);
    dict->count--;
    /* Two, so that a table that was reserved too large shrinks, too. */
    for (int i = 0; i < 2 && dict->buckets.count > 1 && dict->count < (size_t)dict->buckets.count * LOAD_MIN; i++)
        merge_last_bucket(dict);
    return true;
}

void dict_iterate(struct dict_iterator *iterator, const struct dict *dict)
{
    *iterator = (struct dict_iterator){ .dict = dict };
}

/* Inline: GCC drops calls of a function that only prefetches. */
static inline __attribute__((always_inline)) void bucket_prefetch(const struct dict *dict, size_t index)
{
    const struct dict_bucket *bucket = bucket_at(dict, index);

    for (size_t i = 0; i < DICT_BUCKET_SLOTS; i++)
        __builtin_prefetch(slot_entry(bucket->slots[i]));
}

bool dict_next(struct dict_iterator *iterator, struct bytes *key, struct bytes *value)
{
    const struct dict *dict = iterator->dict;

    while (iterator->bucket < dict->buckets.count) {
        struct dict_bucket *bucket = bucket_at(dict, iterator->bucket);

        if (iterator->index == 0 && iterator->bucket + 1 < dict->buckets.count)
            bucket_prefetch(dict, iterator->bucket + 1);
        if (iterator->index < bucket_size(bucket)) {
            struct pair pair = pair_of(slot_entry(*bucket_slot(bucket, iterator->index++)));

            *key = pair.key;
            *value = pair.value;
            return true;
        }
        iterator->bucket++;
        iterator->index = 0;
    }
    return false;
}

/* Draws a bucket and a position until the position is in use: in each draw every pair has the same probability. */
void dict_random(const struct dict *dict, struct random *random, struct bytes *key, struct bytes *value)
{
    CHECK(dict->count > 0);
    for (;;) {
        struct dict_bucket *bucket = bucket_at(dict, random_below(random, dict->buckets.count));
        size_t index = random_below(random, dict->longest);

        if (index < bucket_size(bucket)) {
            struct pair pair = pair_of(slot_entry(*bucket_slot(bucket, index)));

            *key = pair.key;
            *value = pair.value;
            return;
        }
    }
}

uint64_t dict_scan(const struct dict *dict, uint64_t cursor, size_t count, dict_found *found, void *context)
{
    size_t given = 0, buckets = 0;

    do {
        size_t index = buckets_index(&dict->buckets, cursor);
        struct dict_bucket *bucket = bucket_at(dict, index);
        size_t size = bucket_size(bucket);

        for (size_t i = 0; i < size; i++) {
            struct pair pair = pair_of(slot_entry(*bucket_slot(bucket, i)));

            found(context, pair.key, pair.value);
        }
        given += size;
        cursor = buckets_cursor_after(&dict->buckets, index, cursor);
    } while (cursor != 0 && given < count && ++buckets < count * 10);
    return cursor;
}

size_t dict_memory(const struct dict *dict, size_t samples)
{
    size_t seen = 0, buckets = 0, entries = 0, overflows = 0;

    for (; buckets < dict->buckets.count && (samples == 0 || seen < samples); buckets++) {
        struct dict_bucket *bucket = bucket_at(dict, buckets);
        size_t size = bucket_size(bucket);

        for (size_t i = 0; i < size; i++)
            entries += mem_size(slot_entry(*bucket_slot(bucket, i)));
        if (overflow_of(bucket) != NULL)
            overflows += mem_size(overflow_of(bucket));
        seen += size;
    }
    if (seen > 0 && seen < dict->count)
        entries = (size_t)((double)entries / (double)seen * (double)dict->count);
    if (buckets < dict->buckets.count)
        overflows = (size_t)((double)overflows / (double)buckets * dict->buckets.count);
    return mem_size(dict) + buckets_memory(&dict->buckets) + entries + overflows;
}
