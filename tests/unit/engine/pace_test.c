#include "support/unit.h"

#include "engine/pace.h"

enum { MS = 1000, HALF = PACE_FILL_ONE / 2 };

/* Lets `seconds` pass in steps of a millisecond, with demotion freeing `freed` bytes a second, while clients take all they get. Returns how many
 * bytes a second that was. */
static int64_t run(struct pace *pace, struct pace_view *view, int seconds, int64_t freed)
{
    int64_t taken = 0;

    for (int i = 0; i < seconds * 1000; i++) {
        view->now_us += MS;
        view->demoted_bytes += (uint64_t)freed / 1000;
        pace_refill(pace, view);
        if (pace->credit > 0)
            taken += atomic_exchange(&pace->credit, 0);
    }
    return taken / seconds;
}

static void half_way_as_much_is_let_in_as_is_freed(void **state)
{
    struct pace pace = { 0 };
    struct pace_view view = { .now_us = 1, .fill = HALF, .is_demoting = true };

    (void)state;
    run(&pace, &view, 10, 20 << 20);        /* to learn how much that is */
    assert_in_range(run(&pace, &view, 10, 20 << 20), 19 << 20, 21 << 20);
}

static void less_is_let_in_the_fuller_memory_is(void **state)
{
    struct pace pace = { 0 };
    struct pace_view view = { .now_us = 1, .fill = HALF, .is_demoting = true };
    int64_t at_mark, near_limit;

    (void)state;
    run(&pace, &view, 10, 20 << 20);
    view.fill = 0;
    at_mark = run(&pace, &view, 5, 20 << 20);
    view.fill = PACE_FILL_ONE * 9 / 10;
    near_limit = run(&pace, &view, 5, 20 << 20);
    view.fill = PACE_FILL_ONE;
    assert_in_range(at_mark, 38 << 20, 42 << 20);
    assert_in_range(near_limit, 3 << 20, 5 << 20);
    assert_int_equal(run(&pace, &view, 5, 20 << 20), 0);
}

static void when_the_store_stalls_writes_go_on_at_the_mean_of_the_last_second(void **state)
{
    struct pace pace = { 0 };
    struct pace_view view = { .now_us = 1, .fill = HALF, .is_demoting = true };
    int64_t before, during = 0;

    (void)state;
    before = run(&pace, &view, 10, 20 << 20);
    for (int i = 0; i < 100; i++) {         /* 100 ms without progress */
        view.now_us += MS;
        pace_refill(&pace, &view);
        if (pace.credit > 0)
            during += atomic_exchange(&pace.credit, 0);
    }
    assert_in_range(during, before / 10 / 2, before / 10);
}

static void what_a_large_request_takes_is_owed(void **state)
{
    struct pace pace = { 0 };
    struct pace_view view = { .now_us = 1, .fill = HALF, .is_demoting = true };
    int waited_ms = 0;

    (void)state;
    run(&pace, &view, 10, 20 << 20);
    atomic_fetch_sub(&pace.credit, 2 << 20);
    while (pace.credit <= 0) {
        view.now_us += MS;
        view.demoted_bytes += (20 << 20) / 1000;
        pace_refill(&pace, &view);
        waited_ms++;
    }
    assert_in_range(waited_ms, 90, 110);
}

static void credit_does_not_grow_while_nobody_takes_any(void **state)
{
    struct pace pace = { 0 };
    struct pace_view view = { .now_us = 1, .fill = 0, .is_demoting = true };

    (void)state;
    for (int i = 0; i < 5000; i++) {
        view.now_us += MS;
        view.demoted_bytes += (20 << 20) / 1000;
        pace_refill(&pace, &view);
    }
    assert_in_range(pace.credit, 1, (40 << 20) / 100);      /* far less than what would have come in that time */
}

static void times_without_demotion_are_not_measured(void **state)
{
    struct pace pace = { 0 };
    struct pace_view view = { .now_us = 1, .fill = HALF, .is_demoting = true };
    int64_t drain;

    (void)state;
    run(&pace, &view, 10, 20 << 20);
    drain = pace.drain;
    view.is_demoting = false;
    run(&pace, &view, 10, 0);
    view.is_demoting = true;
    run(&pace, &view, 1, 20 << 20);
    assert_in_range(pace.drain, drain * 9 / 10, drain * 11 / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_way_as_much_is_let_in_as_is_freed),
        cmocka_unit_test(less_is_let_in_the_fuller_memory_is),
        cmocka_unit_test(when_the_store_stalls_writes_go_on_at_the_mean_of_the_last_second),
        cmocka_unit_test(what_a_large_request_takes_is_owed),
        cmocka_unit_test(credit_does_not_grow_while_nobody_takes_any),
        cmocka_unit_test(times_without_demotion_are_not_measured),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
