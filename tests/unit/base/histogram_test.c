#include "support/unit.h"

#include <math.h>
#include <stdlib.h>

#include "base/histogram.h"
#include "base/mem.h"
#include "base/random.h"

enum { STEP_BITS = 7, STEPS = 1 << STEP_BITS, VALUE_BITS = 42 };        /* as kelvin-benchmark has it */

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void every_value_is_within_its_bucket_and_edges_are_close(void **state)
{
    (void)state;
    for (unsigned step_bits = 0; step_bits <= 8; step_bits++) {
        for (int bits = 0; bits < 63; bits++) {
            for (int64_t off = -3; off <= 3; off++) {
                uint64_t value = (uint64_t)(((int64_t)1 << bits) + off);
                size_t bucket;

                if ((int64_t)value < 0)
                    continue;
                bucket = histogram_bucket(value, step_bits);
                assert_true(value >= histogram_bucket_min(bucket, step_bits));
                assert_true(value <= histogram_bucket_max(bucket, step_bits));
                assert_true(bucket == 0 || histogram_bucket_max(bucket - 1, step_bits) + 1 == histogram_bucket_min(bucket, step_bits));
                assert_true(histogram_bucket_max(bucket, step_bits) - value <= value >> step_bits);
            }
        }
    }
}

static void buckets_follow_each_other_without_a_gap(void **state)
{
    static const size_t two_bits[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 12, 12, 13 };

    (void)state;
    for (size_t value = 0; value < sizeof(two_bits) / sizeof(two_bits[0]); value++)
        assert_int_equal(histogram_bucket(value, 2), two_bits[value]);
    for (uint64_t value = 1; value < 100000; value++) {
        size_t step = histogram_bucket(value, 3) - histogram_bucket(value - 1, 3);

        assert_true(step == 0 || step == 1);
    }
}

static void counts_of_threads_are_summed_up_and_the_last_bucket_takes_the_rest(void **state)
{
    _Atomic uint64_t counts[16] = { 0 };
    uint64_t copy[16];

    (void)state;
    histogram_count(counts, 16, 2, 0);
    histogram_count(counts, 16, 2, 9);
    histogram_count(counts, 16, 2, 28);
    histogram_count(counts, 16, 2, UINT64_MAX);
    assert_int_equal(histogram_load(counts, 16, copy), 4);
    assert_int_equal(copy[0], 1);
    assert_int_equal(copy[8], 1);
    assert_int_equal(copy[15], 2);
    assert_int_equal(histogram_percentile_bucket(copy, 16, 4, 0), 0);
    assert_int_equal(histogram_percentile_bucket(copy, 16, 4, 25), 0);
    assert_int_equal(histogram_percentile_bucket(copy, 16, 4, 26), 8);
    assert_int_equal(histogram_percentile_bucket(copy, 16, 4, 50), 8);
    assert_int_equal(histogram_percentile_bucket(copy, 16, 4, 100), 15);
    histogram_clear(counts, 16);
    assert_int_equal(histogram_load(counts, 16, copy), 0);
    assert_int_equal(histogram_percentile_bucket(copy, 16, 0, 99), 0);
}

