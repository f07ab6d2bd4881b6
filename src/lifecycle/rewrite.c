#include "lifecycle/rewrite.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/mutex.h"
#include "engine/engine.h"
#include "lifecycle/aof_switch.h"
#include "lifecycle/save.h"
#include "persist/checkpoint.h"
#include "tier/image.h"

enum { AFTER_FAILURE_MS = 60000, LAST_TAIL_MIN = 1 << 20, LAST_POLL_MS = 5 };

struct rewrite {
    struct engine *engine;
    struct mutex lock;           /* leaf */
    pthread_t thread;
    bool started;                   /* the thread is to be joined */
    struct aof *aof;                /* what is rewritten: it is not switched off while `running` */
    _Atomic bool running, scheduled, last_failed;
    _Atomic int64_t began_ms, last_ms, failed_ms;
    _Atomic uint64_t count, failures;
};

struct rewrite *rewrite_create(struct engine *engine)
{
    struct rewrite *rewrite = mem_zalloc(sizeof(*rewrite));

    rewrite->engine = engine;
    rewrite->last_ms = -1;
    rewrite->began_ms = clock_wall_ms();
    mutex_init(&rewrite->lock);
    return rewrite;
}

static void *rewrite_main(void *context)
{
    struct rewrite *rewrite = context;
    struct engine *engine = rewrite->engine;
    struct aof *aof = rewrite->aof;
    char *dir, *name;
    struct message message = { "" };
    enum status status;

    meter_join(engine->meter);
    dir = config_string(engine->config, CONFIG_APPENDDIRNAME);
    name = config_string(engine->config, CONFIG_APPENDFILENAME);
    log_write(engine->log, LOG_LEVEL_NOTICE, "Background append only file rewriting started");
    status = checkpoint_run(aof, engine->tier, engine->partitions, dir, name, &message);
    mem_free(dir);
    mem_free(name);
    rewrite->last_ms = clock_wall_ms() - rewrite->began_ms;
    rewrite->last_failed = status != STATUS_OK;
    rewrite->count++;
    if (status == STATUS_OK) {
        rewrite->failures = 0;
        log_write(engine->log, LOG_LEVEL_NOTICE, "Background AOF rewrite finished successfully");
    } else {
        rewrite->failures++;
        rewrite->failed_ms = clock_wall_ms();
        log_write(engine->log, LOG_LEVEL_WARNING, "Background AOF rewrite failed: %s. The last checkpoint and the log stay valid.", message.text);
    }
    meter_leave(engine->meter);
    rewrite->running = false;
    return NULL;
}

static void join(struct rewrite *rewrite)
{
    if (rewrite->started)
        pthread_join(rewrite->thread, NULL);
    rewrite->started = false;
}

/* With the lock. */
static enum rewrite_start no_thread(struct rewrite *rewrite, int error)
{
    rewrite->last_failed = true;
    rewrite->failures++;
    rewrite->failed_ms = clock_wall_ms();
    rewrite->running = false;
    log_write(rewrite->engine->log, LOG_LEVEL_WARNING, "Can't rewrite append only file in background: no thread: %s", strerror(error));
    return REWRITE_NO_THREAD;
}

enum rewrite_start rewrite_start(struct rewrite *rewrite)
{
    enum rewrite_start result = REWRITE_BUSY;
    bool starts;

    mutex_lock(&rewrite->lock);
    starts = !rewrite->running;
    if (starts) {
        /* The switch says that it runs and then looks here: so this is said before it is looked at. One of the two sees the other. */
        rewrite->running = true;
        rewrite->aof = aof_switch_is_running(rewrite->engine->aof_switch) ? NULL : rewrite->engine->aof;
        starts = rewrite->aof != NULL;
        rewrite->running = starts;
    }
    if (starts) {
        int error;

        join(rewrite);
        rewrite->scheduled = false;
        rewrite->began_ms = clock_wall_ms();
        error = pthread_create(&rewrite->thread, NULL, rewrite_main, rewrite);
        rewrite->started = error == 0;
        result = error == 0 ? REWRITE_STARTED : no_thread(rewrite, error);
    }
    mutex_unlock(&rewrite->lock);
    return result;
}

