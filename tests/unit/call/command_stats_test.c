#include "support/unit.h"

#include "base/histogram.h"
#include "call/command_stats.h"

enum { ROWS = 3, GET = 1, EPOCH = 5 };

static uint64_t in_bucket(const struct command_stats_set *set, int bucket)
{
    uint64_t counts[LATENCY_BUCKETS] = { 0 };

    command_stats_sum_latency(set, GET, EPOCH, counts);
    return counts[bucket];
}

static void a_latency_is_counted_in_the_bucket_that_contains_it(void **state)
{
    struct command_stats_set *set = command_stats_create(ROWS);
    struct command_stats *stats = command_stats_of(set, GET, EPOCH);

    for (int bucket = 1; bucket < LATENCY_BUCKETS; bucket++)
        assert_true(histogram_bucket_min((size_t)bucket, LATENCY_STEP_BITS) > histogram_bucket_min((size_t)bucket - 1, LATENCY_STEP_BITS));
    for (int bucket = 0; bucket < LATENCY_BUCKETS; bucket++) {
        command_stats_note(stats, (int64_t)histogram_bucket_min((size_t)bucket, LATENCY_STEP_BITS));
        assert_int_equal(in_bucket(set, bucket), 1);
        command_stats_note(stats, (int64_t)histogram_bucket_max((size_t)bucket, LATENCY_STEP_BITS));
        assert_int_equal(in_bucket(set, bucket), 2);
    }
    command_stats_note(stats, -5);
    assert_int_equal(in_bucket(set, 0), 3);
    command_stats_note(stats, INT64_MAX);
    assert_int_equal(in_bucket(set, LATENCY_BUCKETS - 1), 3);
    command_stats_destroy(set);
}

static void the_sets_of_two_workers_add_up(void **state)
{
    struct command_stats_set *sets[] = { command_stats_create(ROWS), command_stats_create(ROWS) };
    struct command_totals totals = { .calls = 0 };
    uint64_t counts[LATENCY_BUCKETS] = { 0 };

    command_stats_note(command_stats_of(sets[0], GET, EPOCH), 3);
    command_stats_note(command_stats_of(sets[1], GET, EPOCH), 4);
    command_stats_add(&command_stats_of(sets[1], GET, EPOCH)->failed, 1);
    command_stats_add(&command_stats_of(sets[0], GET, EPOCH)->rejected, 2);
    for (int i = 0; i < 2; i++) {
        command_stats_sum(sets[i], GET, EPOCH, &totals);
        command_stats_sum_latency(sets[i], GET, EPOCH, counts);
        command_stats_destroy(sets[i]);
    }
    assert_int_equal(totals.calls, 2);
    assert_int_equal(totals.nsec, 7);
    assert_int_equal(totals.failed, 1);
    assert_int_equal(totals.rejected, 2);
    assert_int_equal(counts[3], 1);
    assert_int_equal(counts[4], 1);
}

static void counts_of_an_older_epoch_are_gone(void **state)
{
    struct command_stats_set *set = command_stats_create(ROWS);
    struct command_totals before = { .calls = 0 }, after = { .calls = 0 };

    command_stats_note(command_stats_of(set, GET, EPOCH), 3);
    command_stats_sum(set, GET, EPOCH + 1, &before);
    assert_int_equal(before.calls, 0);
    assert_int_equal(in_bucket(set, 3), 1);
    command_stats_note(command_stats_of(set, GET, EPOCH + 1), 4);
    command_stats_sum(set, GET, EPOCH + 1, &after);
    assert_int_equal(after.calls, 1);
    assert_int_equal(after.nsec, 4);
    assert_int_equal(in_bucket(set, 3), 0);
    command_stats_destroy(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_latency_is_counted_in_the_bucket_that_contains_it),
        cmocka_unit_test(the_sets_of_two_workers_add_up),
        cmocka_unit_test(counts_of_an_older_epoch_are_gone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
