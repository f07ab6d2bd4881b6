#include "lifecycle/task.h"

#include <stdatomic.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "base/waiting.h"

/* Rules: what the task of the row does while that of the column runs; TASK_PARALLEL where there is no entry.
 *
 * Rewrites and background saves compete for the disk: one that is scheduled comes after the other. A rewrite that is due by the log's size
 * does not wait for a save, which may take long; only the two images are taken one after another. A switch of the log waits for the
 * rewrite of the log it leaves, and no rewrite begins until it is done. A shutdown lets a switch come to its end, so that the data is in
 * the log or in a dump; it cancels a save, and takes its own dump then. Backups and full syncs run beside everything. A reload begins when no file of the
 * log can change under it, and nothing that would change one begins until it is done. */
static const enum task_rule rules[TASK_COUNT][TASK_COUNT] = {
    [TASK_REWRITE] = { [TASK_SAVE] = TASK_POSTPONED, [TASK_AOF_SWITCH] = TASK_REFUSED, [TASK_RELOAD] = TASK_REFUSED },
    [TASK_SAVE] = { [TASK_REWRITE] = TASK_POSTPONED, [TASK_RELOAD] = TASK_POSTPONED },
    [TASK_AOF_SWITCH] = { [TASK_REWRITE] = TASK_WAITS, [TASK_RELOAD] = TASK_WAITS },
    [TASK_SHUTDOWN] = { [TASK_AOF_SWITCH] = TASK_WAITS, [TASK_RELOAD] = TASK_WAITS },
    [TASK_RELOAD] = { [TASK_REWRITE] = TASK_WAITS, [TASK_AOF_SWITCH] = TASK_REFUSED, [TASK_SHUTDOWN] = TASK_REFUSED },
};

struct task_state {
    _Atomic bool running;           /* changed with the lock */
    struct thread thread;           /* the lock; and no other thread looks at it while the task is claimed */
};

struct tasks {
    struct mutex lock;              /* leaf */
    struct waiting *waiting;
    struct task_state states[TASK_COUNT];
    struct meter *meter;
};

static const char *const names[TASK_COUNT] = {
    [TASK_REWRITE] = "kelvin-rewrite", [TASK_SAVE] = "kelvin-save", [TASK_AOF_SWITCH] = "kelvin-switch", [TASK_BACKUP] = "kelvin-backup",
    [TASK_SHUTDOWN] = "kelvin-shutdown", [TASK_RELOAD] = "kelvin-reload", [TASK_FULL_SYNC] = "kelvin-sync",
};

struct tasks *tasks_create(struct meter *meter, struct waiting *waiting)
{
    struct tasks *tasks = mem_zalloc(sizeof(*tasks));

    tasks->meter = meter;
    mutex_init(&tasks->lock);
    tasks->waiting = waiting;
    return tasks;
}

void tasks_destroy(struct tasks *tasks)
{
    if (tasks == NULL)
        return;
    mutex_release(&tasks->lock);
    mem_free(tasks);
}

bool task_is_running(const struct tasks *tasks, enum task task)
{
    return tasks->states[task].running;
}

static bool any_runs(const struct tasks *tasks, enum task task, enum task_rule rule)
{
    for (int other = 0; other < TASK_COUNT; other++) {
        if (rules[task][other] == rule && tasks->states[other].running)
            return true;
    }
    return false;
}

bool task_is_postponed(const struct tasks *tasks, enum task task)
{
    return any_runs(tasks, task, TASK_POSTPONED);
}

bool task_must_wait(const struct tasks *tasks, enum task task)
{
    return any_runs(tasks, task, TASK_WAITS);
}

bool task_claim(struct tasks *tasks, enum task task)
{
    bool claimed;

    mutex_lock(&tasks->lock);
    claimed = !tasks->states[task].running && !any_runs(tasks, task, TASK_REFUSED);
    if (claimed)
        tasks->states[task].running = true;
    mutex_unlock(&tasks->lock);
    return claimed;
}

void task_join(struct tasks *tasks, enum task task)
{
    thread_join(&tasks->states[task].thread);
}

/* The thread may end, and the task be claimed again, before this has returned: under the lock that is noticed after the thread is noted. */
int task_run(struct tasks *tasks, enum task task, thread_main *run, void *context)
{
    struct task_state *state = &tasks->states[task];
    int error;

    CHECK(state->running);
    task_join(tasks, task);         /* its last thread has ended but for its last lines */
    mutex_lock(&tasks->lock);
    error = thread_start(&state->thread, names[task], tasks->meter, run, context);
    mutex_unlock(&tasks->lock);
    return error;
}

void task_end(struct tasks *tasks, enum task task)
{
    mutex_lock(&tasks->lock);
    tasks->states[task].running = false;
    mutex_unlock(&tasks->lock);
    waiting_bump(tasks->waiting);
}

void task_await_end(struct tasks *tasks, enum task task)
{
    for (;;) {
        uint32_t version = waiting_version(tasks->waiting);

        if (!task_is_running(tasks, task))
            return;
        waiting_wait(tasks->waiting, version, -1);
    }
}
