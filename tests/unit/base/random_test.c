#include "support/unit.h"

#include <string.h>

#include "base/random.h"

static void the_same_seed_gives_the_same_numbers(void **state)
{
    struct random a, b, c;
    int equal = 0;

    random_init(&a, 1);
    random_init(&b, 1);
    random_init(&c, 2);
    for (int i = 0; i < 1000; i++) {
        uint64_t number = random_next(&a);

        assert_true(number == random_next(&b));
        equal += number == random_next(&c);
    }
    assert_int_equal(equal, 0);
}

/* The first numbers follow from the definition for the state 1, 2, 3, 4: rotl(2 * 5, 7) * 9, and so on. */
static void the_sequence_is_xoshiro256_starstar(void **state)
{
    struct random random = { { 1, 2, 3, 4 } };

    assert_true(random_next(&random) == 11520);
    assert_true(random_next(&random) == 0);
    assert_true(random_next(&random) == 1509978240);
    assert_true(random_next(&random) == 1215971899390074240);
}

static void the_seed_zero_works_too(void **state)
{
    struct random random;
    uint64_t all = 0;

    random_init(&random, 0);
    for (int i = 0; i < 100; i++)
        all |= random_next(&random);
    assert_true(all == UINT64_MAX);
}

static void below_is_in_range_and_reaches_every_number(void **state)
{
    struct random random;
    int counts[7] = { 0 };

    random_init(&random, 3);
    for (int i = 0; i < 70000; i++) {
        uint64_t number = random_below(&random, 7);

        assert_true(number < 7);
        counts[number]++;
    }
    for (int i = 0; i < 7; i++)         /* 10000 expected; the seed is fixed, so the result is deterministic */
        assert_in_range(counts[i], 9500, 10500);
    for (int i = 0; i < 1000; i++) {
        assert_true(random_below(&random, 1) == 0);
        assert_true(random_below(&random, UINT64_MAX) < UINT64_MAX);
    }
}

static void the_system_fills_every_byte(void **state)
{
    unsigned char once[1000], all[1000] = { 0 };

    for (int i = 0; i < 64; i++) {
        random_system(once, sizeof(once));
        for (size_t j = 0; j < sizeof(once); j++)
            all[j] |= once[j];
    }
    for (size_t j = 0; j < sizeof(all); j++)    /* a bit is missing 64 times: probability 2^-64 */
        assert_int_not_equal(all[j], 0);
    random_system(once, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_seed_gives_the_same_numbers),
        cmocka_unit_test(the_sequence_is_xoshiro256_starstar),
        cmocka_unit_test(the_seed_zero_works_too),
        cmocka_unit_test(below_is_in_range_and_reaches_every_number),
        cmocka_unit_test(the_system_fills_every_byte),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
