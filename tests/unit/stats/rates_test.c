#include "support/unit.h"

#include "stats/rates.h"

static int open_rates(void **state)
{
    *state = rates_create();
    return 0;
}

static int close_rates(void **state)
{
    rates_destroy(*state);
    return 0;
}

static void note(struct rates *rates, int64_t now_us, uint64_t commands)
{
    uint64_t totals[RATE_COUNT] = { [RATE_COMMANDS] = commands, [RATE_NET_INPUT] = commands * 10 };

    rates_note(rates, now_us, totals);
}

static void a_steady_load_has_its_exact_rate(void **state)
{
    /* 50 commands in each tenth of a second, from an arbitrary initial total. */
    for (int i = 0; i <= RATE_SAMPLES; i++)
        note(*state, 1000000 + i * 100000, 12345 + (uint64_t)i * 50);
    assert_float_equal(rates_of(*state, RATE_COMMANDS), 500, 0.001);
    assert_float_equal(rates_of(*state, RATE_NET_INPUT), 5000, 0.001);
    assert_float_equal(rates_of(*state, RATE_NET_OUTPUT), 0, 0.001);
}

static void totals_before_the_first_sample_do_not_count(void **state)
{
    note(*state, 5, 1000000);
    assert_float_equal(rates_of(*state, RATE_COMMANDS), 0, 0.001);
    note(*state, 100005, 1000000);
    assert_float_equal(rates_of(*state, RATE_COMMANDS), 0, 0.001);
}

static void the_rate_becomes_zero_after_the_load(void **state)
{
    for (int i = 0; i <= RATE_SAMPLES; i++)
        note(*state, i * 100000, (uint64_t)i * 50);
    for (int i = 1; i <= RATE_SAMPLES; i++)
        note(*state, (RATE_SAMPLES + i) * 100000, RATE_SAMPLES * 50);
    assert_float_equal(rates_of(*state, RATE_COMMANDS), 0, 0.001);
}

static void samples_before_the_interval_are_ignored(void **state)
{
    note(*state, 0, 0);
    note(*state, RATE_INTERVAL_US - 1, 1000);
    assert_float_equal(rates_of(*state, RATE_COMMANDS), 0, 0.001);
    note(*state, RATE_INTERVAL_US, 1000);
    assert_float_equal(rates_of(*state, RATE_COMMANDS), 10000.0 / RATE_SAMPLES, 0.001);
}

static void a_reset_of_the_totals_counts_as_no_load(void **state)
{
    note(*state, 0, 5000);
    note(*state, 100000, 10);
    assert_float_equal(rates_of(*state, RATE_COMMANDS), 0, 0.001);
    note(*state, 200000, 20);
    assert_float_equal(rates_of(*state, RATE_COMMANDS), 100.0 / RATE_SAMPLES, 0.001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_steady_load_has_its_exact_rate, open_rates, close_rates),
        cmocka_unit_test_setup_teardown(totals_before_the_first_sample_do_not_count, open_rates, close_rates),
        cmocka_unit_test_setup_teardown(the_rate_becomes_zero_after_the_load, open_rates, close_rates),
        cmocka_unit_test_setup_teardown(samples_before_the_interval_are_ignored, open_rates, close_rates),
        cmocka_unit_test_setup_teardown(a_reset_of_the_totals_counts_as_no_load, open_rates, close_rates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
