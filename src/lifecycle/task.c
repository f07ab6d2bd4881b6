#include "lifecycle/task.h"

#include <stdatomic.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
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
    _Atomic bool running, closed;   /* changed with the lock */
    struct thread thread;           /* the lock; and no other thread looks at it while the task is claimed */
    struct task_stats stats;        /* the lock. running_ms is filled in by task_stats */
    int64_t began_before_ms;        /* the lock: stats.began_ms of the claim before this one */
};

struct tasks {
    struct mutex lock;              /* leaf */
    struct waiting *waiting;
    struct task_state states[TASK_COUNT];
    struct meter *meter;
    struct log *log;
};

static const struct {
    const char *thread;
    const char *what;               /* in the log */
} rows[TASK_COUNT] = {
    [TASK_REWRITE] = { "kelvin-rewrite", "rewrite append only file in background" },
    [TASK_SAVE] = { "kelvin-save", "save" },
    [TASK_AOF_SWITCH] = { "kelvin-switch", "switch the AOF on or off" },
    [TASK_BACKUP] = { "kelvin-backup", "make a backup" },
    [TASK_SHUTDOWN] = { "kelvin-shutdown", "prepare the end in background" },
    [TASK_RELOAD] = { "kelvin-reload", "reload the data set" },
    [TASK_FULL_SYNC] = { "kelvin-sync", "start a full sync" },
};

static int64_t now_ms(void)
{
    return clock_mono_us() / 1000;
}

struct tasks *tasks_create(struct meter *meter, struct waiting *waiting, struct log *log)
{
    struct tasks *tasks = mem_zalloc(sizeof(*tasks));

    tasks->meter = meter;
    tasks->log = log;
    mutex_init(&tasks->lock);
    tasks->waiting = waiting;
    for (int task = 0; task < TASK_COUNT; task++)
        tasks->states[task].stats = (struct task_stats){ .began_ms = now_ms(), .last_ms = -1 };
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

bool task_is_closed(const struct tasks *tasks, enum task task)
{
    return tasks->states[task].closed;
}

static bool is_possible(const struct tasks *tasks, enum task task)
{
    return !tasks->states[task].running && !tasks->states[task].closed && !any_runs(tasks, task, TASK_REFUSED);
}

bool task_is_possible(struct tasks *tasks, enum task task)
{
    bool possible;

    mutex_lock(&tasks->lock);
    possible = is_possible(tasks, task);
    mutex_unlock(&tasks->lock);
    return possible;
}

static void begin_claim(struct task_state *state)
{
    state->running = true;
    state->began_before_ms = state->stats.began_ms;
    state->stats.began_ms = now_ms();
}

bool task_claim(struct tasks *tasks, enum task task)
{
    bool claimed;

    mutex_lock(&tasks->lock);
    claimed = is_possible(tasks, task);
    if (claimed)
        begin_claim(&tasks->states[task]);
    mutex_unlock(&tasks->lock);
    return claimed;
}

static void set_closed(struct tasks *tasks, enum task task, bool closed)
{
    mutex_lock(&tasks->lock);
    tasks->states[task].closed = closed;
    mutex_unlock(&tasks->lock);
    waiting_bump(tasks->waiting);
}

void task_close(struct tasks *tasks, enum task task)
{
    set_closed(tasks, task, true);
}

void task_open(struct tasks *tasks, enum task task)
{
    set_closed(tasks, task, false);
}

void task_claim_last(struct tasks *tasks, enum task task)
{
    CHECK(task_is_closed(tasks, task));
    task_await_end(tasks, task);
    mutex_lock(&tasks->lock);
    begin_claim(&tasks->states[task]);
    mutex_unlock(&tasks->lock);
}

void task_join(struct tasks *tasks, enum task task)
{
    thread_join(&tasks->states[task].thread);
}

static void note_failure(struct task_stats *stats)
{
    stats->failures++;
    stats->failed_ms = now_ms();
}

/* The thread may end, and the task be claimed again, before this has returned: under the lock that is noticed after the thread is noted. */
enum task_start task_run(struct tasks *tasks, enum task task, thread_main *run, void *context)
{
    struct task_state *state = &tasks->states[task];
    int error;

    CHECK(state->running);
    task_join(tasks, task);         /* its last thread has ended but for its last lines */
    mutex_lock(&tasks->lock);
    error = thread_start(&state->thread, rows[task].thread, tasks->meter, run, context);
    if (error != 0)
        note_failure(&state->stats);
    mutex_unlock(&tasks->lock);
    if (error == 0)
        return TASK_STARTED;
    log_write(tasks->log, LOG_LEVEL_WARNING, "Can't %s: no thread: %s", rows[task].what, strerror(error));
    task_give_back(tasks, task);
    return TASK_NO_THREAD;
}

static void note_end(struct task_stats *stats, enum status status)
{
    stats->last_ms = now_ms() - stats->began_ms;
    stats->count++;
    if (status == STATUS_OK)
        stats->failures = 0;
    else
        note_failure(stats);
}

void task_end(struct tasks *tasks, enum task task, enum status status)
{
    mutex_lock(&tasks->lock);
    note_end(&tasks->states[task].stats, status);
    tasks->states[task].running = false;
    mutex_unlock(&tasks->lock);
    waiting_bump(tasks->waiting);
}

void task_give_back(struct tasks *tasks, enum task task)
{
    struct task_state *state = &tasks->states[task];

    mutex_lock(&tasks->lock);
    state->stats.began_ms = state->began_before_ms;
    state->running = false;
    mutex_unlock(&tasks->lock);
    waiting_bump(tasks->waiting);
}

struct task_stats task_stats(struct tasks *tasks, enum task task)
{
    const struct task_state *state = &tasks->states[task];
    struct task_stats stats;

    mutex_lock(&tasks->lock);
    stats = state->stats;
    stats.running_ms = state->running ? now_ms() - stats.began_ms : -1;
    mutex_unlock(&tasks->lock);
    return stats;
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
