#include "support/unit.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/random.h"
#include "containers/intset.h"

static void an_empty_set_has_no_members(void **state)
{
    struct intset *set = intset_create();

    assert_int_equal(intset_count(set), 0);
    assert_false(intset_has(set, 0));
    assert_false(intset_remove(&set, 0));
    assert_false(intset_remove(&set, INT64_MAX));
    assert_true(bytes_equal(intset_bytes(set), bytes_of("\x02\0\0\0\0\0\0\0", 8)));
    intset_destroy(set);
    intset_destroy(NULL);
}

/* Generated with redis-server 7.0.15. */
static void the_bytes_are_those_of_redis(void **state)
{
    struct intset *set = intset_create();

    assert_true(intset_add(&set, 1));
    assert_true(intset_add(&set, 2));
    assert_true(intset_add(&set, -5));
    assert_true(bytes_equal(intset_bytes(set), bytes_of("\x02\0\0\0\x03\0\0\0\xfb\xff\x01\0\x02\0", 14)));
    assert_true(intset_remove(&set, 2));
    assert_true(intset_remove(&set, -5));
    assert_true(intset_add(&set, 70000));
    assert_true(bytes_equal(intset_bytes(set), bytes_of("\x04\0\0\0\x02\0\0\0\x01\0\0\0p\x11\x01\0", 16)));
    assert_true(intset_remove(&set, 70000));
    assert_true(intset_add(&set, 5000000000));
    assert_true(bytes_equal(intset_bytes(set),
        bytes_of("\x08\0\0\0\x02\0\0\0\x01\0\0\0\0\0\0\0\0\xf2\x05*\x01\0\0\0", 24)));
    intset_destroy(set);
}

static void numbers_at_the_limits_of_a_width_are_found(void **state)
{
    static const int64_t numbers[] = { INT64_MIN, (int64_t)INT32_MIN - 1, INT32_MIN, INT16_MIN - 1, INT16_MIN, -1, 0, 1, INT16_MAX,
        INT16_MAX + 1, INT32_MAX, (int64_t)INT32_MAX + 1, INT64_MAX };
    enum { COUNT = sizeof(numbers) / sizeof(numbers[0]) };

    /* Starting with each number, so that each one widens the set or does not. */
    for (size_t first = 0; first < COUNT; first++) {
        for (size_t step = 1; step < COUNT; step++) {       /* COUNT is a prime: with every step each number is reached */
            struct intset *set = intset_create();

            for (size_t i = 0; i < COUNT; i++) {
                assert_false(intset_has(set, numbers[(first + i * step) % COUNT]));
                assert_true(intset_add(&set, numbers[(first + i * step) % COUNT]));
                assert_false(intset_add(&set, numbers[(first + i * step) % COUNT]));
                assert_true(intset_is_valid(intset_bytes(set)));
            }
            for (size_t i = 0; i < COUNT; i++) {
                assert_int_equal(intset_get(set, i), numbers[i]);
                assert_true(intset_has(set, numbers[i]));
            }
            intset_destroy(set);
        }
    }
}

enum { NUMBERS = 200 };

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void random_changes_match_a_plain_array(void **state)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct intset *set = intset_create(), *copy;
        int64_t numbers[NUMBERS], there[NUMBERS];
        bool is_there[NUMBERS] = { false };
        size_t count = 0;
        struct random random;

        random_init(&random, seed);
        for (int64_t i = 0; i < NUMBERS; i++)       /* different ones, of all widths */
            numbers[i] = (int64_t)((random_next(&random) & ~255ull) | (uint64_t)i) >> (8 * random_below(&random, 8));
        for (size_t i = 1; i < NUMBERS; i++) {
            for (size_t j = 0; j < i; j++) {
                if (numbers[j] == numbers[i])
                    numbers[i] = INT32_MAX + (int64_t)i * 3 + (int64_t)seed * 1000;
            }
        }
        for (int step = 0; step < 1000; step++) {
            size_t i = random_below(&random, seed % 2 ? NUMBERS : 20);

            if (random_below(&random, 2)) {
                assert_int_equal(intset_add(&set, numbers[i]), !is_there[i]);
                is_there[i] = true;
            } else {
                assert_int_equal(intset_remove(&set, numbers[i]), is_there[i]);
                is_there[i] = false;
            }
        }
        for (size_t i = 0; i < NUMBERS; i++) {
            assert_int_equal(intset_has(set, numbers[i]), is_there[i]);
            if (is_there[i])
                there[count++] = numbers[i];
        }
        qsort(there, count, sizeof(there[0]), by_value);
        copy = intset_copy(set);
        intset_destroy(set);
        if (intset_count(copy) != count || !intset_is_valid(intset_bytes(copy)))
            fail_msg("seed %" PRIu64, seed);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(intset_get(copy, i), there[i]);
        intset_destroy(copy);
    }
}

static void bytes_that_are_not_a_set_are_invalid(void **state)
{
    static const struct bytes wrong[] = {
        { "", 0 },
        { "\x02\0\0\0\0\0\0", 7 },
        { "\x03\0\0\0\0\0\0\0", 8 },                                    /* not a valid width */
        { "\0\0\0\0\0\0\0\0", 8 },
        { "\x02\0\0\0\x01\0\0\0", 8 },                                  /* fewer than the count, more than the count */
        { "\x02\0\0\0\x01\0\0\0\x01\0\x02\0", 12 },
        { "\x02\0\0\0\xff\xff\xff\xff\x01\0", 10 },
        { "\x08\0\0\0\0\0\0\x20", 8 },
        { "\x02\0\0\0\x02\0\0\0\x01\0\x01\0", 12 },                     /* equal numbers, wrong order, also by sign */
        { "\x02\0\0\0\x02\0\0\0\x02\0\x01\0", 12 },
        { "\x02\0\0\0\x02\0\0\0\x01\0\xff\xff", 12 },
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(intset_is_valid(wrong[i]));
    assert_true(intset_is_valid(bytes_of("\x02\0\0\0\x02\0\0\0\xff\xff\x01\0", 12)));
    assert_true(intset_is_valid(bytes_of("\x02\0\0\0\0\0\0\0", 8)));
    /* A width greater than necessary is valid, as in Redis. */
    assert_true(intset_is_valid(bytes_of("\x08\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0", 16)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_set_has_no_members),
        cmocka_unit_test(the_bytes_are_those_of_redis),
        cmocka_unit_test(numbers_at_the_limits_of_a_width_are_found),
        cmocka_unit_test(random_changes_match_a_plain_array),
        cmocka_unit_test(bytes_that_are_not_a_set_are_invalid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
