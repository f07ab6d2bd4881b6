/* FAILOVER, and clients that abort it: an engine without sockets and link, whose only replica does not get on. */
#include "replication/failover.h"

#include "support/unit.h"

#include <sched.h>

#include "base/mem.h"
#include "engine/job.h"
#include "engine/worker.h"
#include "replication/primary.h"
#include "stream/backlog.h"
#include "support/engine_box.h"

struct box {
    struct engine_box base;
    struct client replica;
    struct failover *failover;
};

static int open_box(void **state)
{
    static const struct command *const families[] = { NULL };
    struct box *box = mem_zalloc(sizeof(*box));
    struct engine *engine = &box->base.engine;
    struct backlog_options options = { .memory_size = 1 << 20 };

    engine_box_open(&box->base, families, 1);
    engine->log = log_create("/dev/null", LOG_LEVEL_NOTHING, NULL, 0);
    engine->jobs = job_pool_create(engine, 1);
    engine->replication.primary = primary_create(engine);
    history_init(&engine->history);
    history_open_backlog(&engine->history, &options);
    engine_box_add(&box->base, 0, &box->replica, 1, 0);
    primary_psync(&box->replica, BYTES("?"), -1);
    assert_int_equal(primary_count(engine->replication.primary), 1);
    box->failover = failover_create(engine);
    *state = box;
    return 0;
}

static int close_box(void **state)
{
    struct box *box = *state;
    struct engine *engine = &box->base.engine;

    failover_stop(box->failover);
    failover_destroy(box->failover);
    worker_read_mail(&box->base.workers[0]);        /* a barrier may still be there */
    primary_forget(&box->replica);
    engine_box_remove(&box->replica);
    primary_destroy(engine->replication.primary);
    job_pool_destroy(engine->jobs);
    history_release(&engine->history);
    log_destroy(engine->log);
    engine_box_close(&box->base);
    mem_free(box);
    return 0;
}

static enum failover_result begin(struct box *box)
{
    return failover_start(box->failover, &(struct failover_request){ .timeout_ms = 0 });
}

/* Turns of the worker let it pass: until then a failover waits for the worker's calls to end, even if it is aborted. */
static void turn_until_it_has_ended(struct box *box)
{
    while (failover_state(box->failover) != VIEW_NO_FAILOVER) {
        worker_read_mail(&box->base.workers[0]);
        sched_yield();
    }
}

static void an_abort_does_not_wait_for_the_next_failover(void **state)
{
    struct box *box = *state;
    uint64_t first, second;

    assert_int_equal(failover_abort(box->failover), 0);
    assert_int_equal(begin(box), FAILOVER_STARTED);
    assert_int_equal(begin(box), FAILOVER_IN_PROGRESS);
    first = failover_abort(box->failover);
    turn_until_it_has_ended(box);
    assert_int_equal(begin(box), FAILOVER_STARTED);
    failover_await_end(box->failover, first);               /* returns, or the test hangs: without a turn the second one does not end */
    assert_int_equal(failover_state(box->failover), VIEW_FAILOVER_WAITS);
    second = failover_abort(box->failover);
    assert_true(first != 0 && second != 0 && second != first);
    turn_until_it_has_ended(box);
    failover_await_end(box->failover, second);
    assert_int_equal(failover_abort(box->failover), 0);
    assert_false(box->base.engine.holds_writes);
}

static void an_abort_ends_the_failover_that_runs_only(void **state)
{
    struct box *box = *state;

    assert_int_equal(begin(box), FAILOVER_STARTED);
    failover_abort(box->failover);
    turn_until_it_has_ended(box);
    assert_int_equal(begin(box), FAILOVER_STARTED);
    for (uint64_t asked = history_end(&box->base.engine.history); history_end(&box->base.engine.history) == asked; sched_yield())
        worker_read_mail(&box->base.workers[0]);            /* it goes on: it asks replicas for ACKs */
    assert_int_equal(failover_state(box->failover), VIEW_FAILOVER_WAITS);
    failover_abort(box->failover);
    turn_until_it_has_ended(box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_abort_does_not_wait_for_the_next_failover, open_box, close_box),
        cmocka_unit_test_setup_teardown(an_abort_ends_the_failover_that_runs_only, open_box, close_box),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
