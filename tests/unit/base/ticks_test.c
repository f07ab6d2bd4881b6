#include "support/unit.h"

#include "base/ticks.h"

#define MS INT64_C(1000000)

/* A counter of 2.5 GHz. */
static uint64_t counter_at(int64_t ns)
{
    return 777 + (uint64_t)ns * 5 / 2;
}

static void sync(struct ticks *ticks, int64_t ns)
{
    ticks_sync_at(ticks, counter_at(ns), ns);
}

static void the_system_is_asked_until_the_rate_is_known(void **state)
{
    struct ticks ticks = { .has_counter = true };

    sync(&ticks, 5000 * MS);
    assert_int_equal(ticks_ns_at(&ticks, counter_at(5001 * MS)), -1);
    sync(&ticks, 5009 * MS);
    assert_int_equal(ticks_ns_at(&ticks, counter_at(5009 * MS)), -1);
    sync(&ticks, 5011 * MS);
    assert_in_range(ticks_ns_at(&ticks, counter_at(5012 * MS)), 5012 * MS - 2, 5012 * MS + 2);
}

static void the_time_since_the_last_sync_is_measured_by_the_counter(void **state)
{
    struct ticks ticks = { .has_counter = true };

    sync(&ticks, 5000 * MS);
    sync(&ticks, 5020 * MS);
    sync(&ticks, 5021 * MS);
    assert_int_equal(ticks_ns_at(&ticks, counter_at(5021 * MS)), 5021 * MS);
    assert_in_range(ticks_ns_at(&ticks, counter_at(5500 * MS)), 5500 * MS - 10, 5500 * MS + 10);
    assert_int_equal(ticks_ns_at(&ticks, counter_at(6500 * MS)), -1);
    assert_int_equal(ticks_ns_at(&ticks, counter_at(5000 * MS)), -1);      /* the counter went back */
}

static void a_new_rate_is_learned(void **state)
{
    struct ticks ticks = { .has_counter = true };
    uint64_t counter;

    sync(&ticks, 5000 * MS);
    sync(&ticks, 5020 * MS);
    counter = counter_at(5020 * MS);
    ticks_sync_at(&ticks, counter + 20 * (uint64_t)MS, 5040 * MS);          /* one tick a nanosecond */
    assert_in_range(ticks_ns_at(&ticks, counter + 21 * (uint64_t)MS), 5041 * MS - 2, 5041 * MS + 2);
    ticks_sync_at(&ticks, counter + 25 * (uint64_t)MS, 9000 * MS);          /* suspended: the rate stays */
    assert_in_range(ticks_ns_at(&ticks, counter + 26 * (uint64_t)MS), 9001 * MS - 2, 9001 * MS + 2);
}

static void it_agrees_with_the_system(void **state)
{
    struct ticks ticks;
    int64_t until, before, now, after;

    ticks_init(&ticks);
    until = ticks_sync(&ticks) + 15 * MS;
    while (ticks_sync(&ticks) < until)
        ;
    before = clock_mono_ns();
    now = ticks_now_ns(&ticks);
    after = clock_mono_ns();
    assert_in_range(now, before - MS, after + MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_system_is_asked_until_the_rate_is_known),
        cmocka_unit_test(the_time_since_the_last_sync_is_measured_by_the_counter),
        cmocka_unit_test(a_new_rate_is_learned),
        cmocka_unit_test(it_agrees_with_the_system),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
