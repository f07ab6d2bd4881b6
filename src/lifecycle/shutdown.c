#include "lifecycle/shutdown.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "base/mem.h"
#include "base/message.h"
#include "base/mutex.h"
#include "engine/engine.h"
#include "lifecycle/aof_switch.h"
#include "lifecycle/rewrite.h"
#include "lifecycle/save.h"

struct shutdown {
    struct engine *engine;
    struct mutex lock;           /* before the job pool's */
    pthread_t thread;               /* lock */
    bool started;                   /* lock: the thread is to be joined */
    bool running;                   /* lock: preparing the end, or at it */
    bool ending;                    /* lock: there is no way back */
    bool insisted;                  /* lock: ends without a dump, whatever was asked before */
    bool aborted;                   /* lock */
    int flags, status;              /* lock */
    struct job *waiting;            /* lock: list */
    /* Who asked after it was called off, and before that had come through: another one follows. */
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

static struct job *take_waiting(struct shutdown *shutdown)
{
    struct job *list = shutdown->waiting;

    shutdown->waiting = NULL;
    return list;
}

static void answer(struct engine *engine, struct job *list)
{
    while (list != NULL) {
        struct job *next = list->next;

        job_finish(engine->jobs, list);
        list = next;
    }
}

static void say_refused(const struct shutdown *shutdown)
{
    struct log *log = shutdown->engine->log;

    if (shutdown->aborted)
        log_write(log, LOG_LEVEL_NOTICE, "Shutdown manually aborted.");
    else
        log_write(log, LOG_LEVEL_WARNING, "Errors trying to shut down the server. Check the logs for more information.");
}

/* With the lock: all goes on as if nothing had been asked. */
static void refuse(struct shutdown *shutdown)
{
    struct engine *engine = shutdown->engine;

    say_refused(shutdown);
    shutdown->running = shutdown->aborted = false;
    save_reopen(engine->save);
    rewrite_cancel(engine->rewrite, false);
    aof_switch_go_on(engine->aof_switch);
    engine->frozen = false;
    if (!shutdown->again)
        return;
    log_write(engine->log, LOG_LEVEL_NOTICE, "User requested shutdown...");
    shutdown->again = false;
    shutdown->running = true;
    shutdown->flags = shutdown->again_flags;
    shutdown->waiting = shutdown->again_waiting;
    shutdown->again_waiting = NULL;
}

/* Blocks till the end, or till it is refused. */
static void prepare_end(struct shutdown *shutdown)
{
    struct engine *engine = shutdown->engine;
    struct message message = { "" };
    bool ends = false, goes_on = true;
    int status = 0;

    while (goes_on) {
        struct job *refused = NULL;
        bool good;
        int flags;

        mutex_lock(&shutdown->lock);
        flags = shutdown->flags;
        mutex_unlock(&shutdown->lock);
        meter_join(engine->meter);
        good = shutdown_prepare(engine, flags, &message);
        meter_leave(engine->meter);
        mutex_lock(&shutdown->lock);
        ends = shutdown->ending = shutdown->insisted || (good && !shutdown->aborted);
        if (!ends) {
            refused = take_waiting(shutdown);
            refuse(shutdown);
        }
        status = shutdown->status;
        goes_on = !ends && shutdown->running;
        mutex_unlock(&shutdown->lock);
        answer(engine, refused);
    }
    if (ends)
        engine->end(engine->end_context, status);
}

static void *shutdown_main(void *context)
{
    pthread_setname_np(pthread_self(), "kelvin-end");
    prepare_end(context);
    return NULL;
}

/* With the lock. */
static void join(struct shutdown *shutdown)
{
    if (shutdown->started)
        pthread_join(shutdown->thread, NULL);
    shutdown->started = false;
}

/* With the lock. False: there is no thread for it, so that the caller has to prepare the end itself. */
static bool ask(struct shutdown *shutdown, int flags, struct job *wait)
{
    bool again = shutdown->running && shutdown->aborted && !(flags & CONFIG_SHUTDOWN_NOSAVE);
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
    if (shutdown->running) {
        if (flags & CONFIG_SHUTDOWN_NOSAVE) {
            shutdown->insisted = true;
            save_cancel(shutdown->engine->save);
            rewrite_cancel(shutdown->engine->rewrite, true);
        }
        return true;
    }
    log_write(shutdown->engine->log, LOG_LEVEL_NOTICE, "User requested shutdown...");
    join(shutdown);
    shutdown->running = true;
    shutdown->flags = flags;
    shutdown->started = pthread_create(&shutdown->thread, NULL, shutdown_main, shutdown) == 0;
    if (!shutdown->started)
        log_write(shutdown->engine->log, LOG_LEVEL_WARNING, "The system gives no more threads: a worker prepares the end, and serves nobody meanwhile");
    return shutdown->started;
}

void shutdown_ask(struct shutdown *shutdown, int flags, struct job *wait)
{
    bool has_thread;

    mutex_lock(&shutdown->lock);
    has_thread = ask(shutdown, flags, wait);
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
    if (number == SIGINT && shutdown->running) {
        log_write(engine->log, LOG_LEVEL_WARNING, "You insist... exiting now.");
        shutdown->status = 1;
        flags |= CONFIG_SHUTDOWN_NOSAVE;
    } else {
        log_write(engine->log, LOG_LEVEL_WARNING, "Received %s scheduling shutdown...", number == SIGINT ? "SIGINT" : "SIGTERM");
    }
    has_thread = ask(shutdown, flags, NULL);
    mutex_unlock(&shutdown->lock);
    if (!has_thread)
        prepare_end(shutdown);
}

bool shutdown_abort(struct shutdown *shutdown)
{
    bool possible;

    mutex_lock(&shutdown->lock);
    possible = shutdown->running && !shutdown->ending && !shutdown->insisted;
    if (possible) {
        shutdown->aborted = true;
        shutdown->again = false;
        while (shutdown->again_waiting != NULL) {
            struct job *job = shutdown->again_waiting;

            shutdown->again_waiting = job->next;
            job->next = shutdown->waiting;
            shutdown->waiting = job;
        }
        save_cancel(shutdown->engine->save);
        rewrite_cancel(shutdown->engine->rewrite, true);
    }
    mutex_unlock(&shutdown->lock);
    return possible;
}

void shutdown_destroy(struct shutdown *shutdown)
{
    if (shutdown == NULL)
        return;
    join(shutdown);
    answer(shutdown->engine, take_waiting(shutdown));
    answer(shutdown->engine, shutdown->again_waiting);
    mutex_release(&shutdown->lock);
    mem_free(shutdown);
}

/* CONFIG SET appendonly was answered, but the log is still being begun, or left: until that is done the data may be nowhere on the disk.
 * False if it can't be begun. */
static bool await_switch(struct engine *engine)
{
    const struct timespec pause = { 0, 5000000 };
    struct shutdown *shutdown = engine->shutdown;
    bool given_up = false, waits;

    aof_switch_hold(engine->aof_switch);
    waits = aof_switch_is_running(engine->aof_switch);
    if (waits)
        log_write(engine->log, LOG_LEVEL_NOTICE, "Waiting for the AOF to be switched before exiting.");
    while (aof_switch_is_running(engine->aof_switch) && !given_up) {
        nanosleep(&pause, NULL);
        mutex_lock(&shutdown->lock);
        given_up = shutdown->insisted || shutdown->aborted;
        mutex_unlock(&shutdown->lock);
    }
    return !waits || !aof_switch_has_failed(engine->aof_switch);
}

bool shutdown_prepare(struct engine *engine, int flags, struct message *message)
{
    /* Before the data is there, there is nothing to save, and a dump would replace a good one by half of it. */
    bool loading = engine->state == ENGINE_LOADING, nosave = loading || flags & CONFIG_SHUTDOWN_NOSAVE, wanted;

    if (!nosave && !await_switch(engine)) {
        log_write(engine->log, LOG_LEVEL_WARNING, "The AOF can't be begun. %s", flags & CONFIG_SHUTDOWN_FORCE ? "Exit anyway." : "Can't exit.");
        if (!(flags & CONFIG_SHUTDOWN_FORCE))
            return false;
    }
    wanted = !nosave && (flags & CONFIG_SHUTDOWN_SAVE || (engine->aof == NULL && save_has_points(engine->save)));
    if (wanted) {
        log_write(engine->log, LOG_LEVEL_NOTICE, "Saving the final RDB snapshot before exiting.");
        engine->frozen = true;
    }
    if (save_last(engine->save, wanted, message)) {
        if (!nosave)
            rewrite_last(engine->rewrite);
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
