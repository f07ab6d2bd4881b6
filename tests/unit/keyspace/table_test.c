#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/random.h"
#include "keyspace/partition.h"
#include "support/seed.h"
#include "value/string.h"

enum { KEYS_MAX = 20000 };

static struct bytes name_of(int index, char digits[TEXT_INT_SIZE])
{
    return bytes_of(digits, text_of_int(index, digits));
}

static struct keyspace *keyspace_of(struct partitions *all, uint64_t hash)
{
    return partition_keyspace(&all->partitions[partition_index(all, hash)], 0);
}

static void add(struct partitions *all, int index)
{
    struct value value = string_value_of_int(index);
    char digits[TEXT_INT_SIZE];
    uint64_t hash = key_hash(&all->seed, name_of(index, digits));

    assert_int_not_equal(
        keyspace_insert(keyspace_of(all, hash), hash, name_of(index, digits), &value, -1, RECORD_NONE, 0), 0);
}

static bool has(struct partitions *all, int index)
{
    char digits[TEXT_INT_SIZE];
    uint64_t hash = key_hash(&all->seed, name_of(index, digits));
    const struct keyspace *keyspace = keyspace_of(all, hash);
    uint32_t handle = keyspace_find(keyspace, hash, name_of(index, digits));

    assert_int_equal(table_find_hash(&keyspace->table, hash), handle);
    return handle != 0;
}

static void take(struct partitions *all, int index)
{
    char digits[TEXT_INT_SIZE];
    uint64_t hash = key_hash(&all->seed, name_of(index, digits));
    struct keyspace *keyspace = keyspace_of(all, hash);
    struct value value;

    keyspace_remove(keyspace, hash, keyspace_find(keyspace, hash, name_of(index, digits)), &value);
}

static void verify(struct partitions *all)
{
    for (uint32_t i = 0; i < all->count; i++)
        keyspace_verify(partition_keyspace(&all->partitions[i], 0));
}

/* Adds `count` keys and removes them again, each in a random order. */
static void grow_and_shrink(struct partitions *all, int count, struct random *random)
{
    int *order = mem_alloc((size_t)count * sizeof(int));

    for (int i = 0; i < count; i++) {
        add(all, i);
        order[i] = i;
    }
    verify(all);
    for (int left = count; left > 0; left--) {
        int chosen = (int)random_below(random, (uint64_t)left), index = order[chosen];

        assert_true(has(all, index));
        take(all, index);
        assert_false(has(all, index));
        order[chosen] = order[left - 1];
        if (count < 500)
            verify(all);
    }
    verify(all);
    mem_free(order);
}

static void a_table_shrinks_from_every_size(void **state)
{
    struct random random;
    uint64_t seed = seed_new();

    random_init(&random, seed);
    /* The partition's index varies the load at which leaves grow. */
    for (uint32_t partition_count = 1; partition_count <= 16; partition_count *= 16) {
        struct partitions *all = partitions_create(partition_count, 1, (struct key_seed){ .sip = { seed, 1 } });

        partitions_lock_all(all);
        for (int count = 1; count < 200; count++)
            grow_and_shrink(all, count, &random);
        grow_and_shrink(all, 499, &random);
        grow_and_shrink(all, KEYS_MAX, &random);
        partitions_unlock_all(all);
        partitions_destroy(all);
    }
}

struct ordered {
    uint64_t hash;
    int index;
};

static int by_hash(const void *a, const void *b)
{
    uint64_t x = ((const struct ordered *)a)->hash, y = ((const struct ordered *)b)->hash;

    return (x > y) - (x < y);
}

/* For example, a client reads all keys in the order of SCAN, and they are loaded from the store in the order of their hashes. */
static void keys_may_be_added_in_the_order_of_their_hashes(void **state)
{
    struct partitions *all = partitions_create(1, 1, (struct key_seed){ .sip = { 3, 4 } });
    struct ordered *keys = mem_alloc(KEYS_MAX * sizeof(*keys));
    char digits[TEXT_INT_SIZE];

    (void)state;
    partitions_lock_all(all);
    for (int i = 0; i < KEYS_MAX; i++)
        keys[i] = (struct ordered){ key_hash(&all->seed, name_of(i, digits)), i };
    qsort(keys, KEYS_MAX, sizeof(*keys), by_hash);
    for (int i = 0; i < KEYS_MAX; i++)
        add(all, keys[i].index);
    verify(all);
    for (int i = 0; i < KEYS_MAX; i++)
        assert_true(has(all, i));
    for (int i = KEYS_MAX; i-- > 0;)
        take(all, keys[i].index);
    verify(all);
    partitions_unlock_all(all);
    partitions_destroy(all);
    mem_free(keys);
}

/* --- hashes by slot --- */

enum {
    CROWD = 100000,             /* keys of one slot */
    OTHERS = 20000,             /* keys of all others, of which a part is in slots with some hundred */
    PLACES = CROWD + OTHERS,
};

/* Key `index`; those with the same tag are in one slot. */
static struct bytes slotted_name(int index, char text[32])
{
    if (index < CROWD)
        return bytes_of(text, (size_t)sprintf(text, "{crowd}%d", index));
    return bytes_of(text, (size_t)sprintf(text, index % 2 ? "other:%d" : "{%d}%d", index % 2 ? index : index % 20, index));
}

