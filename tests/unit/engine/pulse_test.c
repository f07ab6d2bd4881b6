/* Whether workers take their turns, as looks at their counters tell. */
#include "support/unit.h"

#include "commands/rows.h"
#include "engine/pulse.h"
#include "support/engine_box.h"

enum { PATIENCE_MS = 7500 };            /* half of cluster-node-timeout */

struct box {
    struct engine_box base;
    struct pulse *pulse;
};

static int setup(void **state)
{
    static const struct command *const families[] = { string_commands, NULL };
    static struct box box;

    engine_box_open(&box.base, families, 2);
    box.pulse = pulse_create(&box.base.engine);
    *state = &box;
    return 0;
}

static int teardown(void **state)
{
    struct box *box = *state;

    pulse_destroy(box->pulse);
    engine_box_close(&box->base);
    return 0;
}

static void take_turn(struct box *box, int worker)
{
    turn_count(&box->base.workers[worker].turn, STAT_TURNS, 1);
}

static void one_worker_that_hangs_is_noticed(void **state)
{
    struct box *box = *state;

    assert_true(pulse_look(box->pulse, 1000));
    take_turn(box, 0);
    take_turn(box, 1);
    assert_true(pulse_look(box->pulse, 5000));
    take_turn(box, 0);
    assert_true(pulse_look(box->pulse, 5000 + PATIENCE_MS));
    take_turn(box, 0);
    assert_false(pulse_look(box->pulse, 5001 + PATIENCE_MS));
    take_turn(box, 1);
    assert_true(pulse_look(box->pulse, 5002 + PATIENCE_MS));
}

/* A caller that looks seldom does not see when the turns were taken. */
static void turns_since_the_last_look_count_as_now(void **state)
{
    struct box *box = *state;

    assert_true(pulse_look(box->pulse, 1000));
    take_turn(box, 0);
    take_turn(box, 1);
    assert_true(pulse_look(box->pulse, 1000000));
    assert_true(pulse_look(box->pulse, 1000000 + PATIENCE_MS));
    assert_false(pulse_look(box->pulse, 1000001 + PATIENCE_MS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_worker_that_hangs_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(turns_since_the_last_look_count_as_now, setup, teardown),
    };

    return cmocka_run_group_tests_name("engine/pulse", tests, NULL, NULL);
}
