/* The index of the members: linear hashing (buckets.h) over slots of four bytes.
 *
 *   slot   = 7 bits of the hash << 24 | id of the leaf; 0: empty
 *   bucket = 16 slots, used from the left. If there are more entries, the last two slots are the address of a struct overflow
 *            with the highest bit set. It then contains at least three, and the bucket itself 14.
 *
 * A slot does not say to which element of its leaf it belongs. Two equal slots stand for two elements, and which
 * belongs to which does not matter: removing or changing either of them has the same result. Where the elements
 * themselves are needed (a bucket that splits, a scan), those elements of the leaf that have the slot's 7 bits are
 * hashed.
 */
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "containers/btree_private.h"

enum {
    SLOTS = BUCKET_SIZE / sizeof(uint32_t),
    SLOTS_WITH_OVERFLOW = SLOTS - 2,
    OVERFLOW_FIRST = 3,             /* with the counts 16 bytes; grows in steps of 4 */
    ID_BITS = 24,
    TAG_BITS = 7,
    /* Average number of entries per bucket: 64 bytes divided by the load, plus overflows; 10 to 13 are about equally
     * good. */
    LOAD_MAX = 11,
    LOAD_MIN = 7,
};

#define OVERFLOW_MARK (UINT64_C(1) << 63)

struct index_bucket {
    uint32_t slots[SLOTS];
};

_Static_assert(sizeof(struct index_bucket) == BUCKET_SIZE, "the size of a bucket in buckets.h");

struct overflow {
    uint16_t count, capacity;
    uint32_t slots[];
};

static inline uint32_t slot_of(uint64_t hash, uint32_t leaf)
{
    return (uint32_t)(hash >> (64 - TAG_BITS)) << ID_BITS | leaf;
}

static inline struct overflow *overflow_of(const struct index_bucket *bucket)
{
    uint64_t address;

    memcpy(&address, &bucket->slots[SLOTS_WITH_OVERFLOW], sizeof(address));
    return address & OVERFLOW_MARK ? (struct overflow *)(uintptr_t)(address & ~OVERFLOW_MARK) : NULL;
}

static void overflow_set(struct index_bucket *bucket, const struct overflow *overflow)
{
    uint64_t address = (uintptr_t)overflow | OVERFLOW_MARK;

    memcpy(&bucket->slots[SLOTS_WITH_OVERFLOW], &address, sizeof(address));
}

static inline size_t bucket_count(const struct index_bucket *bucket, const struct overflow *overflow)
{
    size_t count = 0;

    if (overflow != NULL)
        return SLOTS_WITH_OVERFLOW + overflow->count;
    while (count < SLOTS && bucket->slots[count] != 0)
        count++;
    return count;
}

static inline uint32_t *bucket_slot(struct index_bucket *bucket, struct overflow *overflow, size_t index)
{
    return overflow != NULL && index >= SLOTS_WITH_OVERFLOW ? &overflow->slots[index - SLOTS_WITH_OVERFLOW]
                                                            : &bucket->slots[index];
}

static struct overflow *overflow_resize(struct overflow *overflow, size_t capacity)
{
    CHECK(capacity <= UINT16_MAX);      /* some hundred times the average, which the keyed hash makes impossible */
    overflow = mem_realloc(overflow, sizeof(*overflow) + capacity * sizeof(uint32_t));
    overflow->capacity = (uint16_t)capacity;
    return overflow;
}

static void bucket_add(struct index_bucket *bucket, uint32_t slot)
{
    struct overflow *overflow = overflow_of(bucket);
    size_t count = bucket_count(bucket, overflow);

    if (count < SLOTS) {
        bucket->slots[count] = slot;
        return;
    }
    if (overflow == NULL) {
        overflow = overflow_resize(NULL, OVERFLOW_FIRST);
        overflow->count = 2;
        memcpy(overflow->slots, &bucket->slots[SLOTS_WITH_OVERFLOW], 2 * sizeof(uint32_t));
        overflow_set(bucket, overflow);
    } else if (overflow->count == overflow->capacity) {
        overflow = overflow_resize(overflow, (size_t)overflow->capacity + 4);
        overflow_set(bucket, overflow);
    }
    overflow->slots[overflow->count++] = slot;
}