void rewrite_schedule(struct rewrite *rewrite)
{
    rewrite->scheduled = true;
}

bool rewrite_is_running(const struct rewrite *rewrite)
{
    return rewrite->running;
}

void rewrite_cancel(struct rewrite *rewrite, bool cancel)
{
    if (rewrite->engine->tier != NULL)
        tier_image_cancel(rewrite->engine->tier, cancel);
}

void rewrite_last(struct rewrite *rewrite)
{
    struct timespec pause = { 0, LAST_POLL_MS * 1000000L };
    struct engine *engine = rewrite->engine;
    struct aof *aof = engine->aof;

    if (aof == NULL || engine->tier == NULL || engine->state != ENGINE_READY ||
        !config_number(engine->config, CONFIG_CHECKPOINT_ON_SHUTDOWN) || aof_stats(aof).tail_size < LAST_TAIL_MIN)
        return;
    log_write(engine->log, LOG_LEVEL_NOTICE, "A last checkpoint before exiting, so that the next start has little to replay");
    rewrite_start(rewrite);         /* or the one that is under way */
    while (rewrite->running)
        nanosleep(&pause, NULL);
}

/* Why a checkpoint is due, or NULL. */
static const char *reason(struct rewrite *rewrite, struct aof *aof)
{
    const struct config *config = rewrite->engine->config;
    uint64_t percent = (uint64_t)config_number(config, CONFIG_AUTO_AOF_REWRITE_PERCENTAGE);
    uint64_t log_size = (uint64_t)config_number(config, CONFIG_CHECKPOINT_LOG_SIZE);
    int64_t seconds = config_number(config, CONFIG_CHECKPOINT_SECONDS);
    struct aof_stats stats = aof_stats(aof);
    uint64_t base = stats.base_size > 0 ? stats.base_size : 1;

    if (stats.tail_size == 0)
        return NULL;
    if (percent > 0 && stats.current_size >= (uint64_t)config_number(config, CONFIG_AUTO_AOF_REWRITE_MIN_SIZE) &&
        stats.current_size >= base && (stats.current_size - base) * 100 / base >= percent)
        return "it has grown by auto-aof-rewrite-percentage";
    if (log_size > 0 && stats.tail_size >= log_size)
        return "checkpoint-log-size is reached";
    if (seconds > 0 && clock_wall_ms() - rewrite->began_ms >= seconds * 1000)
        return "checkpoint-seconds have gone by";
    return NULL;
}

void rewrite_consider(struct rewrite *rewrite)
{
    struct engine *engine = rewrite->engine;
    struct aof *aof = engine->aof;          /* once: it may be switched off at any moment, and is closed at the end only */
    const char *why;

    if (aof == NULL || engine->tier == NULL || rewrite->running || aof_switch_is_running(engine->aof_switch) || engine->state != ENGINE_READY)
        return;
    if (rewrite->scheduled && !save_is_running(engine->save)) {
        rewrite_start(rewrite);
        return;
    }
    if (rewrite->last_failed && clock_wall_ms() - rewrite->failed_ms < AFTER_FAILURE_MS)
        return;
    why = reason(rewrite, aof);
    if (why == NULL)
        return;
    log_write(engine->log, LOG_LEVEL_NOTICE, "Starting automatic rewriting of AOF: %s", why);
    rewrite_start(rewrite);
}

void rewrite_stats(struct rewrite *rewrite, struct rewrite_stats *stats)
{
    bool running = rewrite->running;

    *stats = (struct rewrite_stats){
        .running = running,
        .scheduled = rewrite->scheduled,
        .last_failed = rewrite->last_failed,
        .last_s = rewrite->last_ms < 0 ? -1 : rewrite->last_ms / 1000,
        .running_s = running ? (clock_wall_ms() - rewrite->began_ms) / 1000 : -1,
        .count = rewrite->count,
        .failures = rewrite->failures,
    };
}

void rewrite_destroy(struct rewrite *rewrite)
{
    if (rewrite == NULL)
        return;
    rewrite_cancel(rewrite, true);
    join(rewrite);
    mutex_release(&rewrite->lock);
    mem_free(rewrite);
}
