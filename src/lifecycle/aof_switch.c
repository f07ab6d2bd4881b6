#include "lifecycle/aof_switch.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/mutex.h"
#include "base/tree.h"
#include "engine/engine.h"
#include "lifecycle/rewrite.h"
#include "persist/checkpoint.h"
#include "tier/image.h"

enum { TRY_AGAIN_MS = 5000, NAP_MS = 50 };

struct retired {
    struct retired *next;
    struct aof *aof;
};

struct aof_switch {
    struct engine *engine;
    struct mutex lock;           /* leaf */
    pthread_t thread;
    bool started;                   /* lock: the thread is to be joined */
    bool wanted;                    /* lock */
    bool was_asked;                 /* lock: before the first time `wanted` means nothing */
    _Atomic bool held;              /* changed with the lock. What is under way comes to its end, and nothing else begins */
    bool begun_held;                /* lock: the attempt began when it was held already */
    bool over;                      /* lock: an attempt to switch on came to its end since it was held, and counts */
    _Atomic bool has_failed;        /* changed with the lock: the last attempt did, and it is still wanted */
    _Atomic bool running, ending;   /* changed with the lock */
    _Atomic bool lacks_thread;      /* changed with the lock: it is to be begun, and could not be for want of a thread */
    struct retired *retired;        /* the thread's, or after it */
};

static void on_durable(void *context, uint64_t durable)
{
    struct engine *engine = context;

    (void)durable;
    for (int i = 0; i < engine->worker_count; i++)
        mailbox_ring(&engine->workers[i]->mailbox);
}

static void on_notice(void *context, const char *text)
{
    struct engine *engine = context;

    log_write(engine->log, LOG_LEVEL_WARNING, "%s", text);
}

void engine_attach_aof(struct engine *engine, struct aof *aof)
{
    aof_on_durable(aof, on_durable, engine);
    aof_on_notice(aof, on_notice, engine);
}

struct aof_switch *aof_switch_create(struct engine *engine)
{
    struct aof_switch *at = mem_zalloc(sizeof(*at));

    at->engine = engine;
    mutex_init(&at->lock);
    return at;
}

/* The log's directory, with a suffix. Where that is a symbolic link (to another disk, say), it is what the link points at: beside that is
 * where a new log has to be made, and what it takes the place of. */
static char *path_of(struct engine *engine, const char *suffix)
{
    char *dir = config_string(engine->config, CONFIG_APPENDDIRNAME), *target = NULL, *path;
    struct buffer text = { 0 };
    struct stat info;

    if (lstat(dir, &info) == 0 && S_ISLNK(info.st_mode))
        target = realpath(dir, NULL);
    buffer_append_format(&text, "%s%s", target != NULL ? target : dir, suffix);
    path = mem_string(buffer_bytes(&text));
    buffer_release(&text);
    free(target);
    mem_free(dir);
    return path;
}

void aof_switch_clean(struct engine *engine)
{
    char *path = path_of(engine, ".new");

    if (access(path, F_OK) == 0) {
        log_write(engine->log, LOG_LEVEL_NOTICE, "Removing '%s', a log that was not finished", path);
        tree_remove(path);
    }
    mem_free(path);
}

/* With all partitions locked. */
static void publish(void *context)
{
    struct aof_switch *at = context;

    at->engine->aof = at->retired->aof;
}

static void unpublish(struct engine *engine)
{
    partitions_lock_all(engine->partitions);
    engine->aof = NULL;
    partitions_unlock_all(engine->partitions);
    on_durable(engine, 0);          /* who waited for the log waits no more */
}

static enum aof_fsync policy(const struct config *config)
{
    switch (config_number(config, CONFIG_APPENDFSYNC)) {
    case CONFIG_FSYNC_ALWAYS: return AOF_FSYNC_ALWAYS;
    case CONFIG_FSYNC_NO: return AOF_FSYNC_NO;
    default: return AOF_FSYNC_EVERYSEC;
    }
}

