#include "keyspace/table.h"

#include "base/check.h"
#include "base/compiler.h"
#include "base/cpu.h"
#include "base/mem.h"

enum {
    LEAF_LINES_MIN = 2,
    LEAF_MERGE_LINES = 80,      /* a leaf with at most this number of lines is considered for merging with its buddy */
    LEAF_MERGE_KEYS = 1000,     /* two buddies with at most this number of keys become one leaf */
    DUE_MAX = (1 << 24) - 1,
    DUE_FAR_S = 90 * 24 * 3600, /* below half of 2^24 seconds */
};

/* Located in the cache line before the first bucket. */
struct leaf {
    uint32_t count;             /* keys */
    uint32_t lines;             /* cache lines, this one included */
    uint8_t spare[56];
};

_Static_assert(sizeof(struct table_bucket) == 64 && sizeof(struct leaf) == 64, "one cache line");

/* The leaf of all slots without keys, in all tables: it is never written. Its number of lines says that nothing fits in; words give it a bucket, which is empty. */
static const struct {
    _Alignas(64) struct leaf leaf;
    struct table_bucket bucket;
} empty = { .leaf = { .lines = 1 } };

static struct leaf *word_leaf(uint64_t word)
{
    return (struct leaf *)(uintptr_t)(word & 0x0000ffffffffffc0ull);
}

static struct table_bucket *leaf_buckets(struct leaf *leaf) { return (struct table_bucket *)leaf + 1; }
static uint32_t word_buckets(uint64_t word) { return (uint32_t)(word >> 48); }
static uint32_t word_depth(uint64_t word) { return word & 63; }

static uint64_t word_of(struct leaf *leaf, uint32_t depth)
{
    return (uint64_t)(uintptr_t)leaf | (uint64_t)(leaf->lines - 1) << 48 | depth;
}

static uint64_t empty_word(uint32_t depth)
{
    return (uint64_t)(uintptr_t)&empty.leaf | 1ull << 48 | depth;
}

static size_t directory_index(const struct table *table, uint64_t hash)
{
    return (size_t)((hash << table->skip >> 1) >> (63 - table->depth));
}

static uint32_t home_of(uint64_t hash, uint32_t shift, uint32_t bucket_count)
{
    return (uint32_t)(((hash << shift >> 32) * bucket_count) >> 32);
}

static uint8_t tag_of(uint64_t hash)
{
    uint8_t tag = (uint8_t)hash;

    return tag == 0 ? 1 : tag;
}

static uint64_t hash_of(const struct table *table, uint32_t handle)
{
    return name_hash(table->seed, table->incarnation, entry_key(heap_at(table->heap, handle)));
}

static inline uint32_t bucket_matches(const struct table_bucket *bucket, uint8_t tag)
{
    return cpu_match_16(bucket, tag) & 0xfff;
}

static struct leaf *leaf_create(struct table *table, uint32_t lines)
{
    struct leaf *leaf = mem_alloc_aligned(64, (size_t)lines * 64);

    memset(leaf, 0, (size_t)lines * 64);
    leaf->lines = lines;
    table->leaf_bytes += (size_t)lines * 64;
    return leaf;
}

static void leaf_destroy(struct table *table, struct leaf *leaf)
{
    if (leaf == &empty.leaf)
        return;
    table->leaf_bytes -= (size_t)leaf->lines * 64;
    mem_free(leaf);
}

void table_init(struct table *table, const struct heap *heap, const struct key_seed *seed, uint32_t incarnation, uint8_t skip, uint8_t stagger)
{
    uint8_t depth = (seed->by_slot || incarnation_is_of_pages(incarnation)) && skip < SLOT_BITS ? SLOT_BITS - skip : 0;

    *table = (struct table){ .depth = depth, .least_depth = depth, .heap = heap, .seed = seed, .incarnation = incarnation, .skip = skip, .stagger = stagger };
    table->directory = mem_alloc(sizeof(uint64_t) << depth);
    for (size_t i = 0; i < (size_t)1 << depth; i++)
        table->directory[i] = empty_word(depth);
}

