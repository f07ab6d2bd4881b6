#include "lifecycle/shutdown.h"

#include <signal.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/mutex.h"
#include "engine/engine.h"
#include "engine/role.h"
#include "lifecycle/aof_switch.h"
#include "lifecycle/full_sync.h"
#include "lifecycle/rewrite.h"
#include "lifecycle/save.h"
#include "lifecycle/task.h"

struct shutdown {
    struct engine *engine;
    struct mutex lock;           /* before the job pool's */
    /* The task is claimed with the lock: it runs while the end is prepared, and does not end once there is no way back. */
    bool ending;                    /* lock: there is no way back */
    _Atomic bool insisted;          /* changed with the lock: ends without a dump, whatever was asked before */
    _Atomic bool aborted;           /* changed with the lock */
    _Atomic bool hurried;           /* changed with the lock: replicas are not waited for */
    _Atomic int64_t until_ms;       /* monotonic; replicas are waited for until then. 0: they are not */
    int flags, status;              /* lock */
    struct job *waiting;            /* lock: list */
    /* Asked for after it was aborted, and before the abort was complete: another one follows. */
    bool again;                     /* lock */
    int again_flags;                /* lock */
    struct job *again_waiting;      /* lock: list */
};

struct shutdown *shutdown_create(struct engine *engine)
{
    struct shutdown *shutdown = mem_zalloc(sizeof(*shutdown));

    shutdown->engine = engine;
    mutex_init(&shutdown->lock);
    return shutdown;
}

static struct job *take_waiting(struct shutdown *shutdown) REQUIRES(shutdown->lock);
static struct job *take_waiting(struct shutdown *shutdown)
{
    struct job *list = shutdown->waiting;

    shutdown->waiting = NULL;
    return list;
}

static void finish_jobs(struct engine *engine, struct job *list)
{
    while (list != NULL) {
        struct job *next = list->next;

        job_finish(engine->jobs, list);
        list = next;
    }
}

static void log_refusal(const struct shutdown *shutdown)
{
    struct log *log = shutdown->engine->log;

    if (shutdown->aborted)
        log_write(log, LOG_LEVEL_NOTICE, "Shutdown manually aborted.");
    else
        log_write(log, LOG_LEVEL_WARNING, "Errors trying to shut down the server. Check the logs for more information.");
}

/* All goes on as if nothing had been asked. */
static void refuse_end(struct shutdown *shutdown) REQUIRES(shutdown->lock);
static void refuse_end(struct shutdown *shutdown)
{
    struct engine *engine = shutdown->engine;

    log_refusal(shutdown);
    shutdown->aborted = shutdown->hurried = false;
    save_reopen(engine->lifecycle.save);
    rewrite_allow(engine->lifecycle.rewrite);
    aof_switch_go_on(engine->lifecycle.aof_switch);
    engine->frozen = false;
    parking_notify(engine, PARKED_FOR_PAUSE);
    if (!shutdown->again) {
        task_give_back(engine->tasks, TASK_SHUTDOWN);
        return;
    }
    log_write(engine->log, LOG_LEVEL_NOTICE, "User requested shutdown...");
    shutdown->again = false;
    shutdown->flags = shutdown->again_flags;
    shutdown->waiting = shutdown->again_waiting;
    shutdown->again_waiting = NULL;
}

/* --- replicas --- */

enum { LOOK_MS = 10 };

static bool is_over(const struct shutdown *shutdown)
{
    return shutdown->hurried || shutdown->aborted || clock_mono_us() / 1000 >= shutdown->until_ms;
}

/* Until all replicas have acknowledged the history up to `lsn`. False: the time is over, or they are not to be waited for any more. */
static bool await_acknowledged(struct shutdown *shutdown, uint64_t lsn)
{
    struct engine *engine = shutdown->engine;
    int count;

    while (engine->upper.lagging(engine, lsn, false, &count) > 0) {
        if (is_over(shutdown))
            return false;
        waiting_wait(&engine->waiting, waiting_version(&engine->waiting), LOOK_MS);
    }
    return true;
}

static uint64_t end_of_history(struct engine *engine)
{
    struct history_point point;

    history_point(&engine->history, &point);
    return point.lsn;
}

/* Calls that ran when writes began to wait may still add to the history, so its end is looked at again; not on a replica, whose history goes on
 * with its primary's. Returns what was waited for last. */
static uint64_t await_end_of_history(struct shutdown *shutdown)
{
    struct engine *engine = shutdown->engine;
    uint64_t lsn, after;

    do {
        lsn = end_of_history(engine);
        engine->upper.ask_replicas(engine);
        after = end_of_history(engine);
    } while (await_acknowledged(shutdown, lsn) && end_of_history(engine) != after && !role_is_replica(engine));
    return lsn;
}

static void log_replicas(struct engine *engine, uint64_t lsn)
{
    int count, lagging = engine->upper.lagging(engine, lsn, true, &count);

    if (count > 0)
        log_write(engine->log, LOG_LEVEL_NOTICE, "%d of %d replicas are in sync when shutting down.", count - lagging, count);
}

