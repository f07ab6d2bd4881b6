#include "support/unit.h"

#include <string.h>

#include "base/mem.h"
#include "engine/running_scripts.h"
#include "engine/script_start.h"
#include "engine/unit.h"
#include "engine/worker.h"

/* A unit whose script runs, without a fiber. */
struct box {
    struct engine engine;
    struct worker worker;
    struct client client;
    struct unit unit;
    struct turn turn;
    struct reply reply;
    struct call call;
    struct running_script running;
};

static const struct bytes args[] = { { "eval", 4 }, { "return 1", 8 }, { "0", 1 } };

static struct box *box_create(void)
{
    static const struct script_start start = { .source = NULL };
    struct box *box = mem_zalloc(sizeof(*box));

    box->engine.running_scripts = running_scripts_create();
    box->worker.engine = &box->engine;
    box->unit.worker = &box->worker;
    box->unit.client = &box->client;
    box->unit.args = args;
    box->unit.arg_count = 3;
    arena_init(&box->unit.arena);
    reply_init(&box->reply, 2);
    box->call = (struct call){ .engine = &box->engine, .client = &box->client, .requester = &box->client, .unit = &box->unit, .turn = &box->turn,
                               .reply = &box->reply, .args = args, .arg_count = 3 };
    running_script_begin(&box->unit, &box->call, &start, &box->running);
    return box;
}

static void box_destroy(struct box *box)
{
    running_script_end(&box->unit, &box->running);
    running_scripts_destroy(box->engine.running_scripts);
    arena_release(&box->unit.arena);
    reply_release(&box->reply);
    mem_free(box);
}

static void require_kill(struct box *box, const char *reply)
{
    reply_truncate(&box->reply, 0);
    running_scripts_kill(&box->call, false);
    assert_true(box->reply.out.size >= strlen(reply));
    assert_memory_equal(box->reply.out.data, reply, strlen(reply));
}

static void only_scripts_that_are_busy_are_killed(void **state)
{
    struct box *box = box_create();

    require_kill(box, "-NOTBUSY ");
    running_script_publish(&box->unit);
    require_kill(box, "-NOTBUSY ");
    assert_int_equal(box->unit.script_fate, SCRIPT_MAY_BE_KILLED);
    box->unit.claim.busy = UNIT_BUSY_WITH_SCRIPT;
    require_kill(box, "+OK\r\n");
    box_destroy(box);
}

/* Whichever comes first: there is no moment at which a script is killed and writes. */
static void a_script_that_is_killed_does_not_write(void **state)
{
    struct box *box = box_create();

    box->unit.claim.busy = UNIT_BUSY_WITH_SCRIPT;
    running_script_publish(&box->unit);
    require_kill(box, "+OK\r\n");
    assert_false(running_script_may_write(&box->unit));
    assert_int_equal(box->unit.script_fate, SCRIPT_IS_KILLED);
    require_kill(box, "+OK\r\n");
    box_destroy(box);
}

static void a_script_that_has_written_is_not_killed(void **state)
{
    struct box *box = box_create();

    box->unit.claim.busy = UNIT_BUSY_WITH_SCRIPT;
    running_script_publish(&box->unit);
    assert_true(running_script_may_write(&box->unit));
    require_kill(box, "-UNKILLABLE ");
    assert_int_equal(box->unit.script_fate, SCRIPT_HAS_WRITTEN);
    assert_true(running_script_may_write(&box->unit));
    box_destroy(box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_scripts_that_are_busy_are_killed),
        cmocka_unit_test(a_script_that_is_killed_does_not_write),
        cmocka_unit_test(a_script_that_has_written_is_not_killed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
