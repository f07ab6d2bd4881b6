/* What excludes what: every pair of tasks. */
#include "lifecycle/task.h"

#include "support/unit.h"

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
            struct tasks *tasks = tasks_create(NULL, &waiting);
            char rule = expected[task][columns[other]];
            bool mine;

            assert_true(task_claim(tasks, (enum task)other));
            assert_int_equal(task_is_postponed(tasks, (enum task)task), rule == 'P');
            assert_int_equal(task_must_wait(tasks, (enum task)task), rule == 'W');
            mine = task_claim(tasks, (enum task)task);
            assert_int_equal(mine, rule != 'R');
            task_end(tasks, (enum task)other);
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
    task_end(passage->tasks, TASK_SAVE);
}

/* The thread of the run before has ended but for its last lines when the task is claimed again. */
static void a_task_runs_again_and_again(void **state)
{
    struct waiting waiting = { 0 };
    struct tasks *tasks = tasks_create(NULL, &waiting);
    int count = 0;
    struct passage passage = { tasks, &count };

    (void)state;
    for (int i = 0; i < 200; i++) {
        uint32_t version = waiting_version(&waiting);

        assert_true(task_claim(tasks, TASK_SAVE));
        assert_int_equal(task_run(tasks, TASK_SAVE, pass, &passage), 0);
        waiting_wait(&waiting, version, -1);
        assert_false(task_is_running(tasks, TASK_SAVE));
        task_await_end(tasks, TASK_SAVE);
        assert_int_equal(count, i + 1);
    }
    task_join(tasks, TASK_SAVE);
    tasks_destroy(tasks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_excludes_what),
        cmocka_unit_test(a_task_runs_again_and_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
