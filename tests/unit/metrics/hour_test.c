#include "metrics/hour.h"

#include "support/unit.h"

#include <string.h>

#include "base/histogram.h"

enum { SECOND = 1000000 };

static int setup(void **state)
{
    *state = hour_create();
    return 0;
}

static int teardown(void **state)
{
    hour_destroy(*state);
    return 0;
}

static int count_of(struct hour *hour)
{
    static struct hour_sample samples[HOUR_SAMPLES];

    return hour_copy(hour, samples);
}

static struct hour_sample last_of(struct hour *hour, int count)
{
    static struct hour_sample samples[HOUR_SAMPLES];

    assert_int_equal(hour_copy(hour, samples), count);
    return samples[count - 1];
}

static void a_sample_is_what_came_since_the_one_before(void **state)
{
    struct hour *hour = *state;
    struct hour_totals totals = { .hot = 1000, .cold = 50, .commands = 2000, .demoted_bytes = 7, .memory = 10, .memory_max = 20 };
    struct hour_sample sample;

    totals.loads[histogram_bucket(100, LOAD_LATENCY_STEP_BITS)] = 5;
    assert_true(hour_is_due(hour, 5 * SECOND));
    hour_note(hour, 5 * SECOND, 1000, &totals);
    assert_int_equal(count_of(hour), 0);
    assert_false(hour_is_due(hour, 15 * SECOND - 1));
    assert_true(hour_is_due(hour, 15 * SECOND));
    totals.hot += 90;
    totals.cold += 10;
    totals.commands += 123;
    totals.demoted_bytes += 4096;
    totals.loads[histogram_bucket(100, LOAD_LATENCY_STEP_BITS)] += 98;
    totals.loads[histogram_bucket(5000, LOAD_LATENCY_STEP_BITS)] += 2;
    totals.memory = 15;
    hour_note(hour, 17 * SECOND, 13000, &totals);
    sample = last_of(hour, 1);
    assert_int_equal(sample.time_ms, 13000);
    assert_int_equal(sample.span_ms, 12000);
    assert_int_equal(sample.hot, 90);
    assert_int_equal(sample.cold, 10);
    assert_int_equal(sample.commands, 123);
    assert_int_equal(sample.demoted_bytes, 4096);
    assert_int_equal(sample.loads, 100);
    assert_in_range(sample.load_p50_us, 80, 100);
    assert_in_range(sample.load_p99_us, 4096, 5000);
    assert_int_equal(sample.memory, 15);
    assert_int_equal(sample.memory_max, 20);
    hour_note(hour, 27 * SECOND, 23000, &totals);
    sample = last_of(hour, 2);
    assert_int_equal(sample.hot + sample.loads + sample.load_p50_us + sample.load_p99_us, 0);
}

/* CONFIG RESETSTAT: nothing is below 0. */
static void counts_begin_again(void **state)
{
    struct hour *hour = *state;
    struct hour_totals totals = { .hot = 1000, .cold = 1000 };

    totals.loads[3] = 1000;
    hour_note(hour, 5 * SECOND, 0, &totals);
    totals = (struct hour_totals){ .hot = 3, .cold = 0 };
    totals.loads[3] = 2;
    hour_note(hour, 15 * SECOND, 0, &totals);
    assert_int_equal(last_of(hour, 1).hot, 3);
    assert_int_equal(last_of(hour, 1).cold, 0);
    assert_int_equal(last_of(hour, 1).loads, 2);
}

static void an_hour_is_kept_in_its_order(void **state)
{
    static struct hour_sample samples[HOUR_SAMPLES];
    struct hour *hour = *state;
    struct hour_totals totals = { .hot = 0 };

    for (int i = 0; i <= HOUR_SAMPLES + 100; i++) {
        totals.hot += (uint64_t)i;
        hour_note(hour, (i + 1) * INT64_C(10) * SECOND, i, &totals);
    }
    assert_int_equal(hour_copy(hour, samples), HOUR_SAMPLES);
    for (int i = 0; i < HOUR_SAMPLES; i++) {
        assert_int_equal(samples[i].time_ms, 101 + i);
        assert_int_equal(samples[i].hot, 101 + i);
    }
    hour_clear(hour);
    assert_int_equal(hour_copy(hour, samples), 0);
    assert_true(hour_is_due(hour, 1));
    hour_note(hour, 1, 0, &totals);
    assert_int_equal(hour_copy(hour, samples), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_sample_is_what_came_since_the_one_before, setup, teardown),
        cmocka_unit_test_setup_teardown(counts_begin_again, setup, teardown),
        cmocka_unit_test_setup_teardown(an_hour_is_kept_in_its_order, setup, teardown),
    };

    return cmocka_run_group_tests_name("metrics/hour", tests, NULL, NULL);
}
