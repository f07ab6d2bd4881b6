#include "stats/waits.h"

#include "support/unit.h"

static int open_waits(void **state)
{
    *state = waits_create();
    return 0;
}

static int close_waits(void **state)
{
    waits_destroy(*state);
    return 0;
}

static void without_waits_all_is_zero(void **state)
{
    struct waits_summary summary = waits_summarize(*state, WAIT_COLD);

    assert_int_equal(summary.calls, 0);
    assert_int_equal(summary.p50_us, 0);
    assert_int_equal(summary.p99_us, 0);
}

/* Buckets are an eighth of a power of two wide. */
static void percentiles_are_near_the_waits(void **state)
{
    struct waits_summary summary;

    for (int i = 0; i < 90; i++)
        waits_note(*state, WAIT_COLD, 100);
    for (int i = 0; i < 10; i++)
        waits_note(*state, WAIT_COLD, 20000);
    summary = waits_summarize(*state, WAIT_COLD);
    assert_int_equal(summary.calls, 100);
    assert_in_range(summary.p50_us, 100, 113);
    assert_in_range(summary.p99_us, 20000, 22500);
    assert_int_equal(waits_sum_us(*state, WAIT_COLD), 90 * 100 + 10 * 20000);
    assert_int_equal(waits_sum_us(*state, WAIT_MEMORY), 0);
    waits_reset(*state);
    assert_int_equal(waits_sum_us(*state, WAIT_COLD), 0);
}

static void each_reason_has_its_own(void **state)
{
    waits_note(*state, WAIT_COLD, 5);
    waits_note(*state, WAIT_PAUSE, 5);
    waits_note(*state, WAIT_PAUSE, -1);         /* a clock that went back */
    assert_int_equal(waits_summarize(*state, WAIT_COLD).calls, 1);
    assert_int_equal(waits_summarize(*state, WAIT_PAUSE).calls, 2);
    assert_int_equal(waits_summarize(*state, WAIT_MEMORY).calls, 0);
    waits_reset(*state);
    assert_int_equal(waits_summarize(*state, WAIT_PAUSE).calls, 0);
}

static void reasons_are_found_by_their_names(void **state)
{
    (void)state;
    for (enum wait_reason reason = 0; reason < WAIT_REASONS; reason++)
        assert_int_equal(wait_find(bytes_of_string(wait_name(reason))), reason);
    assert_int_equal(wait_find(BYTES("COLD-WAIT")), WAIT_COLD);
    assert_int_equal(wait_find(BYTES("cold")), WAIT_REASONS);
    assert_int_equal(wait_find(BYTES("")), WAIT_REASONS);
}

#define WITH_WAITS(test) cmocka_unit_test_setup_teardown(test, open_waits, close_waits)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WAITS(without_waits_all_is_zero),
        WITH_WAITS(percentiles_are_near_the_waits),
        WITH_WAITS(each_reason_has_its_own),
        cmocka_unit_test(reasons_are_found_by_their_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
