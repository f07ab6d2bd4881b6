#include "support/unit.h"

#include <stdio.h>

#include "base/mem.h"
#include "stats/latency.h"

static int open_latency(void **state)
{
    *state = latency_create();
    return 0;
}

static int close_latency(void **state)
{
    latency_destroy(*state);
    return 0;
}

static void only_the_worst_sample_of_a_second_is_kept(void **state)
{
    struct latency_event event;

    latency_note_at(*state, "command", 10, 100);
    latency_note_at(*state, "command", 30, 100);
    latency_note_at(*state, "command", 20, 100);
    latency_note_at(*state, "command", 5, 101);
    assert_true(latency_find(*state, BYTES("COMMAND"), &event));
    assert_int_equal(event.count, 2);
    assert_int_equal(event.samples[0].ms, 30);
    assert_int_equal(event.samples[0].time_s, 100);
    assert_int_equal(event.samples[1].ms, 5);
    assert_int_equal(event.worst_ms, 30);
}

static void old_samples_are_dropped_but_the_worst_value_is_kept(void **state)
{
    struct latency_event event;

    latency_note_at(*state, "command", 1000, 1);
    for (int64_t i = 0; i < LATENCY_SAMPLES; i++)
        latency_note_at(*state, "command", i + 1, 10 + i);
    assert_true(latency_find(*state, BYTES("command"), &event));
    assert_int_equal(event.count, LATENCY_SAMPLES);
    assert_int_equal(event.samples[0].time_s, 10);
    assert_int_equal(event.samples[LATENCY_SAMPLES - 1].ms, LATENCY_SAMPLES);
    assert_int_equal(event.worst_ms, 1000);
}

static void events_are_in_alphabetical_order_and_can_be_deleted(void **state)
{
    struct latency_event *events, event;

    assert_int_equal(latency_events(*state, &events), 0);
    assert_null(events);
    latency_note_at(*state, "fast-command", 1, 1);
    latency_note_at(*state, "aof-write", 2, 1);
    latency_note_at(*state, "command", 3, 1);
    assert_int_equal(latency_events(*state, &events), 3);
    assert_string_equal(events[0].name, "aof-write");
    assert_string_equal(events[1].name, "command");
    assert_string_equal(events[2].name, "fast-command");
    mem_free(events);
    assert_int_equal(latency_reset(*state, BYTES("nosuch")), 0);
    assert_int_equal(latency_reset(*state, BYTES("Command")), 1);
    assert_false(latency_find(*state, BYTES("command"), &event));
    assert_int_equal(latency_reset_all(*state), 2);
    assert_int_equal(latency_reset_all(*state), 0);
}

static void the_number_of_events_is_bounded(void **state)
{
    struct latency_event *events;
    char name[100];

    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof(name), "%060d-%d", i, i);     /* only the first bytes of a name are kept */
        latency_note_at(*state, name, i, 1);
        snprintf(name, sizeof(name), "%d", i);
        latency_note_at(*state, name, i, 1);
    }
    assert_int_equal(latency_events(*state, &events), LATENCY_EVENTS_MAX);
    mem_free(events);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_the_worst_sample_of_a_second_is_kept, open_latency, close_latency),
        cmocka_unit_test_setup_teardown(old_samples_are_dropped_but_the_worst_value_is_kept, open_latency, close_latency),
        cmocka_unit_test_setup_teardown(events_are_in_alphabetical_order_and_can_be_deleted, open_latency, close_latency),
        cmocka_unit_test_setup_teardown(the_number_of_events_is_bounded, open_latency, close_latency),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
