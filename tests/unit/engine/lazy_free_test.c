#include "engine/lazy_free.h"

#include "support/unit.h"

#include "base/meter.h"
#include "keyspace/partition.h"
#include "value/hash.h"
#include "value/string.h"

enum { FIELDS = 500, VALUES = 50 };

static struct value make_hash(size_t fields)
{
    struct value_limits limits = { .hash_listpack_entries_max = 16, .hash_listpack_value_max = 64 };
    struct value hash = hash_create();

    for (size_t i = 0; i < fields; i++) {
        char digits[TEXT_INT_SIZE];

        hash_set(&hash, &limits, bytes_of(digits, text_of_int((int64_t)i, digits)), BYTES("value"));
    }
    return hash;
}

static struct lazy_free *create_and_start(struct meter *meter)
{
    struct lazy_free *lazy = lazy_free_create();

    assert_int_equal(lazy_free_start(lazy, meter, NULL), 0);
    return lazy;
}

/* All that was handed over is freed by the time it is destroyed; the address sanitizer would tell of what was not. */
static void what_was_handed_over_is_freed_before_the_end(void **state)
{
    struct meter *meter = meter_create();
    struct lazy_free *lazy = create_and_start(meter);

    for (int i = 0; i < VALUES; i++)
        lazy_free_value(lazy, make_hash(FIELDS));
    assert_true(lazy_free_pending(lazy) + lazy_free_done(lazy) == VALUES);
    lazy_free_destroy(lazy);
    meter_release(meter);
}

static void small_values_are_freed_at_once(void **state)
{
    struct meter *meter = meter_create();
    struct lazy_free *lazy = create_and_start(meter);

    lazy_free_value(lazy, make_hash(3));
    lazy_free_value(lazy, string_value_of_int(3));
    lazy_free_keyspace(lazy, NULL);
    assert_true(lazy_free_pending(lazy) == 0 && lazy_free_done(lazy) == 0);
    lazy_free_destroy(lazy);
    lazy_free_destroy(NULL);
    meter_release(meter);
}

static void a_keyspace_goes_with_all_its_values(void **state)
{
    struct meter *meter = meter_create();
    struct lazy_free *lazy = create_and_start(meter);
    struct partitions *all = partitions_create(1, 1, (struct key_seed){ .sip = { 1, 2 } });
    struct keyspace *old[2];

    partitions_lock_all(all);
    for (int i = 0; i < VALUES; i++) {
        char digits[TEXT_INT_SIZE];
        struct bytes name = bytes_of(digits, text_of_int(i, digits));
        struct value value = make_hash(FIELDS);

        keyspace_insert(partition_keyspace(&all->partitions[0], 0), key_hash(&all->seed, name), name, &value, -1, RECORD_NONE, 0);
    }
    partitions_flush(all, 0, old);
    partitions_unlock_all(all);
    lazy_free_keyspace(lazy, old[0]);
    lazy_free_destroy(lazy);
    assert_int_equal(segment_pool_used(all->pool), 0);
    partitions_destroy(all);
    meter_release(meter);
}

static void without_a_thread_all_is_freed_at_the_end(void **state)
{
    struct lazy_free *lazy = lazy_free_create();

    lazy_free_value(lazy, make_hash(FIELDS));
    assert_int_equal(lazy_free_pending(lazy), 1);
    lazy_free_destroy(lazy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_handed_over_is_freed_before_the_end),
        cmocka_unit_test(small_values_are_freed_at_once),
        cmocka_unit_test(without_a_thread_all_is_freed_at_the_end),
        cmocka_unit_test(a_keyspace_goes_with_all_its_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
