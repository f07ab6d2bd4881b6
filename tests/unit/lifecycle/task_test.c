/* What excludes what: every pair of tasks. */
#include "lifecycle/task.h"

#include "support/unit.h"

#include "base/clock.h"
#include "base/waiting.h"

/* What the task of the row does while that of the column runs: refused, postponed, waits, or - both run. The diagonal: one at a time. */
static const char *const expected[TASK_COUNT] = {
    /*                    rewrite save switch backup shutdown reload sync */
    [TASK_REWRITE]    =  "R       P    R      -      -        R      -",
    [TASK_SAVE]       =  "P       R    -      -      -        P      -",
    [TASK_AOF_SWITCH] =  "W       -    R      -      -        W      -",
    [TASK_BACKUP]     =  "-       -    -      R      -        -      -",
    [TASK_SHUTDOWN]   =  "-       -    W      -      R        W      -",
    [TASK_RELOAD]     =  "W       -    R      -      R        R      -",
    [TASK_FULL_SYNC]  =  "-       -    -      -      -        -      R",
};

static const int columns[TASK_COUNT] = {
    [TASK_REWRITE] = 0, [TASK_SAVE] = 8, [TASK_AOF_SWITCH] = 13, [TASK_BACKUP] = 20, [TASK_SHUTDOWN] = 27, [TASK_RELOAD] = 36, [TASK_FULL_SYNC] = 43,
};

static void what_excludes_what(void **state)
{
    (void)state;
    for (int other = 0; other < TASK_COUNT; other++) {
        for (int task = 0; task < TASK_COUNT; task++) {
            struct waiting waiting = { 0 };
            struct tasks *tasks = tasks_create(NULL, &waiting, NULL);
            char rule = expected[task][columns[other]];
            bool mine;

            assert_true(task_claim(tasks, (enum task)other));
            assert_int_equal(task_is_postponed(tasks, (enum task)task), rule == 'P');
            assert_int_equal(task_must_wait(tasks, (enum task)task), rule == 'W');
            mine = task_claim(tasks, (enum task)task);
            assert_int_equal(mine, rule != 'R');
            task_end(tasks, (enum task)other, STATUS_OK);
            assert_false(task_is_postponed(tasks, (enum task)task) || task_must_wait(tasks, (enum task)task));
            assert_int_equal(task_is_running(tasks, (enum task)task), mine && task != other);
            if (!mine)
                assert_true(task_claim(tasks, (enum task)task));
            tasks_destroy(tasks);
        }
    }
}

struct passage {
    struct tasks *tasks;
    int *count;
};

static void pass(void *context)
{
    struct passage *passage = context;

    ++*passage->count;
    task_end(passage->tasks, TASK_SAVE, STATUS_OK);
}

/* The thread of the run before has ended but for its last lines when the task is claimed again. */
static void a_task_runs_again_and_again(void **state)
{
    struct waiting waiting = { 0 };
    struct tasks *tasks = tasks_create(NULL, &waiting, NULL);
    int count = 0;
    struct passage passage = { tasks, &count };

    (void)state;
    for (int i = 0; i < 200; i++) {
        uint32_t version = waiting_version(&waiting);

        assert_true(task_claim(tasks, TASK_SAVE));
        assert_int_equal(task_run(tasks, TASK_SAVE, pass, &passage), TASK_STARTED);
        waiting_wait(&waiting, version, -1);
        assert_false(task_is_running(tasks, TASK_SAVE));
        task_await_end(tasks, TASK_SAVE);
        assert_int_equal(count, i + 1);
    }
    task_join(tasks, TASK_SAVE);
    tasks_destroy(tasks);
}

static void a_closed_task_is_claimed_by_the_last_caller_only(void **state)
{
    struct waiting waiting = { 0 };
    struct tasks *tasks = tasks_create(NULL, &waiting, NULL);

    (void)state;
    assert_true(task_is_possible(tasks, TASK_SAVE) && task_claim(tasks, TASK_SAVE));
    task_close(tasks, TASK_SAVE);
    assert_true(task_is_closed(tasks, TASK_SAVE));
    task_end(tasks, TASK_SAVE, STATUS_OK);
    assert_false(task_is_possible(tasks, TASK_SAVE) || task_claim(tasks, TASK_SAVE));
    assert_true(task_is_possible(tasks, TASK_BACKUP));
    task_claim_last(tasks, TASK_SAVE);
    assert_true(task_is_running(tasks, TASK_SAVE));
    task_give_back(tasks, TASK_SAVE);
    assert_false(task_claim(tasks, TASK_SAVE));
    task_open(tasks, TASK_SAVE);
    assert_true(task_claim(tasks, TASK_SAVE));
    task_end(tasks, TASK_SAVE, STATUS_OK);
    tasks_destroy(tasks);
}

static void ends_are_counted_and_claims_without_work_are_not(void **state)
{
    static const enum status ends[] = { STATUS_OK, STATUS_IO, STATUS_CANCELLED, STATUS_OK };
    static const uint64_t failures[] = { 0, 1, 2, 0 };
    struct waiting waiting = { 0 };
    struct tasks *tasks = tasks_create(NULL, &waiting, NULL);
    struct task_stats stats = task_stats(tasks, TASK_REWRITE);

    (void)state;
    assert_true(stats.began_ms > 0 && stats.running_ms == -1 && stats.last_ms == -1 && stats.count == 0);
    for (int i = 0; i < 4; i++) {
        assert_true(task_claim(tasks, TASK_REWRITE));
        assert_true(task_stats(tasks, TASK_REWRITE).running_ms >= 0);
        task_end(tasks, TASK_REWRITE, ends[i]);
        stats = task_stats(tasks, TASK_REWRITE);
        assert_true(stats.running_ms == -1 && stats.last_ms >= 0);
        assert_int_equal(stats.count, i + 1);
        assert_int_equal(stats.failures, failures[i]);
        assert_int_equal(stats.failed_ms > 0, i > 0);
        while (clock_mono_us() / 1000 == stats.began_ms)
            ;
        assert_true(task_claim(tasks, TASK_REWRITE));
        task_give_back(tasks, TASK_REWRITE);
        assert_int_equal(task_stats(tasks, TASK_REWRITE).count, i + 1);
        assert_int_equal(task_stats(tasks, TASK_REWRITE).began_ms, stats.began_ms);
    }
    assert_int_equal(task_stats(tasks, TASK_SAVE).count, 0);
    tasks_destroy(tasks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_excludes_what),
        cmocka_unit_test(a_task_runs_again_and_again),
        cmocka_unit_test(a_closed_task_is_claimed_by_the_last_caller_only),
        cmocka_unit_test(ends_are_counted_and_claims_without_work_are_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