void table_release(struct table *table)
{
    size_t size = (size_t)1 << table->depth;

    for (size_t i = 0; i < size;) {
        uint64_t word = table->directory[i];

        i += (size_t)1 << (table->depth - word_depth(word));
        leaf_destroy(table, word_leaf(word));
    }
    mem_free(table->directory);
    table->directory = NULL;
    table->count = 0;
}

/* `key` NULL: any with that hash. */
static inline __attribute__((always_inline)) uint32_t find(const struct table *table, uint64_t hash, const struct bytes *key)
{
    uint64_t word = table->directory[directory_index(table, hash)];
    uint32_t count = word_buckets(word);
    const struct table_bucket *buckets = leaf_buckets(word_leaf(word));
    uint32_t index = home_of(hash, table->skip + word_depth(word), count);
    uint8_t tag = tag_of(hash);

    for (uint32_t step = 0; step < count; step++) {
        const struct table_bucket *bucket = &buckets[index];
        uint32_t matches = bucket_matches(bucket, tag);

        while (matches != 0) {
            uint32_t handle = bucket->handles[__builtin_ctz(matches)];

            if (key != NULL ? bytes_equal_inline(entry_key(heap_at(table->heap, handle)), *key) : hash_of(table, handle) == hash)
                return handle;
            matches &= matches - 1;
        }
        if (LIKELY(bucket->overflow == 0))
            return 0;
        if (++index == count)
            index = 0;
    }
    return 0;
}

uint32_t table_find(const struct table *table, uint64_t hash, struct bytes key)
{
    return find(table, hash, &key);
}

uint32_t table_find_hash(const struct table *table, uint64_t hash)
{
    return find(table, hash, NULL);
}

const char *table_bucket_at(const struct table *table, uint64_t hash)
{
    uint64_t word = table->directory[directory_index(table, hash)];

    return (const char *)&leaf_buckets(word_leaf(word))[home_of(hash, table->skip + word_depth(word), word_buckets(word))];
}

const char *table_entry_at(const struct table *table, uint64_t hash)
{
    const struct table_bucket *bucket = (const struct table_bucket *)table_bucket_at(table, hash);
    uint32_t matches = bucket_matches(bucket, tag_of(hash));

    return matches == 0 ? NULL : (const char *)heap_at(table->heap, bucket->handles[__builtin_ctz(matches)]);
}

static void leaf_put(struct leaf *leaf, uint32_t shift, uint64_t hash, uint32_t handle, uint32_t due)
{
    struct table_bucket *buckets = leaf_buckets(leaf);
    uint32_t count = leaf->lines - 1;
    uint32_t index = home_of(hash, shift, count);

    for (;;) {
        struct table_bucket *bucket = &buckets[index];
        uint32_t full = bucket_matches(bucket, 0);

        if (full != 0) {
            int slot = __builtin_ctz(full);

            bucket->tags[slot] = tag_of(hash);
            bucket->handles[slot] = handle;
            if (due != 0 && (table_bucket_due(bucket) == 0 || table_due_before(due, table_bucket_due(bucket))))
                table_bucket_set_due(bucket, due);
            break;
        }
        if (bucket->overflow < 255)
            bucket->overflow++;
        if (++index == count)
            index = 0;
    }
    leaf->count++;
}

/* The number of keys allowed in a leaf with `lines` lines: 86 to 91 % of the slots, depending on the table's stagger. */
static uint32_t leaf_room(const struct table *table, uint32_t lines)
{
    uint32_t slots = (lines - 1) * TABLE_BUCKET_SLOTS;

    if (lines <= 4)         /* small ones may be full: searching a few lines costs little */
        return slots;
    return slots * (220 + table->stagger % 16) / 256;
}

/* The allocator's size classes, four per doubling, so that nothing is lost to rounding. */
static uint32_t lines_larger(uint32_t lines)
{
    uint32_t step = lines < 8 ? 1 : 1u << (29 - (uint32_t)__builtin_clz(lines));

    return lines + step;
}