/* A start, or a full synchronization of a replica. */
static bool is_loading(const struct engine *engine)
{
    return engine->state == ENGINE_LOADING || role_is_syncing(engine);
}

static bool has_lagging(struct engine *engine)
{
    int count;

    return engine->upper.lagging != NULL && !is_loading(engine) &&
        engine->upper.lagging(engine, end_of_history(engine), false, &count) > 0;
}

/* Writes wait from here on; refuse_end lets them go on. */
static void await_replicas(struct shutdown *shutdown)
{
    struct engine *engine = shutdown->engine;
    int64_t timeout_ms = config_number(engine->config, CONFIG_SHUTDOWN_TIMEOUT) * 1000;
    uint64_t lsn = 0;

    if (!has_lagging(engine))
        return;
    if (timeout_ms > 0 && !shutdown->hurried) {
        log_write(engine->log, LOG_LEVEL_NOTICE, "Waiting for replicas before shutting down.");
        shutdown->until_ms = clock_mono_us() / 1000 + timeout_ms;
        engine->frozen = true;
        lsn = await_end_of_history(shutdown);
        shutdown->until_ms = 0;
    } else {
        lsn = end_of_history(engine);
    }
    if (!shutdown->aborted)
        log_replicas(engine, lsn);
}

int64_t shutdown_left_ms(const struct shutdown *shutdown)
{
    int64_t until_ms = shutdown != NULL ? shutdown->until_ms : 0, now_ms = clock_mono_us() / 1000;

    if (until_ms == 0)
        return -1;
    return until_ms > now_ms ? until_ms - now_ms : 0;
}

/* Blocks till the end, or till it is refused. */
static bool shutdown_prepare(struct engine *engine, int flags, struct message *message);

static void prepare_end(struct shutdown *shutdown)
{
    struct engine *engine = shutdown->engine;
    struct message message = { "" };
    bool ends = false, goes_on = true;
    int status = 0;

    while (goes_on) {
        struct job *refused = NULL;
        bool good, again = false;
        int flags;

        await_replicas(shutdown);
        mutex_lock(&shutdown->lock);
        flags = shutdown->flags;
        mutex_unlock(&shutdown->lock);
        good = shutdown->aborted ? false : shutdown_prepare(engine, flags, &message);
        mutex_lock(&shutdown->lock);
        ends = shutdown->ending = shutdown->insisted || (good && !shutdown->aborted);
        if (!ends) {
            refused = take_waiting(shutdown);
            again = shutdown->again;
            refuse_end(shutdown);
        }
        status = shutdown->status;
        goes_on = !ends && again;
        mutex_unlock(&shutdown->lock);
        finish_jobs(engine, refused);
    }
    if (ends) {
        full_sync_close(engine->lifecycle.full_sync);
        engine->process.end(engine->process.end_context, status);
    }
}

static void shutdown_main(void *context)
{
    prepare_end(context);
}

/* Makes work that is under way fail soon, so that the end waits for nothing. */
static void give_up(struct engine *engine)
{
    save_cancel(engine->lifecycle.save);
    rewrite_cancel(engine->lifecycle.rewrite);
    waiting_bump(&engine->waiting);
}

/* False: there is no thread for it, so that the caller has to prepare the end itself. */
static bool ask_for_end(struct shutdown *shutdown, int flags, struct job *wait) REQUIRES(shutdown->lock);
static bool ask_for_end(struct shutdown *shutdown, int flags, struct job *wait)
{
    struct engine *engine = shutdown->engine;
    bool running = task_is_running(engine->tasks, TASK_SHUTDOWN), again = running && shutdown->aborted && !(flags & CONFIG_SHUTDOWN_NOSAVE);
    struct job **waiting = again ? &shutdown->again_waiting : &shutdown->waiting;

    if (wait != NULL) {
        wait->next = *waiting;
        *waiting = wait;
    }
    if (again) {
        shutdown->again = true;
        shutdown->again_flags = flags;
        return true;
    }
    if (flags & CONFIG_SHUTDOWN_NOW) {
        shutdown->hurried = true;
        waiting_bump(&engine->waiting);
    }
    if (running && shutdown->until_ms != 0) {
        shutdown->flags |= flags;           /* it has not begun to save */
        return true;
    }
    if (running) {
        if (flags & CONFIG_SHUTDOWN_NOSAVE) {
            shutdown->insisted = true;
            give_up(engine);
        }
        return true;
    }
    log_write(engine->log, LOG_LEVEL_NOTICE, "User requested shutdown...");
    CHECK(task_claim(engine->tasks, TASK_SHUTDOWN));
    shutdown->flags = flags;
    if (task_run(engine->tasks, TASK_SHUTDOWN, shutdown_main, shutdown) == TASK_STARTED)
        return true;
    CHECK(task_claim(engine->tasks, TASK_SHUTDOWN));
    log_write(engine->log, LOG_LEVEL_WARNING, "Could not create a thread: a worker prepares the end, and serves no clients meanwhile");
    return false;
}

void shutdown_ask(struct shutdown *shutdown, int flags, struct job *wait)
{
    bool has_thread;

    mutex_lock(&shutdown->lock);
    has_thread = ask_for_end(shutdown, flags, wait);
    mutex_unlock(&shutdown->lock);
    if (!has_thread)
        prepare_end(shutdown);
}

