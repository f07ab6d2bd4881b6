#include "support/unit.h"

#include <time.h>

#include "base/clock.h"

static void wall_time_is_that_of_the_system(void **state)
{
    /* Seconds are rounded down, and time() may be one tick late. */
    int64_t before = (int64_t)time(NULL) - 1;
    int64_t ms = clock_wall_ms();
    int64_t us = clock_wall_us();
    int64_t after = (int64_t)time(NULL) + 2;

    assert_in_range(ms, before * 1000, after * 1000);
    assert_in_range(us, before * 1000000, after * 1000000);
}

static void monotonic_time_never_goes_back(void **state)
{
    int64_t last = clock_mono_ns();

    for (int i = 0; i < 100000; i++) {
        int64_t now = clock_mono_ns();

        assert_true(now >= last);
        last = now;
    }
}

static void monotonic_time_advances(void **state)
{
    int64_t start = clock_mono_ns();

    /* Ends by the clock under test: if it stood still, the test's time limit would apply. */
    while (clock_mono_ns() == start)
        continue;
    assert_true(clock_mono_ns() > start);
}

static void the_units_agree(void **state)
{
    int64_t before = clock_mono_ns();
    int64_t us = clock_mono_us();
    int64_t after = clock_mono_ns();

    assert_in_range(us, before / 1000, after / 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wall_time_is_that_of_the_system),
        cmocka_unit_test(monotonic_time_never_goes_back),
        cmocka_unit_test(monotonic_time_advances),
        cmocka_unit_test(the_units_agree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