/* Lines for `keys` keys and a quarter more, so that the leaf does not have to grow again soon. */
static uint32_t lines_for(const struct table *table, uint32_t keys)
{
    uint32_t lines = LEAF_LINES_MIN;

    while (leaf_room(table, lines) < keys + keys / 4)
        lines = lines_larger(lines);
    return lines;
}

/* Before a bucket's entries are hashed: they are anywhere in the heap. Inline: GCC drops calls of a function that only prefetches. */
static inline __attribute__((always_inline)) void fetch_entries(const struct table *table, const struct table_bucket *bucket)
{
    for (int slot = 0; slot < TABLE_BUCKET_SLOTS; slot++) {
        if (bucket->handles[slot] != 0)
            __builtin_prefetch(heap_at(table->heap, bucket->handles[slot]));
    }
}

static void leaf_move(const struct table *table, struct leaf *from, struct leaf *low, struct leaf *high, uint32_t shift,
    uint32_t high_shift)
{
    struct table_bucket *buckets = leaf_buckets(from);
    uint32_t count = from->lines - 1;

    for (uint32_t i = 0; i < count; i++) {
        struct table_bucket *bucket = &buckets[i];

        if (i + 1 < count)
            fetch_entries(table, &bucket[1]);
        for (int slot = 0; slot < TABLE_BUCKET_SLOTS; slot++) {
            uint32_t handle = bucket->handles[slot];
            uint64_t hash;
            uint32_t due = 0;

            if (handle == 0)
                continue;
            hash = hash_of(table, handle);
            if (heap_at(table->heap, handle)->flags & ENTRY_EXPIRES || entry_has_times(heap_at(table->heap, handle)))
                due = table_bucket_due(bucket);       /* early enough: it was the earliest of the bucket */
            if (high != NULL && (hash << (high_shift - 1) >> 63) != 0)
                leaf_put(high, high_shift, hash, handle, due);
            else
                leaf_put(low, shift, hash, handle, due);
        }
    }
}

static void directory_set_word(struct table *table, uint64_t hash, uint64_t word, uint32_t depth)
{
    size_t span = (size_t)1 << (table->depth - depth);
    size_t first = directory_index(table, hash) & ~(span - 1);

    for (size_t i = 0; i < span; i++)
        table->directory[first + i] = word;
}

static void directory_set(struct table *table, uint64_t hash, struct leaf *leaf, uint32_t depth)
{
    directory_set_word(table, hash, word_of(leaf, depth), depth);
}

/* A slot's last key is gone. Other tables keep their only leaf. */
static void leaf_become_empty(struct table *table, uint64_t hash, struct leaf *leaf)
{
    directory_set_word(table, hash, empty_word(table->least_depth), table->least_depth);
    leaf_destroy(table, leaf);
}

static void leaf_resize(struct table *table, uint64_t hash, uint64_t word, uint32_t lines)
{
    struct leaf *old = word_leaf(word);
    struct leaf *leaf = leaf_create(table, lines);

    leaf_move(table, old, leaf, NULL, table->skip + word_depth(word), 0);
    directory_set(table, hash, leaf, word_depth(word));
    leaf_destroy(table, old);
}

static void directory_double(struct table *table)
{
    size_t size = (size_t)1 << table->depth;

    table->directory = mem_realloc(table->directory, 2 * size * sizeof(uint64_t));
    for (size_t i = size; i-- > 0;)
        table->directory[2 * i] = table->directory[2 * i + 1] = table->directory[i];
    table->depth++;
}

/* The number of keys whose bit below the first `shift` - 1 is set, which belong to the upper half. Keys may be inserted
 * in hash order (for example in the order of SCAN), so they may all belong to one half. */
