#include "tier/census.h"

#include "support/unit.h"

enum { ONE = 1024 };

static void before_the_first_count_a_window_goes_by_itself(void **state)
{
    struct census census = { 0 };
    uint32_t counts[CENSUS_RANKS] = { [0] = 10, [1] = 20, [5] = 70 };
    struct census_limit limit = census_limit(&census, ONE / 4, ONE, counts, 100, true);

    assert_int_equal(limit.rank, 1);
    assert_int_equal(limit.chance, CENSUS_ONE * 3 / 4);      /* 25 = 10 + 15 of 20 */
    limit = census_limit(&census, ONE / 64, ONE, counts, 100, true);
    assert_int_equal(limit.rank, 0);
    assert_int_equal(limit.chance, CENSUS_ONE * 100 / 64 / 10);      /* not an eighth: other windows may have colder ones */
}

static void the_limit_is_that_of_the_last_finished_count(void **state)
{
    struct census census = { 0 };
    uint32_t cold[CENSUS_RANKS] = { [0] = 100 }, warm[CENSUS_RANKS] = { [3] = 300 };
    struct census_limit limit;

    census_add(&census, cold, 100);
    census_add(&census, warm, 300);
    census_turn(&census);
    census_add(&census, warm, 300);
    limit = census_limit(&census, ONE / 8, ONE, warm, 300, true);
    assert_int_equal(limit.rank, 0);                        /* 50 of the 100 */
    assert_int_equal(limit.chance, CENSUS_ONE / 2);
    census_turn(&census);
    limit = census_limit(&census, ONE / 4, ONE, cold, 100, true);
    assert_int_equal(limit.rank, 3);
    assert_int_equal(limit.chance, CENSUS_ONE / 4);
}

/* Keys that can't be taken are in the total: the others give more. */
static void the_share_is_of_all_keys(void **state)
{
    struct census census = { 0 };
    uint32_t counts[CENSUS_RANKS] = { [2] = 100 };

    assert_int_equal(census_limit(&census, ONE / 8, ONE, counts, 400, true).chance, CENSUS_ONE / 2);
}

static struct census_limit limit_of(const uint32_t counts[CENSUS_RANKS], uint32_t share, uint32_t total)
{
    struct census census = { 0 };

    census_add(&census, counts, total);
    census_turn(&census);
    return census_limit(&census, share, ONE, counts, total, true);
}

static void equal_keys_go_together(void **state)
{
    uint32_t low[CENSUS_RANKS] = { [0] = 1000, [1] = 7000 }, few[CENSUS_RANKS] = { [0] = 40, [1] = 60, [3] = 900 };
    uint32_t high[CENSUS_RANKS] = { [CENSUS_RANKS / 2] = 1000 }, seven[CENSUS_RANKS] = { [0] = 7000 };
    struct census_limit limit = limit_of(low, ONE / 64, 8000);

    assert_int_equal(limit.rank, 0);                        /* an eighth of all have this rank: all of them, instead of 125 */
    assert_int_equal(limit.chance, CENSUS_ONE);
    limit = limit_of(few, ONE / 16, 1000);                  /* 62.5: those of rank 0, and no more of rank 1 than the share */
    assert_int_equal(limit.rank, 1);
    assert_in_range(limit.chance, CENSUS_ONE * 22 / 60, CENSUS_ONE * 23 / 60);
    limit = limit_of(seven, ONE / 70, 7000);              /* an eighth at most */
    assert_int_equal(limit.rank, 0);
    assert_int_equal(limit.chance, CENSUS_ONE / 8);
    limit = limit_of(high, ONE / 64, 1000);                 /* used often: only the share */
    assert_int_equal(limit.rank, CENSUS_RANKS / 2);
    assert_int_equal(limit.chance, CENSUS_ONE / 64);
}

static void the_whole_share_takes_every_rank(void **state)
{
    struct census census = { 0 };
    uint32_t counts[CENSUS_RANKS] = { [4] = 5 };
    struct census_limit limit = census_limit(&census, ONE, ONE, counts, 5, true);

    assert_int_equal(limit.rank, CENSUS_RANKS - 1);
    assert_int_equal(limit.chance, CENSUS_ONE);
    limit = census_limit(&census, ONE / 2, ONE, counts, 1000, true);      /* more than there is to take */
    assert_int_equal(limit.rank, CENSUS_RANKS - 1);
    assert_int_equal(limit.chance, CENSUS_ONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_the_first_count_a_window_goes_by_itself),
        cmocka_unit_test(the_limit_is_that_of_the_last_finished_count),
        cmocka_unit_test(the_share_is_of_all_keys),
        cmocka_unit_test(equal_keys_go_together),
        cmocka_unit_test(the_whole_share_takes_every_rank),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