/* Numbers go on where the log before ended: clients may still wait for one of its. */
static uint64_t first_number(const struct aof_switch *at)
{
    return at->retired != NULL ? aof_appended(at->retired->aof) : 0;
}

static bool exchange(const char *path, const char *place)
{
    return syscall(SYS_renameat2, AT_FDCWD, path, AT_FDCWD, place, RENAME_EXCHANGE) == 0;
}

/* `path` takes the place of the log's directory, in one step. What was there before is removed once that is durable; if it does not become
 * so, all is put back. */
static bool take_place(const char *path, const char *place, struct message *message)
{
    bool exchanged = exchange(path, place);
    bool renamed = !exchanged && errno == ENOENT && rename(path, place) == 0;
    int error = 0;

    if (!exchanged && !renamed) {
        error = errno;
    } else if (directory_sync_parent(disk_system(), place) != STATUS_OK) {
        error = errno;
        (void)(exchanged ? exchange(path, place) : rename(place, path) == 0);
    }
    if (error != 0)
        message_set(message, "can't put '%.100s' in its place: %s", path, strerror(error));
    if (error == 0)
        tree_remove(path);          /* the one that was there before, if any */
    return error == 0;
}

static bool begin_log(struct aof_switch *at, struct message *message)
{
    struct engine *engine = at->engine;
    char *path = path_of(engine, ".new"), *place = path_of(engine, ""), *name = config_string(engine->config, CONFIG_APPENDFILENAME);
    struct aof_options options = {
        .dir = path, .name = name, .fsync = policy(engine->config), .load_truncated = true, .first_lsn = first_number(at),
    };
    struct identity identity = engine->identity;
    struct aof *aof = NULL;
    bool good = false;

    tree_remove(path);
    if (aof_open(&options, &aof, message) == STATUS_OK) {
        struct retired *retired = mem_zalloc(sizeof(*retired));

        engine_attach_aof(engine, aof);
        *retired = (struct retired){ at->retired, aof };
        at->retired = retired;
        good = aof_start(aof, message) == STATUS_OK && identity_keep(path, name, &identity, message) == STATUS_OK &&
               checkpoint_begin_log(aof, engine->tier, engine->partitions, path, name, publish, at, message) == STATUS_OK &&
               take_place(path, place, message);
        if (!good) {
            unpublish(engine);
            aof_stop(aof);
        }
    }
    if (!good)
        tree_remove(path);
    mem_free(path);
    mem_free(place);
    mem_free(name);
    return good;
}

static void nap(struct aof_switch *at, int ms)
{
    struct timespec pause = { 0, NAP_MS * 1000000L };

    for (int i = 0; i < ms / NAP_MS && !at->ending && (i == 0 || !at->held); i++)
        nanosleep(&pause, NULL);
}

static void begin_attempt(struct aof_switch *at)
{
    mutex_lock(&at->lock);
    at->begun_held = at->held;
    mutex_unlock(&at->lock);
}

/* One that failed counts only if it began when it was held: the one before may have failed because an earlier end was called off, which
 * cancels the images that are being taken, and that does not stand in the way of this end. */
static void end_attempt(struct aof_switch *at, bool good)
{
    mutex_lock(&at->lock);
    at->has_failed = !good;
    at->over = at->over || good || at->begun_held;
    mutex_unlock(&at->lock);
}

static void turn_on(struct aof_switch *at)
{
    struct engine *engine = at->engine;
    struct message message = { "" };
    bool good;

    log_write(engine->log, LOG_LEVEL_NOTICE, "Enabling AOF: a checkpoint is taken as its base");
    begin_attempt(at);
    good = begin_log(at, &message);
    if (good)
        log_write(engine->log, LOG_LEVEL_NOTICE, "AOF is enabled");
    end_attempt(at, good);
    if (good || at->ending)
        return;
    log_write(engine->log, LOG_LEVEL_WARNING, "AOF can't be enabled: %s. Trying again.", message.text);
    nap(at, TRY_AGAIN_MS);
}