/* The last slot moves into the gap. */
static void bucket_cut(struct index_bucket *bucket, uint32_t slot)
{
    struct overflow *overflow = overflow_of(bucket);
    size_t count = bucket_count(bucket, overflow), index = 0;

    while (index < count && *bucket_slot(bucket, overflow, index) != slot)
        index++;
    CHECK(index < count);
    *bucket_slot(bucket, overflow, index) = *bucket_slot(bucket, overflow, count - 1);
    if (overflow == NULL) {
        bucket->slots[count - 1] = 0;
    } else if (--overflow->count == 2) {
        memcpy(&bucket->slots[SLOTS_WITH_OVERFLOW], overflow->slots, 2 * sizeof(uint32_t));
        mem_free(overflow);
    } else if (overflow->capacity - overflow->count >= 8) {
        overflow_set(bucket, overflow_resize(overflow, (size_t)overflow->capacity - 4));
    }
}

/* Calls `found` for all elements of a bucket, each once, with the element's hash: a slot value is looked up in its leaf
 * where it occurs first. */
typedef void element_found(void *context, uint64_t hash, uint32_t leaf, size_t slot);

static bool seen_before(struct index_bucket *bucket, struct overflow *overflow, size_t index)
{
    uint32_t slot = *bucket_slot(bucket, overflow, index);

    for (size_t i = 0; i < index; i++) {
        if (*bucket_slot(bucket, overflow, i) == slot)
            return true;
    }
    return false;
}

static void each_element(const struct btree *tree, const struct buckets *buckets, size_t bucket_index, struct index_bucket *bucket,
    element_found *found, void *context)
{
    struct overflow *overflow = overflow_of(bucket);
    size_t count = bucket_count(bucket, overflow), elements = 0;

    for (size_t i = 0; i < count; i++)
        __builtin_prefetch(leaf_at(tree, *bucket_slot(bucket, overflow, i) & NODE_ID_MAX));
    for (size_t i = 0; i < count; i++) {
        uint32_t slot = *bucket_slot(bucket, overflow, i), id = slot & NODE_ID_MAX;
        const struct leaf *leaf = leaf_at(tree, id);
        const uint8_t *tags = leaf_tags(leaf);

        if (seen_before(bucket, overflow, i))
            continue;
        for (size_t place = 0; place < leaf->count; place++) {
            uint64_t hash;

            if (tags[place] >> 1 != slot >> ID_BITS)
                continue;
            hash = hash_bytes(&tree->seed, leaf_member(leaf, place));
            if (buckets_index(buckets, hash) == bucket_index) {
                found(context, hash, id, place);
                elements++;
            }
        }
    }
    CHECK(elements == count);
}

void index_init(struct index *index)
{
    index->count = 0;
    buckets_init(&index->buckets);
}

void index_reserve(struct index *index, size_t count)
{
    void *half;

    CHECK(index->count == 0);
    while ((size_t)index->buckets.count * LOAD_MAX < count)
        buckets_append(&index->buckets, &half);         /* there is nothing to move there yet */
}

void index_release(struct index *index)
{
    for (size_t i = 0; i < index->buckets.count; i++)
        mem_free(overflow_of(buckets_at(&index->buckets, i)));
    buckets_release(&index->buckets);
}

void index_copy(struct index *to, const struct index *from)
{
    void *half;

    index_init(to);
    while (to->buckets.count < from->buckets.count)
        buckets_append(&to->buckets, &half);
    for (size_t i = 0; i < from->buckets.count; i++) {
        struct index_bucket *bucket = buckets_at(&to->buckets, i);
        const struct overflow *overflow;

        *bucket = *(const struct index_bucket *)buckets_at(&from->buckets, i);
        overflow = overflow_of(bucket);
        if (overflow != NULL) {
            size_t size = sizeof(*overflow) + overflow->capacity * sizeof(uint32_t);
            struct overflow *copy = mem_alloc(size);

            memcpy(copy, overflow, size);
            overflow_set(bucket, copy);
        }
    }
    to->count = from->count;
}