void shutdown_signal(struct shutdown *shutdown, int number)
{
    struct engine *engine = shutdown->engine;
    int flags = (int)config_number(engine->config, number == SIGINT ? CONFIG_SHUTDOWN_ON_SIGINT : CONFIG_SHUTDOWN_ON_SIGTERM);
    bool has_thread;

    mutex_lock(&shutdown->lock);
    if (number == SIGINT && task_is_running(engine->tasks, TASK_SHUTDOWN)) {
        log_write(engine->log, LOG_LEVEL_WARNING, "You insist... exiting now.");
        shutdown->status = 1;
        flags |= CONFIG_SHUTDOWN_NOSAVE | CONFIG_SHUTDOWN_NOW;
    } else {
        log_write(engine->log, LOG_LEVEL_WARNING, "Received %s scheduling shutdown...", number == SIGINT ? "SIGINT" : "SIGTERM");
    }
    has_thread = ask_for_end(shutdown, flags, NULL);
    mutex_unlock(&shutdown->lock);
    if (!has_thread)
        prepare_end(shutdown);
}

bool shutdown_abort(struct shutdown *shutdown)
{
    bool possible;

    mutex_lock(&shutdown->lock);
    possible = task_is_running(shutdown->engine->tasks, TASK_SHUTDOWN) && !shutdown->ending && !shutdown->insisted;
    if (possible) {
        shutdown->aborted = true;
        shutdown->again = false;
        while (shutdown->again_waiting != NULL) {
            struct job *job = shutdown->again_waiting;

            shutdown->again_waiting = job->next;
            job->next = shutdown->waiting;
            shutdown->waiting = job;
        }
        give_up(shutdown->engine);
    }
    mutex_unlock(&shutdown->lock);
    return possible;
}

void shutdown_destroy(struct shutdown *shutdown)
{
    if (shutdown == NULL)
        return;
    task_join(shutdown->engine->tasks, TASK_SHUTDOWN);
    finish_jobs(shutdown->engine, shutdown->waiting);
    finish_jobs(shutdown->engine, shutdown->again_waiting);
    mutex_release(&shutdown->lock);
    mem_free(shutdown);
}

/* CONFIG SET appendonly has returned, but the log is still being created, or closed: until that is done the data may be nowhere on the disk.
 * False if the log can't be created. */
static bool await_switch(struct engine *engine)
{
    struct shutdown *shutdown = engine->lifecycle.shutdown;
    bool waits;

    aof_switch_hold(engine->lifecycle.aof_switch);
    waits = task_must_wait(engine->tasks, TASK_SHUTDOWN);
    if (waits)
        log_write(engine->log, LOG_LEVEL_NOTICE, "Waiting for the AOF to be switched before exiting.");
    for (;;) {
        uint32_t version = waiting_version(&engine->waiting);

        if (!task_must_wait(engine->tasks, TASK_SHUTDOWN) || shutdown->insisted || shutdown->aborted)
            break;
        waiting_wait(&engine->waiting, version, -1);
    }
    return !waits || !aof_switch_has_failed(engine->lifecycle.aof_switch);
}

/* Does all that must precede the end of the process (`flags`: enum config_shutdown, 0 is the default): a log that is being switched on or off
 * is finished; with save points or CONFIG_SHUTDOWN_SAVE a dump is written. False: it failed, and the server should go on as if nothing had
 * been asked; `message` says why. Never false with CONFIG_SHUTDOWN_FORCE. Blocks; not on a worker. */
static bool shutdown_prepare(struct engine *engine, int flags, struct message *message)
{
    /* Before the data is there, there is nothing to save, and a dump would replace a good one by half of it. */
    bool nosave = is_loading(engine) || flags & CONFIG_SHUTDOWN_NOSAVE, wanted;

    if (!nosave && !await_switch(engine)) {
        log_write(engine->log, LOG_LEVEL_WARNING, "The AOF can't be begun. %s", flags & CONFIG_SHUTDOWN_FORCE ? "Exit anyway." : "Can't exit.");
        if (!(flags & CONFIG_SHUTDOWN_FORCE))
            return false;
    }
    wanted = !nosave && (flags & CONFIG_SHUTDOWN_SAVE || (engine->aof == NULL && save_has_points(engine->lifecycle.save)));
    if (wanted) {
        log_write(engine->log, LOG_LEVEL_NOTICE, "Saving the final RDB snapshot before exiting.");
        engine->frozen = true;
    }
    if (save_last(engine->lifecycle.save, wanted, message)) {
        if (!nosave)
            rewrite_last(engine->lifecycle.rewrite);
        return true;
    }
    log_write(engine->log, LOG_LEVEL_WARNING, "The last dump failed: %s", message->text);
    if (flags & CONFIG_SHUTDOWN_FORCE) {
        log_write(engine->log, LOG_LEVEL_WARNING, "Error trying to save the DB. Exit anyway.");
        return true;
    }
    log_write(engine->log, LOG_LEVEL_WARNING, "Error trying to save the DB, can't exit.");
    return false;
}
