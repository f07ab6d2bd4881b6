/* The writer takes of the CPUs what the workers leave, and some of them in any case. */
#include "support/unit.h"

#include "tier/pause.h"
#include "tier/tier.h"

static void the_writer_gets_the_share_that_is_free(void **state)
{
    (void)state;
    assert_int_equal(pause_length(500, 50), 500);
    assert_int_equal(pause_length(500, 25), 1500);
    assert_int_equal(pause_length(0, 50), 0);
}

static void it_waits_longer_the_less_is_free(void **state)
{
    (void)state;
    for (int64_t percent = 16; percent <= 67; percent++)
        assert_true(pause_length(10000, percent) <= pause_length(10000, percent - 1));
    assert_true(pause_length(1000, 16) > pause_length(1000, 67));
}

static void it_never_stops_and_never_takes_a_whole_cpu(void **state)
{
    (void)state;
    assert_int_equal(pause_length(600, 0), 600 * 88 / 12);
    assert_int_equal(pause_length(600, -100), pause_length(600, 0));        /* more workers than CPUs */
    assert_int_equal(pause_length(600, 400), 600 * 33 / 67);
    assert_true(pause_length(1000000, 0) <= 20000);
}

static void a_checkpoint_has_a_fifth_of_the_time_beside_demotion(void **state)
{
    (void)state;
    assert_int_equal(pause_step_us(0), PAUSE_STEP_US);
    assert_int_equal(pause_step_us(40000), 10000);
    assert_int_equal(pause_step_us(1000000000), PAUSE_STEP_US_MAX);
}

/* Counters of the workers, as the test sets them. */
static uint64_t busy(void *context) { return *(const uint64_t *)context; }

static void what_is_free_is_what_the_workers_did_not_use(void **state)
{
    uint64_t busy_us = UINT64_C(1) << 60;           /* busier than any number of CPUs allows */
    struct tier_hooks hooks = { .context = &busy_us, .busy_us = busy };
    struct pause pause;

    (void)state;
    pause_init(&pause);
    pause_begin_step(&pause);
    (void)pause_after_step(&pause, &hooks);
    assert_true(pause.free_percent < 0 && pause.busy_us == busy_us);
    busy_us = 0;                                    /* CONFIG RESETSTAT: nothing is learned from that */
    pause.sampled_us = 0;
    (void)pause_after_step(&pause, &hooks);
    assert_true(pause.free_percent < 0 && pause.busy_us == 0);
    pause.sampled_us = 0;
    (void)pause_after_step(&pause, &hooks);
    assert_true(pause.free_percent >= 100);         /* all workers were idle */
    hooks.busy_us = NULL;
    pause.sampled_us = 0;
    (void)pause_after_step(&pause, &hooks);
    assert_true(pause.free_percent >= 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_writer_gets_the_share_that_is_free),
        cmocka_unit_test(it_waits_longer_the_less_is_free),
        cmocka_unit_test(it_never_stops_and_never_takes_a_whole_cpu),
        cmocka_unit_test(a_checkpoint_has_a_fifth_of_the_time_beside_demotion),
        cmocka_unit_test(what_is_free_is_what_the_workers_did_not_use),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