static uint32_t count_high(const struct table *table, struct leaf *leaf, uint32_t shift)
{
    struct table_bucket *buckets = leaf_buckets(leaf);
    uint32_t high = 0;

    for (uint32_t i = 0; i + 1 < leaf->lines; i++) {
        if (i + 2 < leaf->lines)
            fetch_entries(table, &buckets[i + 1]);
        for (int slot = 0; slot < TABLE_BUCKET_SLOTS; slot++) {
            if (buckets[i].handles[slot] != 0)
                high += (uint32_t)(hash_of(table, buckets[i].handles[slot]) << (shift - 1) >> 63);
        }
    }
    return high;
}

static void leaf_split(struct table *table, uint64_t hash, uint64_t word)
{
    struct leaf *old = word_leaf(word);
    uint32_t depth = word_depth(word) + 1;
    uint32_t high_count = count_high(table, old, table->skip + depth);
    struct leaf *low = leaf_create(table, lines_for(table, old->count - high_count));
    struct leaf *high = leaf_create(table, lines_for(table, high_count));
    uint64_t bit = 1ull << (64 - table->skip - depth);

    if (depth > table->depth)
        directory_double(table);
    leaf_move(table, old, low, high, table->skip + depth, table->skip + depth);
    directory_set(table, hash & ~bit, low, depth);
    directory_set(table, hash | bit, high, depth);
    leaf_destroy(table, old);
}

void table_insert(struct table *table, uint64_t hash, uint32_t handle)
{
    uint64_t word = table->directory[directory_index(table, hash)];
    struct leaf *leaf = word_leaf(word);

    while (leaf->count >= leaf_room(table, leaf->lines)) {      /* ensures a free slot for leaf_put */
        if (leaf->lines < TABLE_LEAF_LINES_MAX || table->skip + word_depth(word) > 40)
            leaf_resize(table, hash, word, leaf->lines < LEAF_LINES_MIN ? LEAF_LINES_MIN : lines_larger(leaf->lines));
        else
            leaf_split(table, hash, word);
        word = table->directory[directory_index(table, hash)];
        leaf = word_leaf(word);
    }
    leaf_put(leaf, table->skip + word_depth(word), hash, handle, 0);
    table->count++;
}

/* Finds the bucket and slot of a handle that is in the table. */
static struct table_bucket *find_handle(const struct table *table, uint64_t hash, uint32_t handle, int *slot)
{
    uint64_t word = table->directory[directory_index(table, hash)];
    uint32_t count = word_buckets(word);
    struct table_bucket *buckets = leaf_buckets(word_leaf(word));
    uint32_t index = home_of(hash, table->skip + word_depth(word), count);
    uint8_t tag = tag_of(hash);

    for (uint32_t step = 0; step < count; step++) {
        uint32_t matches = bucket_matches(&buckets[index], tag);

        while (matches != 0) {
            *slot = __builtin_ctz(matches);
            if (buckets[index].handles[*slot] == handle)
                return &buckets[index];
            matches &= matches - 1;
        }
        if (++index == count)
            index = 0;
    }
    CHECK(!"the handle is in the table");
    return NULL;
}

static void try_merge(struct table *table, uint64_t hash, uint64_t word)
{
    uint32_t depth = word_depth(word);
    uint64_t bit, buddy_word;
    struct leaf *merged, *leaf = word_leaf(word), *buddy;

    if (depth == table->least_depth)
        return;
    bit = 1ull << (64 - table->skip - depth);
    buddy_word = table->directory[directory_index(table, hash ^ bit)];
    buddy = word_leaf(buddy_word);
    if (word_depth(buddy_word) != depth || leaf->count + buddy->count > LEAF_MERGE_KEYS)
        return;
    merged = leaf_create(table, lines_for(table, leaf->count + buddy->count));
    leaf_move(table, leaf, merged, NULL, table->skip + depth - 1, 0);
    leaf_move(table, buddy, merged, NULL, table->skip + depth - 1, 0);
    directory_set(table, hash & ~bit, merged, depth - 1);
    leaf_destroy(table, leaf);
    leaf_destroy(table, buddy);
}

