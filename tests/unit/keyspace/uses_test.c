#include "keyspace/uses.h"

#include "support/unit.h"

static void touch(struct keyspace *keyspace, struct entry *entry, int times)
{
    for (int i = 0; i < times; i++)
        uses_touch(keyspace, entry);
}

static void the_use_that_creates_a_key_counts_with_the_next_one(void **state)
{
    struct keyspace keyspace = { .probation_count = 1 };
    struct entry entry = { .flags = ENTRY_PROBATION };

    assert_int_equal(uses_all(&entry), 1);
    touch(&keyspace, &entry, 1);
    assert_int_equal(entry.uses, 2);
    assert_false(entry.flags & ENTRY_PROBATION);
    assert_int_equal(keyspace.probation_count, 0);
    touch(&keyspace, &entry, 3);
    assert_int_equal(entry.uses, 5);
    assert_int_equal(uses_all(&entry), 5);
}

static void the_use_that_loads_a_key_leaves_it_on_probation(void **state)
{
    struct keyspace keyspace = { .probation_count = 1 };
    struct entry entry = { .flags = ENTRY_PROBATION | ENTRY_PINNED, .uses = 3 };

    touch(&keyspace, &entry, 2);
    assert_int_equal(entry.uses, 3);
    assert_int_equal(keyspace.probation_count, 1);
    entry.flags &= (uint8_t)~ENTRY_PINNED;
    touch(&keyspace, &entry, 1);
    assert_int_equal(entry.uses, 5);
}

static void uses_stop_at_the_maximum(void **state)
{
    struct keyspace keyspace = { .probation_count = 1 };
    struct entry entry = { .flags = ENTRY_PROBATION, .uses = USES_MAX };

    assert_int_equal(uses_all(&entry), USES_MAX);
    assert_int_equal(uses_rank(&entry), USES_RANKS - 2);
    touch(&keyspace, &entry, 20);
    assert_int_equal(entry.uses, USES_MAX);
    assert_int_equal(uses_rank(&entry), USES_RANKS - 1);
}

static void uses_take_nothing_from_the_size_of_a_value(void **state)
{
    struct keyspace keyspace = { 0 };
    struct entry entry = { .value_size = STRING_INLINE_MAX };

    touch(&keyspace, &entry, 9);
    assert_int_equal(entry.value_size, STRING_INLINE_MAX);
    assert_int_equal(entry.uses, USES_MAX);
}

static struct entry entry_of(unsigned uses, bool on_probation)
{
    return (struct entry){ .flags = on_probation ? ENTRY_PROBATION : 0, .uses = uses & USES_MAX };
}

/* A key that is read once, as by a scan or by a loop over more than fits, goes before each key that was used more often before. */
static void more_uses_are_a_higher_rank_and_probation_decides_between_equals(void **state)
{
    for (unsigned uses = 0; uses <= USES_MAX; uses++) {
        struct entry resident = entry_of(uses, false), newcomer = entry_of(uses, true);

        assert_int_equal(uses_rank(&resident) / 2, uses);
        assert_int_equal(uses_rank(&newcomer) / 2, uses);
        if (uses == 1)
            assert_true(uses_rank(&newcomer) > uses_rank(&resident));
        else
            assert_true(uses_rank(&newcomer) < uses_rank(&resident));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_use_that_creates_a_key_counts_with_the_next_one),
        cmocka_unit_test(the_use_that_loads_a_key_leaves_it_on_probation),
        cmocka_unit_test(uses_stop_at_the_maximum),
        cmocka_unit_test(uses_take_nothing_from_the_size_of_a_value),
        cmocka_unit_test(more_uses_are_a_higher_rank_and_probation_decides_between_equals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