struct slotted {
    struct partitions *all;
    bool *has;                  /* by index: the oracle */
    uint32_t *counts;           /* by slot */
};

static void slotted_set(struct slotted *slotted, int index, bool on)
{
    char text[32];
    struct bytes name = slotted_name(index, text);
    uint64_t hash = key_hash(&slotted->all->seed, name);
    struct keyspace *keyspace = keyspace_of(slotted->all, hash);
    struct value value = string_value_of_int(index);
    uint32_t handle = keyspace_find(keyspace, hash, name);

    assert_int_equal(handle != 0, slotted->has[index]);
    if (on == slotted->has[index])
        return;
    if (on)
        assert_int_not_equal(keyspace_insert(keyspace, hash, name, &value, -1, RECORD_NONE, 0), 0);
    else
        keyspace_remove(keyspace, hash, handle, &value);
    slotted->has[index] = on;
    slotted->counts[slot_of_key(name)] += on ? 1 : (uint32_t)-1;
}

struct met {
    uint64_t from, until;       /* the hashes that may come */
    uint32_t count;
};

static void meet(void *context, uint64_t hash, uint32_t handle)
{
    struct met *met = context;

    (void)handle;
    assert_true(hash >= met->from && hash <= met->until);
    met->count++;
}

/* Each slot's buckets are next to each other, in the order of hashes, and have the slot's keys and no others. */
static void slotted_verify(struct slotted *slotted)
{
    for (uint32_t i = 0; i < slotted->all->count; i++)
        keyspace_verify(partition_keyspace(&slotted->all->partitions[i], 0));
    for (uint32_t slot = 0; slot < SLOT_COUNT; slot++) {
        uint64_t next = slot_first_hash((uint16_t)slot), last = slot_last_hash((uint16_t)slot);
        const struct table *table = &keyspace_of(slotted->all, next)->table;
        struct table_cursor cursor;
        uint32_t count = 0;

        for (bool more = table_seek(table, next, &cursor); more; more = cursor.last_hash < last && table_next(table, &cursor)) {
            struct met met = { cursor.first_hash, cursor.last_hash, 0 };

            assert_int_equal(cursor.first_hash, next);
            assert_true(cursor.last_hash <= last);
            table_home_entries(table, &cursor, meet, &met);
            assert_true(met.count == 0 || !table_bucket_is_unused(cursor.bucket));
            count += met.count;
            next = cursor.last_hash + 1;
        }
        if (count != slotted->counts[slot])
            fail_msg("slot %u: %u keys instead of %u", slot, count, slotted->counts[slot]);
    }
}

/* Bytes of leaves: directories do not shrink. */
static size_t slotted_memory(const struct slotted *slotted)
{
    size_t size = 0;

    for (uint32_t i = 0; i < slotted->all->count; i++) {
        partition_assert_locked(&slotted->all->partitions[i]);
        size += partition_keyspace(&slotted->all->partitions[i], 0)->table.leaf_bytes;
    }
    return size;
}

static void a_leaf_has_keys_of_one_slot(void **state)
{
    static const uint32_t partition_counts[] = { 1, 64, 4096 };
    struct random random;
    uint64_t seed = seed_new();

    (void)state;
    random_init(&random, seed);
    for (int i = 0; i < 3; i++) {
        struct slotted slotted = { partitions_create(partition_counts[i], 1, (struct key_seed){ { seed, 1 }, true }), mem_zalloc(PLACES),
            mem_zalloc(SLOT_COUNT * sizeof(uint32_t)) };
        size_t empty;

        partitions_lock_all(slotted.all);
        empty = slotted_memory(&slotted);
        assert_int_equal(empty, 0);                      /* no slot has a leaf yet */
        for (int step = 0; step < 2 * PLACES; step++) {
            slotted_set(&slotted, (int)random_below(&random, PLACES), true);
            if (step % 8 == 0)
                slotted_set(&slotted, (int)random_below(&random, PLACES), false);
            if (step == PLACES / 2)
                slotted_verify(&slotted);
        }
        for (int index = 0; index < CROWD; index++)     /* the crowd in order, so that its leaves split and merge at their edges, too */
            slotted_set(&slotted, index, true);
        slotted_verify(&slotted);
        for (int index = 0; index < CROWD; index++)
            slotted_set(&slotted, index, false);
        slotted_verify(&slotted);
        assert_int_equal(slotted.counts[slot_of_key(BYTES("{crowd}"))], 0);
        for (int left = OTHERS; left > 0; left--)
            slotted_set(&slotted, CROWD + left - 1, false);
        slotted_verify(&slotted);
        assert_int_equal(slotted_memory(&slotted), empty);
        partitions_unlock_all(slotted.all);
        partitions_destroy(slotted.all);
        mem_free(slotted.has);
        mem_free(slotted.counts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_may_be_added_in_the_order_of_their_hashes),
        cmocka_unit_test(a_table_shrinks_from_every_size),
        cmocka_unit_test(a_leaf_has_keys_of_one_slot),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