void table_remove(struct table *table, uint64_t hash, uint32_t handle)
{
    uint64_t word = table->directory[directory_index(table, hash)];
    struct leaf *leaf = word_leaf(word);
    struct table_bucket *buckets = leaf_buckets(leaf);
    uint32_t count = word_buckets(word);
    int slot;
    struct table_bucket *bucket = find_handle(table, hash, handle, &slot);

    bucket->tags[slot] = 0;
    bucket->handles[slot] = 0;
    for (uint32_t index = home_of(hash, table->skip + word_depth(word), count); &buckets[index] != bucket;
         index = index + 1 == count ? 0 : index + 1) {
        if (buckets[index].overflow < 255)
            buckets[index].overflow--;
    }
    leaf->count--;
    table->count--;
    if (leaf->count == 0 && table->least_depth > 0 && word_depth(word) == table->least_depth) {
        leaf_become_empty(table, hash, leaf);
        return;
    }
    /* Shrinks late, well below the load at which the leaf would grow again. */
    if (leaf->lines > LEAF_LINES_MIN && leaf->count < leaf_room(table, leaf->lines) / 2) {
        if (leaf->lines <= LEAF_MERGE_LINES)
            try_merge(table, hash, word);
        if (word == table->directory[directory_index(table, hash)] && lines_for(table, leaf->count) < leaf->lines)
            leaf_resize(table, hash, word, lines_for(table, leaf->count));
    }
}

void table_replace(struct table *table, uint64_t hash, uint32_t from, uint32_t to)
{
    int slot;
    struct table_bucket *bucket = find_handle(table, hash, from, &slot);

    bucket->handles[slot] = to;
}

void table_note_due(struct table *table, uint64_t hash, uint32_t handle, int64_t expire_ms, int64_t now_ms)
{
    int slot;
    struct table_bucket *bucket = find_handle(table, hash, handle, &slot);
    uint32_t due = table_due_of(expire_ms, now_ms);

    if (table_bucket_due(bucket) == 0 || table_due_before(due, table_bucket_due(bucket)))
        table_bucket_set_due(bucket, due);
}

/* The first hash whose home is bucket `index`: ceil(index * 2^32 / count), at its position below the leaf's bits. */
static uint64_t bucket_first_hash(uint64_t hash, uint32_t shift, uint32_t count, uint32_t index)
{
    uint64_t prefix = shift == 0 ? 0 : hash >> (64 - shift) << (64 - shift);
    uint64_t fraction = (((uint64_t)index << 32) + count - 1) / count;

    return prefix | (fraction << 32 >> shift);
}

static void cursor_set(const struct table *table, struct table_cursor *cursor, uint64_t hash, uint64_t word, uint32_t index)
{
    uint32_t shift = table->skip + word_depth(word);

    cursor->leaf = leaf_buckets(word_leaf(word));
    cursor->leaf_count = word_buckets(word);
    cursor->index = index;
    cursor->bucket = &cursor->leaf[index];
    cursor->first_hash = bucket_first_hash(hash, shift, cursor->leaf_count, index);
    if (index + 1 < cursor->leaf_count)
        cursor->last_hash = bucket_first_hash(hash, shift, cursor->leaf_count, index + 1) - 1;
    else
        cursor->last_hash = hash | (shift == 0 ? ~0ull : ~0ull >> shift);
}

bool table_seek(const struct table *table, uint64_t hash, struct table_cursor *cursor)
{
    uint64_t word = table->directory[directory_index(table, hash)];

    if (table->count == 0)
        return false;
    cursor_set(table, cursor, hash, word, home_of(hash, table->skip + word_depth(word), word_buckets(word)));
    return true;
}

bool table_next(const struct table *table, struct table_cursor *cursor)
{
    uint64_t next = cursor->last_hash + 1;

    if (next == 0 || (table->skip > 0 && next >> (64 - table->skip) != cursor->last_hash >> (64 - table->skip)))
        return false;
    return table_seek(table, next, cursor);
}