static void turn_off(struct aof_switch *at)
{
    struct engine *engine = at->engine;
    struct aof *aof = engine->aof;

    unpublish(engine);
    if (at->retired == NULL || at->retired->aof != aof) {
        struct retired *retired = mem_zalloc(sizeof(*retired));

        *retired = (struct retired){ at->retired, aof };
        at->retired = retired;
    }
    aof_stop(aof);
    log_write(engine->log, LOG_LEVEL_NOTICE, "AOF is disabled; its files stay as they are");
}

static bool is_done(struct aof_switch *at)
{
    bool done, reached;

    mutex_lock(&at->lock);
    reached = at->wanted == (at->engine->aof != NULL);
    if (reached)
        at->has_failed = false;     /* a log that could not be begun, and is wanted no more, is no failure */
    done = at->ending || (at->held && at->over) || reached;
    if (done)
        at->running = false;
    mutex_unlock(&at->lock);
    return done;
}

static void *switch_main(void *context)
{
    struct aof_switch *at = context;

    pthread_setname_np(pthread_self(), "kelvin-aof");
    meter_join(at->engine->meter);
    while (!is_done(at)) {
        if (rewrite_is_running(at->engine->rewrite))
            nap(at, NAP_MS);        /* none begins meanwhile */
        else if (at->engine->aof == NULL)
            turn_on(at);
        else
            turn_off(at);
    }
    meter_leave(at->engine->meter);
    return NULL;
}

static void join(struct aof_switch *at)
{
    if (at->started)
        pthread_join(at->thread, NULL);
    at->started = false;
}

/* With the lock. False: there is no thread. */
static bool start(struct aof_switch *at)
{
    int error;

    at->lacks_thread = false;
    if (!at->was_asked || at->running || at->ending || at->held || at->wanted == (at->engine->aof != NULL))
        return true;
    join(at);
    at->running = true;
    error = pthread_create(&at->thread, NULL, switch_main, at);
    if (error == 0) {
        at->started = true;
        return true;
    }
    at->running = false;
    log_write(at->engine->log, LOG_LEVEL_WARNING, "AOF can't be switched %s: no thread: %s", at->wanted ? "on" : "off", strerror(error));
    return false;
}

bool aof_switch_start(struct aof_switch *at, bool on)
{
    bool wanted_before, good;

    mutex_lock(&at->lock);
    wanted_before = at->was_asked ? at->wanted : at->engine->aof != NULL;
    at->wanted = on;
    at->was_asked = true;
    good = start(at);
    if (!good)
        at->wanted = wanted_before;
    mutex_unlock(&at->lock);
    return good;
}

void aof_switch_retry(struct aof_switch *at)
{
    if (!at->lacks_thread)
        return;
    mutex_lock(&at->lock);
    at->lacks_thread = !start(at);
    mutex_unlock(&at->lock);
}

void aof_switch_hold(struct aof_switch *at)
{
    mutex_lock(&at->lock);
    at->held = true;
    at->begun_held = at->over = false;
    mutex_unlock(&at->lock);
}

void aof_switch_go_on(struct aof_switch *at)
{
    mutex_lock(&at->lock);
    at->held = false;
    at->lacks_thread = !start(at);
    mutex_unlock(&at->lock);
}

bool aof_switch_is_running(const struct aof_switch *at)
{
    return at->running;
}

bool aof_switch_has_failed(const struct aof_switch *at)
{
    return at->has_failed;
}

void aof_switch_stop(struct aof_switch *at)
{
    mutex_lock(&at->lock);
    at->ending = true;
    mutex_unlock(&at->lock);
    if (at->running && at->engine->tier != NULL)
        tier_image_cancel(at->engine->tier, true);
    join(at);
}

void aof_switch_destroy(struct aof_switch *at)
{
    if (at == NULL)
        return;
    while (at->retired != NULL) {
        struct retired *next = at->retired->next;

        if (at->retired->aof == at->engine->aof)
            at->engine->aof = NULL;
        aof_close(at->retired->aof);
        mem_free(at->retired);
        at->retired = next;
    }
    aof_close(at->engine->aof);
    mutex_release(&at->lock);
    mem_free(at);
}
