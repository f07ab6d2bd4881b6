#include "metrics/progress.h"

#include "support/unit.h"

enum { SECOND = 1000000 };

static void what_is_left_follows_from_the_pace(void **state)
{
    struct progress progress = { .runs = false };

    (void)state;
    assert_true(progress_left(&progress, 100 * SECOND, 50, 1000) < 0);
    assert_true(progress_left(&progress, 100 * SECOND + SECOND / 2, 90, 1000) < 0);
    assert_float_equal(progress_left(&progress, 102 * SECOND, 250, 1000), 750 / 100., 1e-9);
    assert_float_equal(progress_left(&progress, 110 * SECOND, 1000, 1000), 0, 1e-9);
}

static void one_that_began_again_is_another(void **state)
{
    struct progress progress = { .runs = false };

    (void)state;
    progress_left(&progress, 1 * SECOND, 0, 1000);
    assert_float_equal(progress_left(&progress, 11 * SECOND, 500, 1000), 10, 1e-9);
    assert_true(progress_left(&progress, 12 * SECOND, 10, 1000) < 0);
    assert_float_equal(progress_left(&progress, 22 * SECOND, 20, 1000), 980, 1e-9);
}

static void nothing_is_said_without_a_total_or_a_pace(void **state)
{
    struct progress progress = { .runs = false };

    (void)state;
    progress_left(&progress, 1 * SECOND, 0, 0);
    assert_true(progress_left(&progress, 11 * SECOND, 0, 0) < 0);
    assert_true(progress_left(&progress, 12 * SECOND, 10, 0) < 0);
    assert_true(progress_left(&progress, 13 * SECOND, 10, 9) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_follows_from_the_pace),
        cmocka_unit_test(one_that_began_again_is_another),
        cmocka_unit_test(nothing_is_said_without_a_total_or_a_pace),
    };

    return cmocka_run_group_tests_name("metrics/progress", tests, NULL, NULL);
}
