/* Tasks: background work on the data set as a whole. Each kind runs on a thread of its own, at most once at a time.
 *
 *     if (!task_claim(tasks, TASK_BACKUP))             it runs, it is closed, or a task runs that excludes it (task_rule)
 *         return TASK_BUSY;
 *     ... fields of the task: until it has ended they belong to the caller that claimed it, then to its thread ...
 *     return task_run(tasks, TASK_BACKUP, backups_main, backups);
 *
 * The thread calls task_end when its work is done; after that it touches no field of the task. Begin, end and failures are counted here.
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

#include "base/status.h"
#include "base/thread.h"

struct log;
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
struct tasks *tasks_create(struct meter *meter, struct waiting *waiting, struct log *log);
void tasks_destroy(struct tasks *tasks);        /* all have been joined; NULL is fine */

/* How a caller's request to begin a task ends. */
enum task_start {
    TASK_STARTED,
    TASK_BUSY,          /* task_claim returned false */
    TASK_NO_THREAD,     /* the system gives no thread; the log says so. It counts as a failure, and the task is not claimed any more */
};

/* False: it runs already, or one that it is TASK_REFUSED for, or it was closed. */
bool task_claim(struct tasks *tasks, enum task task);
/* Starts the thread of a claimed task: TASK_STARTED or TASK_NO_THREAD. */
enum task_start task_run(struct tasks *tasks, enum task task, thread_main *run, void *context);
/* The work of a claimed task is done, or has failed. */
void task_end(struct tasks *tasks, enum task task, enum status status);
/* Ends a claim without work: it does not count as one that began. */
void task_give_back(struct tasks *tasks, enum task task);

/* Closes a task: it can't be claimed until task_open, but by the caller of task_claim_last, which waits for the end of the one that runs. */
void task_close(struct tasks *tasks, enum task task);
void task_claim_last(struct tasks *tasks, enum task task);
void task_open(struct tasks *tasks, enum task task);
bool task_is_closed(const struct tasks *tasks, enum task task);

/* Claimed, and not ended. */
bool task_is_running(const struct tasks *tasks, enum task task);
/* task_claim would return true. */
bool task_is_possible(struct tasks *tasks, enum task task);
bool task_is_postponed(const struct tasks *tasks, enum task task);
bool task_must_wait(const struct tasks *tasks, enum task task);

struct task_stats {
    int64_t began_ms;           /* monotonic: the last one, or tasks_create */
    int64_t running_ms;         /* -1: it does not run */
    int64_t last_ms;            /* how long the last one took that has ended; -1: none has */
    int64_t failed_ms;          /* monotonic: the last failure. 0: none yet */
    uint64_t count;             /* that have ended */
    uint64_t failures;          /* in a row */
};
struct task_stats task_stats(struct tasks *tasks, enum task task);

/* Until it does not run. */
void task_await_end(struct tasks *tasks, enum task task);
/* Joins the thread, if there is one. Nothing starts the task any more. */
void task_join(struct tasks *tasks, enum task task);

#endif