/* A bucket that splits: the slots that stay, and those that move to the new bucket. */
struct splitting {
    const struct buckets *buckets;
    size_t new_index;
    uint32_t *stay, *go;
    size_t stay_count, go_count;
};

static void sort_out(void *context, uint64_t hash, uint32_t leaf, size_t slot)
{
    struct splitting *splitting = context;

    (void)slot;
    if (buckets_index(splitting->buckets, hash) == splitting->new_index)
        splitting->go[splitting->go_count++] = slot_of(hash, leaf);
    else
        splitting->stay[splitting->stay_count++] = slot_of(hash, leaf);
}

/* The elements are those of the bucket before the new one existed: each_element gets the array as it was. */
static void split_bucket(struct btree *tree)
{
    struct index *index = &tree->index;
    struct buckets before;
    void *half;
    struct index_bucket *new = buckets_append(&index->buckets, &half), *old = half;
    struct overflow *overflow = overflow_of(old);
    size_t count = bucket_count(old, overflow), old_index;
    uint32_t few[64], *slots = 2 * count > 64 ? mem_alloc(2 * count * sizeof(uint32_t)) : few;
    struct splitting splitting = { .buckets = &index->buckets, .new_index = index->buckets.count - 1, .stay = slots,
                                   .go = slots + count };

    before = index->buckets;
    before.count--;
    old_index = buckets_index(&before, splitting.new_index);
    each_element(tree, &before, old_index, old, sort_out, &splitting);
    mem_free(overflow);
    memset(old, 0, sizeof(*old));
    for (size_t i = 0; i < splitting.stay_count; i++)
        bucket_add(old, splitting.stay[i]);
    for (size_t i = 0; i < splitting.go_count; i++)
        bucket_add(new, splitting.go[i]);
    if (slots != few)
        mem_free(slots);
}

static void merge_last_bucket(struct index *index)
{
    void *half;
    struct index_bucket *from = buckets_last(&index->buckets, &half), *to = half;
    struct overflow *overflow = overflow_of(from);
    size_t count = bucket_count(from, overflow);

    for (size_t i = 0; i < count; i++)
        bucket_add(to, *bucket_slot(from, overflow, i));
    mem_free(overflow);
    buckets_drop(&index->buckets);
}

void index_add(struct btree *tree, uint64_t hash, uint32_t leaf)
{
    struct index *index = &tree->index;
    size_t room = index->buckets.count == 1 ? SLOTS : (size_t)index->buckets.count * LOAD_MAX;

    bucket_add(buckets_at(&index->buckets, buckets_index(&index->buckets, hash)), slot_of(hash, leaf));
    if (++index->count > room)
        split_bucket(tree);
}

void index_remove(struct btree *tree, uint64_t hash, uint32_t leaf)
{
    struct index *index = &tree->index;

    bucket_cut(buckets_at(&index->buckets, buckets_index(&index->buckets, hash)), slot_of(hash, leaf));
    index->count--;
    if (index->buckets.count > 1 && index->count < (size_t)index->buckets.count * LOAD_MIN)
        merge_last_bucket(index);
}

/* Two passes, so that buckets are prefetched while the next members are hashed. */
void index_moved(struct btree *tree, uint32_t from, uint32_t to, size_t from_slot)
{
    const struct leaf *leaf = leaf_at(tree, to);
    const struct buckets *buckets = &tree->index.buckets;
    uint64_t hashes[LEAF_SIZE_MAX / ELEMENT_SIZE];

    for (size_t i = from_slot; i < leaf->count; i++) {
        hashes[i] = hash_bytes(&tree->seed, leaf_member(leaf, i));
        __builtin_prefetch(buckets_at(buckets, buckets_index(buckets, hashes[i])));
    }
    for (size_t i = from_slot; i < leaf->count; i++) {
        struct index_bucket *bucket = buckets_at(buckets, buckets_index(buckets, hashes[i]));
        struct overflow *overflow = overflow_of(bucket);
        size_t count = bucket_count(bucket, overflow), entry = 0;
        uint32_t old = slot_of(hashes[i], from);

        while (entry < count && *bucket_slot(bucket, overflow, entry) != old)
            entry++;
        CHECK(entry < count);
        *bucket_slot(bucket, overflow, entry) = slot_of(hashes[i], to);
    }
}

