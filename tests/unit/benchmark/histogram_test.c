/* The tools are no part of the library, so the file under test is included. */
#include "../utils/benchmark/histogram.c"

#include <stdarg.h>
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/random.h"

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void every_value_is_within_its_bucket_and_edges_are_close(void **state)
{
    for (int bits = 0; bits < VALUE_BITS; bits++) {
        for (int64_t off = -3; off <= 3; off++) {
            uint64_t value = (uint64_t)(((int64_t)1 << bits) + off);
            size_t bucket;

            if ((int64_t)value < 0 || value >> VALUE_BITS)
                continue;
            bucket = bucket_of(value);
            assert_true(bucket < BUCKETS);
            assert_true(value <= bucket_edge(bucket));
            assert_true(bucket == 0 || value > bucket_edge(bucket - 1));
            assert_true(bucket_edge(bucket) - value <= value / STEPS);
        }
    }
    assert_int_equal(bucket_of(((uint64_t)1 << VALUE_BITS) - 1), BUCKETS - 1);
}

static void percentiles_are_those_of_the_sorted_values(void **state)
{
    enum { COUNT = 20000 };
    static const double percents[] = { 0, 1, 50, 90, 99, 99.9, 99.99, 100 };
    struct histogram *histogram = histogram_create();
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
    assert_int_equal(histogram_count(histogram), COUNT);
    assert_int_equal(histogram_min(histogram), values[0]);
    assert_int_equal(histogram_max(histogram), values[COUNT - 1]);
    assert_int_equal(histogram_percentile(histogram, 100), values[COUNT - 1]);
    assert_true(fabs(histogram_mean(histogram) - (double)sum / COUNT) < 1);
    mem_free(values);
    histogram_destroy(histogram);
}

static void an_empty_one_is_all_zero_and_adds_nothing(void **state)
{
    struct histogram *empty = histogram_create(), *one = histogram_create();

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
    struct histogram *parts[2] = { histogram_create(), histogram_create() }, *whole = histogram_create();

    for (int64_t i = 1; i < 5000; i++) {
        histogram_record(parts[i % 3 == 0], i * i);
        histogram_record(whole, i * i);
    }
    histogram_add(parts[0], parts[1]);
    assert_memory_equal(parts[0], whole, sizeof(*whole));
    histogram_destroy(parts[0]);
    histogram_destroy(parts[1]);
    histogram_destroy(whole);
}

static void what_is_out_of_range_counts_at_the_end_of_it(void **state)
{
    struct histogram *histogram = histogram_create();

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
        cmocka_unit_test(percentiles_are_those_of_the_sorted_values),
        cmocka_unit_test(an_empty_one_is_all_zero_and_adds_nothing),
        cmocka_unit_test(two_added_are_as_one_that_saw_it_all),
        cmocka_unit_test(what_is_out_of_range_counts_at_the_end_of_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