void table_home_wanted(const struct table *table, const struct table_cursor *cursor, table_wanted *wanted, table_found *found, void *context)
{
    uint32_t index = cursor->index;

    for (uint32_t step = 0; step < cursor->leaf_count; step++) {
        const struct table_bucket *bucket = &cursor->leaf[index];

        for (int slot = 0; slot < TABLE_BUCKET_SLOTS; slot++) {
            uint64_t hash;

            if (bucket->handles[slot] == 0 || !wanted(context, bucket->handles[slot]))
                continue;
            hash = hash_of(table, bucket->handles[slot]);
            if (hash >= cursor->first_hash && hash <= cursor->last_hash)
                found(context, hash, bucket->handles[slot]);
        }
        if (bucket->overflow == 0)
            return;
        if (++index == cursor->leaf_count)
            index = 0;
    }
}

static bool accept_all(void *context, uint32_t handle)
{
    (void)context;
    (void)handle;
    return true;
}

void table_home_entries(const struct table *table, const struct table_cursor *cursor, table_found *found, void *context)
{
    table_home_wanted(table, cursor, accept_all, found, context);
}

size_t table_size(const struct table *table)
{
    return table->leaf_bytes + (sizeof(uint64_t) << table->depth);
}

uint32_t table_bucket_due(const struct table_bucket *bucket)
{
    return bucket->due[0] | (uint32_t)bucket->due[1] << 8 | (uint32_t)bucket->due[2] << 16;
}

void table_bucket_set_due(struct table_bucket *bucket, uint32_t due)
{
    bucket->due[0] = (uint8_t)due;
    bucket->due[1] = (uint8_t)(due >> 8);
    bucket->due[2] = (uint8_t)(due >> 16);
}

uint32_t table_due_of(int64_t expire_ms, int64_t now_ms)
{
    int64_t second = expire_ms / 1000, now = now_ms / 1000;
    uint32_t due;

    if (second > now + DUE_FAR_S)
        second = now + DUE_FAR_S;
    if (second < now)       /* due at once is early enough; the distance from far past to far future could not be compared */
        second = now;
    due = (uint32_t)(second & DUE_MAX);
    return due == 0 ? DUE_MAX : due;        /* one second early */
}

bool table_due_before(uint32_t a, uint32_t b)
{
    return ((a - b) & DUE_MAX) > DUE_MAX / 2;
}

void table_verify(const struct table *table)
{
    size_t size = (size_t)1 << table->depth;
    uint64_t total = 0;

    for (size_t i = 0; i < size;) {
        uint64_t word = table->directory[i];
        size_t span = (size_t)1 << (table->depth - word_depth(word));
        struct leaf *leaf = word_leaf(word);
        struct table_bucket *buckets = leaf_buckets(leaf);
        uint32_t in_leaf = 0;

        CHECK(word_buckets(word) == (leaf == &empty.leaf ? 1 : leaf->lines - 1) && word_depth(word) >= table->least_depth);
        for (size_t j = 0; j < span; j++)
            CHECK(table->directory[i + j] == word);
        for (uint32_t b = 0; b < leaf->lines - 1; b++) {
            for (int slot = 0; slot < TABLE_BUCKET_SLOTS; slot++) {
                uint32_t handle = buckets[b].handles[slot];
                uint64_t hash;

                CHECK((handle == 0) == (buckets[b].tags[slot] == 0));
                if (handle == 0)
                    continue;
                hash = hash_of(table, handle);
                in_leaf++;
                CHECK(buckets[b].tags[slot] == tag_of(hash));
                CHECK(directory_index(table, hash) >= i && directory_index(table, hash) < i + span);
                for (uint32_t index = home_of(hash, table->skip + word_depth(word), leaf->lines - 1); index != b;
                     index = index + 1 == leaf->lines - 1 ? 0 : index + 1)
                    CHECK(buckets[index].overflow > 0);
                if (entry_due_ms(heap_at(table->heap, handle)) >= 0)
                    CHECK(table_bucket_due(&buckets[b]) != 0);
            }
        }
        CHECK(in_leaf == leaf->count);
        total += in_leaf;
        i += span;
    }
    CHECK(total == table->count);
}
