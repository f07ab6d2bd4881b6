/* Tasks: background work on the data set as a whole. Each kind runs on a thread of its own, at most once at a time.
 *
 *     if (!task_claim(tasks, TASK_SAVE))               another one runs, or a task that excludes this one (task_rule)
 *         return;
 *     ... fields of the task: until it has ended they belong to the caller that claimed it, then to its thread ...
 *     error = task_run(tasks, TASK_SAVE, save_main, save);
 *     if (error != 0)
 *         task_end(tasks, TASK_SAVE);                  the system gives no thread: the claim is given back, or the work done in place
 *
 * The thread calls task_end when its work is done; after that it touches no field of the task.
 *
 * A thread that waits for anything that concerns tasks waits for a change (base/waiting.h) of what it gave to tasks_create, which is
 * engine->waiting: every end of a task is one.
 *
 * Any thread, any lock: the lock is a leaf.
 */
#ifndef KELVIN_LIFECYCLE_TASK_H
#define KELVIN_LIFECYCLE_TASK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/thread.h"

struct meter;
struct tasks;
struct waiting;

enum task { TASK_REWRITE, TASK_SAVE, TASK_AOF_SWITCH, TASK_BACKUP, TASK_SHUTDOWN, TASK_RELOAD, TASK_FULL_SYNC, TASK_COUNT };

/* Rule of a task about another one that runs. */
enum task_rule {
    TASK_PARALLEL,      /* nothing: both run */
    TASK_REFUSED,       /* task_claim returns false */
    TASK_POSTPONED,     /* one that was scheduled is started later (task_is_postponed); one that is due at once is started */
    TASK_WAITS,         /* it starts, and its thread waits for the end of the other one (task_must_wait) */
};

/* The meter counts the memory of their threads. */
struct tasks *tasks_create(struct meter *meter, struct waiting *waiting);
void tasks_destroy(struct tasks *tasks);        /* all have been joined; NULL is fine */

/* False: it runs already, or one that it is TASK_REFUSED for. */
bool task_claim(struct tasks *tasks, enum task task);
/* Starts the thread of a claimed task. Returns 0, or the error number: the task is still claimed. */
int task_run(struct tasks *tasks, enum task task, thread_main *run, void *context);
void task_end(struct tasks *tasks, enum task task);

/* Claimed, and not ended. */
bool task_is_running(const struct tasks *tasks, enum task task);
bool task_is_postponed(const struct tasks *tasks, enum task task);
bool task_must_wait(const struct tasks *tasks, enum task task);

/* Until it does not run. */
void task_await_end(struct tasks *tasks, enum task task);
/* Joins the thread, if there is one. Nothing starts the task any more. */
void task_join(struct tasks *tasks, enum task task);

#endif
