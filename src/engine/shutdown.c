#include "engine/shutdown.h"

#include <pthread.h>
#include <signal.h>

#include "base/mem.h"
#include "engine/engine.h"
#include "engine/save.h"

struct shutdown {
    struct engine *engine;
    pthread_mutex_t lock;           /* before the job pool's */
    pthread_t thread;               /* lock */
    bool started;                   /* lock: the thread is to be joined */
    bool running;                   /* lock: preparing the end, or at it */
    bool ending;                    /* lock: there is no way back */
    bool insisted;                  /* lock: ends without a dump, whatever was asked before */
    bool aborted;                   /* lock */
    int flags, status;              /* lock */
    struct job *waiting;            /* lock: list */
};

struct shutdown *shutdown_create(struct engine *engine)
{
    struct shutdown *shutdown = mem_zalloc(sizeof(*shutdown));

    shutdown->engine = engine;
    pthread_mutex_init(&shutdown->lock, NULL);
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

static void *shutdown_main(void *context)
{
    struct shutdown *shutdown = context;
    struct engine *engine = shutdown->engine;
    char message[CONFIG_MESSAGE_SIZE] = "";
    struct job *refused = NULL;
    bool good;
    int flags, status;

    pthread_setname_np(pthread_self(), "kelvin-end");
    meter_join(engine->meter);
    pthread_mutex_lock(&shutdown->lock);
    flags = shutdown->flags;
    pthread_mutex_unlock(&shutdown->lock);
    good = engine_prepare_exit(engine, flags, message);
    meter_leave(engine->meter);
    pthread_mutex_lock(&shutdown->lock);
    shutdown->ending = shutdown->insisted || (good && !shutdown->aborted);
    if (!shutdown->ending) {
        say_refused(shutdown);
        refused = take_waiting(shutdown);
        shutdown->running = shutdown->aborted = false;
        save_reopen(engine->save);
        engine->frozen = false;
    }
    good = shutdown->ending;
    status = shutdown->status;
    pthread_mutex_unlock(&shutdown->lock);
    answer(engine, refused);
    if (good)
        engine->end(engine->end_context, status);
    return NULL;
}

/* With the lock. */
static void join(struct shutdown *shutdown)
{
    if (shutdown->started)
        pthread_join(shutdown->thread, NULL);
    shutdown->started = false;
}

/* With the lock. */
static void ask(struct shutdown *shutdown, int flags, struct job *wait)
{
    if (wait != NULL) {
        wait->next = shutdown->waiting;
        shutdown->waiting = wait;
    }
    if (shutdown->running) {
        if (flags & CONFIG_SHUTDOWN_NOSAVE) {
            shutdown->insisted = true;
            save_cancel(shutdown->engine->save);
        }
        return;
    }
    log_write(shutdown->engine->log, LOG_LEVEL_NOTICE, "User requested shutdown...");
    join(shutdown);
    shutdown->running = shutdown->started = true;
    shutdown->flags = flags;
    CHECK(pthread_create(&shutdown->thread, NULL, shutdown_main, shutdown) == 0);
}

void shutdown_ask(struct shutdown *shutdown, int flags, struct job *wait)
{
    pthread_mutex_lock(&shutdown->lock);
    ask(shutdown, flags, wait);
    pthread_mutex_unlock(&shutdown->lock);
}

void shutdown_signal(struct shutdown *shutdown, int number)
{
    struct engine *engine = shutdown->engine;
    int flags = (int)config_number(engine->config, number == SIGINT ? CONFIG_SHUTDOWN_ON_SIGINT : CONFIG_SHUTDOWN_ON_SIGTERM);

    pthread_mutex_lock(&shutdown->lock);
    if (number == SIGINT && shutdown->running) {
        log_write(engine->log, LOG_LEVEL_WARNING, "You insist... exiting now.");
        shutdown->status = 1;
        flags |= CONFIG_SHUTDOWN_NOSAVE;
    } else {
        log_write(engine->log, LOG_LEVEL_WARNING, "Received %s scheduling shutdown...", number == SIGINT ? "SIGINT" : "SIGTERM");
    }
    ask(shutdown, flags, NULL);
    pthread_mutex_unlock(&shutdown->lock);
}

bool shutdown_abort(struct shutdown *shutdown)
{
    bool possible;

    pthread_mutex_lock(&shutdown->lock);
    possible = shutdown->running && !shutdown->ending && !shutdown->insisted;
    if (possible) {
        shutdown->aborted = true;
        save_cancel(shutdown->engine->save);
    }
    pthread_mutex_unlock(&shutdown->lock);
    return possible;
}

void shutdown_destroy(struct shutdown *shutdown)
{
    if (shutdown == NULL)
        return;
    join(shutdown);
    answer(shutdown->engine, take_waiting(shutdown));
    pthread_mutex_destroy(&shutdown->lock);
    mem_free(shutdown);
}

bool engine_prepare_exit(struct engine *engine, int flags, char *message)
{
    /* Before the data is there, there is nothing to save, and a dump would replace a good one by half of it. */
    bool loading = engine->state == ENGINE_LOADING, nosave = loading || flags & CONFIG_SHUTDOWN_NOSAVE;
    bool wanted = !nosave && (flags & CONFIG_SHUTDOWN_SAVE || (engine->aof == NULL && save_has_points(engine->save)));

    if (wanted) {
        log_write(engine->log, LOG_LEVEL_NOTICE, "Saving the final RDB snapshot before exiting.");
        engine->frozen = true;
    }
    if (save_last(engine->save, wanted, message))
        return true;
    log_write(engine->log, LOG_LEVEL_WARNING, "The last dump failed: %s", message);
    if (flags & CONFIG_SHUTDOWN_FORCE) {
        log_write(engine->log, LOG_LEVEL_WARNING, "Error trying to save the DB. Exit anyway.");
        return true;
    }
    log_write(engine->log, LOG_LEVEL_WARNING, "Error trying to save the DB, can't exit.");
    return false;
}