static void percentiles_are_those_of_the_sorted_values(void **state)
{
    enum { COUNT = 20000 };
    static const double percents[] = { 0, 1, 50, 90, 99, 99.9, 99.99, 100 };
    struct histogram *histogram = histogram_create(STEP_BITS, VALUE_BITS);
    uint64_t *values = mem_alloc(COUNT * sizeof(*values)), sum = 0;
    struct random random;

    random_init(&random, 42);
    for (int i = 0; i < COUNT; i++) {       /* from ns to minutes, evenly over the magnitudes */
        values[i] = random_next(&random) >> (64 - VALUE_BITS) >> random_below(&random, VALUE_BITS);
        sum += values[i];
        histogram_record(histogram, (int64_t)values[i]);
    }
    qsort(values, COUNT, sizeof(*values), compare);
    for (size_t i = 0; i < sizeof(percents) / sizeof(percents[0]); i++) {
        size_t rank = (size_t)ceil(COUNT * percents[i] / 100);
        uint64_t exact = values[rank > 0 ? rank - 1 : 0], told = histogram_percentile(histogram, percents[i]);

        assert_true(told >= exact && told - exact <= exact / STEPS);
    }
    assert_int_equal(histogram_total(histogram), COUNT);
    assert_int_equal(histogram_min(histogram), values[0]);
    assert_int_equal(histogram_max(histogram), values[COUNT - 1]);
    assert_int_equal(histogram_percentile(histogram, 100), values[COUNT - 1]);
    assert_true(fabs(histogram_mean(histogram) - (double)sum / COUNT) < 1);
    mem_free(values);
    histogram_destroy(histogram);
}

static void an_empty_one_is_all_zero_and_adds_nothing(void **state)
{
    struct histogram *empty = histogram_create(STEP_BITS, VALUE_BITS), *one = histogram_create(STEP_BITS, VALUE_BITS);

    assert_int_equal(histogram_percentile(empty, 99), 0);
    assert_true(histogram_mean(empty) == 0);
    histogram_record(one, 5);
    histogram_add(one, empty);
    assert_int_equal(histogram_min(one), 5);
    histogram_add(empty, one);
    assert_int_equal(histogram_min(empty), 5);
    assert_int_equal(histogram_max(empty), 5);
    histogram_destroy(empty);
    histogram_destroy(one);
}

static void two_added_are_as_one_that_saw_it_all(void **state)
{
    struct histogram *parts[2] = { histogram_create(STEP_BITS, VALUE_BITS), histogram_create(STEP_BITS, VALUE_BITS) };
    struct histogram *whole = histogram_create(STEP_BITS, VALUE_BITS);

    for (int64_t i = 1; i < 5000; i++) {
        histogram_record(parts[i % 3 == 0], i * i);
        histogram_record(whole, i * i);
    }
    histogram_add(parts[0], parts[1]);
    assert_int_equal(histogram_total(parts[0]), histogram_total(whole));
    assert_int_equal(histogram_min(parts[0]), histogram_min(whole));
    assert_int_equal(histogram_max(parts[0]), histogram_max(whole));
    assert_true(histogram_mean(parts[0]) == histogram_mean(whole));
    for (int percent = 0; percent <= 1000; percent++)
        assert_int_equal(histogram_percentile(parts[0], percent / 10.0), histogram_percentile(whole, percent / 10.0));
    histogram_destroy(parts[0]);
    histogram_destroy(parts[1]);
    histogram_destroy(whole);
}

static void what_is_out_of_range_counts_at_the_end_of_it(void **state)
{
    struct histogram *histogram = histogram_create(STEP_BITS, VALUE_BITS);

    histogram_record(histogram, -7);
    assert_int_equal(histogram_max(histogram), 0);
    histogram_record(histogram, INT64_MAX);
    assert_int_equal(histogram_max(histogram), ((uint64_t)1 << VALUE_BITS) - 1);
    assert_int_equal(histogram_percentile(histogram, 100), ((uint64_t)1 << VALUE_BITS) - 1);
    histogram_destroy(histogram);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_is_within_its_bucket_and_edges_are_close),
        cmocka_unit_test(buckets_follow_each_other_without_a_gap),
        cmocka_unit_test(counts_of_threads_are_summed_up_and_the_last_bucket_takes_the_rest),
        cmocka_unit_test(percentiles_are_those_of_the_sorted_values),
        cmocka_unit_test(an_empty_one_is_all_zero_and_adds_nothing),
        cmocka_unit_test(two_added_are_as_one_that_saw_it_all),
        cmocka_unit_test(what_is_out_of_range_counts_at_the_end_of_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
