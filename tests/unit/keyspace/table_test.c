#include "support/unit.h"

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
    uint64_t hash = hash_bytes(&all->seed, name_of(index, digits));

    assert_int_not_equal(
        keyspace_insert(keyspace_of(all, hash), hash, name_of(index, digits), &value, -1, RECORD_NONE, 0), 0);
}

static bool has(struct partitions *all, int index)
{
    char digits[TEXT_INT_SIZE];
    uint64_t hash = hash_bytes(&all->seed, name_of(index, digits));
    const struct keyspace *keyspace = keyspace_of(all, hash);
    uint32_t handle = keyspace_find(keyspace, hash, name_of(index, digits));

    assert_int_equal(table_find_hash(&keyspace->table, hash), handle);
    return handle != 0;
}

static void take(struct partitions *all, int index)
{
    char digits[TEXT_INT_SIZE];
    uint64_t hash = hash_bytes(&all->seed, name_of(index, digits));
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
        struct partitions *all = partitions_create(partition_count, 1, (struct hash_seed){ seed, 1 });

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
    struct partitions *all = partitions_create(1, 1, (struct hash_seed){ 3, 4 });
    struct ordered *keys = mem_alloc(KEYS_MAX * sizeof(*keys));
    char digits[TEXT_INT_SIZE];

    (void)state;
    partitions_lock_all(all);
    for (int i = 0; i < KEYS_MAX; i++)
        keys[i] = (struct ordered){ hash_bytes(&all->seed, name_of(i, digits)), i };
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_may_be_added_in_the_order_of_their_hashes),
        cmocka_unit_test(a_table_shrinks_from_every_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