static bool find_in_leaf(const struct leaf *leaf, uint64_t hash, struct bytes member, uint32_t *found)
{
    const uint8_t *tags = leaf_tags(leaf), *end = tags + leaf->count, *at = tags;

    while (at < end && (at = memchr(at, (int)(hash >> TAG_SHIFT), (size_t)(end - at))) != NULL) {
        if (bytes_equal(leaf_member(leaf, (size_t)(at - tags)), member)) {
            *found = (uint32_t)(at - tags);
            return true;
        }
        at++;
    }
    return false;
}

bool index_find(const struct btree *tree, uint64_t hash, struct bytes member, struct btree_place *place)
{
    const struct buckets *buckets = &tree->index.buckets;
    struct index_bucket *bucket = buckets_at(buckets, buckets_index(buckets, hash));
    struct overflow *overflow = overflow_of(bucket);
    size_t count = bucket_count(bucket, overflow);

    for (size_t i = 0; i < count; i++) {
        uint32_t slot = *bucket_slot(bucket, overflow, i);

        place->leaf = slot & NODE_ID_MAX;
        if (slot >> ID_BITS == hash >> (64 - TAG_BITS) &&
            find_in_leaf(leaf_at(tree, place->leaf), hash, member, &place->slot))
            return true;
    }
    return false;
}

struct scanning {
    const struct btree *tree;
    btree_found *found;
    void *context;
    size_t found_count;
};

static void scan_found(void *context, uint64_t hash, uint32_t leaf, size_t slot)
{
    struct scanning *scanning = context;
    const struct leaf *node = leaf_at(scanning->tree, leaf);

    (void)hash;
    scanning->found(scanning->context, leaf_member(node, slot), leaf_scores(node)[slot]);
    scanning->found_count++;
}

uint64_t btree_scan(const struct btree *tree, uint64_t cursor, size_t count, btree_found *found, void *context)
{
    const struct buckets *buckets = &tree->index.buckets;
    struct scanning scanning = { tree, found, context, 0 };
    size_t steps = 0;

    do {
        size_t index = buckets_index(buckets, cursor);

        each_element(tree, buckets, index, buckets_at(buckets, index), scan_found, &scanning);
        cursor = buckets_cursor_after(buckets, index, cursor);
    } while (cursor != 0 && scanning.found_count < count && ++steps < count * 10);
    return cursor;
}

size_t index_memory(const struct index *index, size_t samples)
{
    size_t overflows = 0, seen = 0, step = 1;

    if (samples != 0 && index->buckets.count > samples)
        step = index->buckets.count / samples;
    for (size_t i = 0; i < index->buckets.count; i += step, seen++) {
        const struct overflow *overflow = overflow_of(buckets_at(&index->buckets, i));

        overflows += overflow != NULL ? mem_size(overflow) : 0;
    }
    if (step > 1)
        overflows = (size_t)((double)overflows / (double)seen * index->buckets.count);
    return buckets_memory(&index->buckets) + overflows;
}

static void ignore_element(void *context, uint64_t hash, uint32_t leaf, size_t slot)
{
    (void)context, (void)hash, (void)leaf, (void)slot;
}

void index_verify(const struct btree *tree)
{
    size_t count = 0;

    for (size_t i = 0; i < tree->index.buckets.count; i++) {
        struct index_bucket *bucket = buckets_at(&tree->index.buckets, i);

        count += bucket_count(bucket, overflow_of(bucket));
        each_element(tree, &tree->index.buckets, i, bucket, ignore_element, NULL);
    }
    CHECK(count == tree->index.count && count == tree->count);
}
