#include "lifecycle/save_points.h"

#include "support/unit.h"

static void no_points_are_never_due(void **state)
{
    struct save_point due;

    assert_false(save_points_are(""));
    assert_false(save_points_due("", 1000000, INT64_C(1) << 50, &due));
    assert_true(save_points_are("3600 1"));
    assert_true(save_points_are("60 0"));
}

/* More than the seconds, at least the changes: as Redis counts them. */
static void a_point_is_due_after_its_seconds_with_its_changes(void **state)
{
    struct save_point due;

    assert_false(save_points_due("60 10", 9, 1000000, &due));
    assert_false(save_points_due("60 10", 10, 60999, &due));
    assert_true(save_points_due("60 10", 10, 61000, &due));
    assert_int_equal(due.seconds, 60);
    assert_int_equal(due.changes, 10);
    assert_true(save_points_due("60 0", 0, 61000, &due));
}

static void the_first_that_is_reached_is_told(void **state)
{
    const char *points = "3600 1 300 100 60 10000";
    struct save_point due;

    assert_false(save_points_due(points, 99, 301000, &due));
    assert_true(save_points_due(points, 100, 301000, &due));
    assert_int_equal(due.seconds, 300);
    assert_true(save_points_due(points, 10000, 61000, &due));
    assert_int_equal(due.seconds, 60);
    assert_true(save_points_due(points, 10000, 3601000, &due));
    assert_int_equal(due.seconds, 3600);
}

static void a_clock_that_was_set_back_makes_nothing_due(void **state)
{
    struct save_point due;

    assert_false(save_points_due("1 1", 1000, -100000, &due));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_points_are_never_due),
        cmocka_unit_test(a_point_is_due_after_its_seconds_with_its_changes),
        cmocka_unit_test(the_first_that_is_reached_is_told),
        cmocka_unit_test(a_clock_that_was_set_back_makes_nothing_due),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
