#include "lifecycle/aof_switch.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/mutex.h"
#include "base/tree.h"
#include "engine/engine.h"
#include "lifecycle/task.h"
#include "persist/checkpoint.h"
#include "tier/image.h"

enum { TRY_AGAIN_MS = 5000, TRY_AGAIN_HELD_MS = 50 };

struct retired {
    struct retired *next;
    struct aof *aof;
};

struct aof_switch {
    struct engine *engine;
    struct mutex lock;           /* leaf */
    /* The task is claimed and ended with the lock. */
    bool wanted;                    /* lock */
    bool was_asked;                 /* lock: before the first time `wanted` means nothing */
    _Atomic bool held;              /* changed with the lock. What is under way comes to its end, and nothing else begins */
    bool begun_held;                /* lock: the attempt began when it was held already */
    bool over;                      /* lock: an attempt to switch on came to its end since it was held, and counts */
    _Atomic bool has_failed;        /* changed with the lock: the last attempt did, and it is still wanted */
    _Atomic bool ending;            /* changed with the lock */
    _Atomic bool lacks_thread;      /* changed with the lock: it is to be started when the system has a thread */
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
    struct aof_switch *aof_switch = mem_zalloc(sizeof(*aof_switch));

    aof_switch->engine = engine;
    mutex_init(&aof_switch->lock);
    return aof_switch;
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

/* Removes a log. A file that is not a directory is no log: it stays, and the log can't be created in its place. */
static void remove_log(const char *path)
{
    struct stat info;

    if (lstat(path, &info) == 0 && S_ISDIR(info.st_mode))
        tree_remove(path);
}

void aof_switch_clean(struct engine *engine)
{
    char *path = path_of(engine, ".new");

    if (access(path, F_OK) == 0) {
        log_write(engine->log, LOG_LEVEL_NOTICE, "Removing '%s', a log that was not finished", path);
        remove_log(path);
    }
    mem_free(path);
}

/* With all partitions locked. */
static void publish_log(void *context)
{
    struct aof_switch *aof_switch = context;

    aof_switch->engine->aof = aof_switch->retired->aof;
}

static void unpublish(struct engine *engine)
{
    struct claim claim;

    partitions_lock_all_unowned(engine->partitions, &claim);
    engine->aof = NULL;
    history_detach_log(&engine->history);
    partitions_unlock_all_unowned(engine->partitions, &claim);
    waiting_bump(&engine->waiting);
    on_durable(engine, 0);          /* clients that waited for the log go on */
}

static enum aof_fsync fsync_policy(const struct config *config)
{
    switch (config_number(config, CONFIG_APPENDFSYNC)) {
    case CONFIG_FSYNC_ALWAYS: return AOF_FSYNC_ALWAYS;
    case CONFIG_FSYNC_NO: return AOF_FSYNC_NO;
    default: return AOF_FSYNC_EVERYSEC;
    }
}

static bool exchange(const char *path, const char *place)
{
    return syscall(SYS_renameat2, AT_FDCWD, path, AT_FDCWD, place, RENAME_EXCHANGE) == 0;
}

/* `path` takes the place of the log's directory, in one step. What was there before is removed once that is durable; if it does not become
 * so, all is put back. */
static bool replace_log_directory(const char *path, const char *place, struct message *message)
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
        remove_log(path);           /* the one that was there before, if any */
    return error == 0;
}

static bool create_log(struct aof_switch *aof_switch, struct message *message)
{
    struct engine *engine = aof_switch->engine;
    char *path = path_of(engine, ".new"), *place = path_of(engine, ""), *name = config_string(engine->config, CONFIG_APPENDFILENAME);
    struct aof_options options = {
        .dir = path, .name = name, .fsync = fsync_policy(engine->config), .load_truncated = true, .history = &engine->history,
        .begins_at_cut = true, .meter = engine->meter,
        .closer = engine->closer,
    };
    struct checkpoint_data data = {
        .tier = engine->tier, .partitions = engine->partitions, .registry = engine->scripts, .history = &engine->history,
    };
    struct identity identity = engine->identity;
    struct aof *aof = NULL;
    bool good = false;

    remove_log(path);
    if (aof_open(&options, &aof, message) == STATUS_OK) {
        struct retired *retired = mem_zalloc(sizeof(*retired));

        engine_attach_aof(engine, aof);
        *retired = (struct retired){ aof_switch->retired, aof };
        aof_switch->retired = retired;
        good = aof_start(aof, message) == STATUS_OK && identity_keep(path, name, &identity, message) == STATUS_OK &&
               checkpoint_begin_log(aof, &data, path, name, publish_log, aof_switch, message) == STATUS_OK &&
               replace_log_directory(path, place, message);
        if (!good) {
            unpublish(engine);
            aof_stop(aof);
        }
    }
    if (!good)
        remove_log(path);
    mem_free(path);
    mem_free(place);
    mem_free(name);
    return good;
}

/* Less long when it is held: an end waits for the result. */
static void wait_before_retry(struct aof_switch *aof_switch)
{
    struct waiting *waiting = &aof_switch->engine->waiting;
    int64_t began_ms = clock_mono_us() / 1000;

    for (;;) {
        uint32_t version = waiting_version(waiting);
        int64_t left_ms = began_ms + (aof_switch->held ? TRY_AGAIN_HELD_MS : TRY_AGAIN_MS) - clock_mono_us() / 1000;

        if (aof_switch->ending || left_ms <= 0)
            return;
        waiting_wait(waiting, version, left_ms);
    }
}

static void begin_attempt(struct aof_switch *aof_switch)
{
    mutex_lock(&aof_switch->lock);
    aof_switch->begun_held = aof_switch->held;
    mutex_unlock(&aof_switch->lock);
}

/* One that failed counts only if it began when it was held: the one before may have failed because an earlier end was called off, which
 * cancels the images that are being taken, and that is no reason to refuse this end. */
static void end_attempt(struct aof_switch *aof_switch, bool good)
{
    mutex_lock(&aof_switch->lock);
    aof_switch->has_failed = !good;
    aof_switch->over = aof_switch->over || good || aof_switch->begun_held;
    mutex_unlock(&aof_switch->lock);
    waiting_bump(&aof_switch->engine->waiting);
}

static void switch_on(struct aof_switch *aof_switch)
{
    struct engine *engine = aof_switch->engine;
    struct message message = { "" };
    bool good;

    log_write(engine->log, LOG_LEVEL_NOTICE, "Enabling AOF: a checkpoint is taken as its base");
    begin_attempt(aof_switch);
    good = create_log(aof_switch, &message);
    if (good)
        log_write(engine->log, LOG_LEVEL_NOTICE, "AOF is enabled");
    end_attempt(aof_switch, good);
    if (good || aof_switch->ending)
        return;
    log_write(engine->log, LOG_LEVEL_WARNING, "AOF can't be enabled: %s. Trying again.", message.text);
    wait_before_retry(aof_switch);
}

static void switch_off(struct aof_switch *aof_switch)
{
    struct engine *engine = aof_switch->engine;
    struct aof *aof = engine->aof;

    unpublish(engine);
    if (aof_switch->retired == NULL || aof_switch->retired->aof != aof) {
        struct retired *retired = mem_zalloc(sizeof(*retired));

        *retired = (struct retired){ aof_switch->retired, aof };
        aof_switch->retired = retired;
    }
    aof_stop(aof);
    log_write(engine->log, LOG_LEVEL_NOTICE, "AOF is disabled; its files stay as they are");
}

static bool is_done(struct aof_switch *aof_switch)
{
    bool done, reached;

    mutex_lock(&aof_switch->lock);
    reached = aof_switch->wanted == (aof_switch->engine->aof != NULL);
    if (reached)
        aof_switch->has_failed = false;     /* a log that could not be begun, and is wanted no more, is no failure */
    done = aof_switch->ending || (aof_switch->held && aof_switch->over) || reached;
    if (done)
        task_end(aof_switch->engine->tasks, TASK_AOF_SWITCH, reached ? STATUS_OK : STATUS_CANCELLED);
    mutex_unlock(&aof_switch->lock);
    return done;
}

static void switch_main(void *context)
{
    struct aof_switch *aof_switch = context;
    struct engine *engine = aof_switch->engine;

    for (;;) {
        uint32_t version = waiting_version(&engine->waiting);

        if (is_done(aof_switch))
            break;
        if (task_must_wait(engine->tasks, TASK_AOF_SWITCH))
            waiting_wait(&engine->waiting, version, -1);
        else if (engine->aof == NULL)
            switch_on(aof_switch);
        else
            switch_off(aof_switch);
    }
}

/* False: there is no thread. */
static bool start_if_wanted(struct aof_switch *aof_switch) REQUIRES(aof_switch->lock);
static bool start_if_wanted(struct aof_switch *aof_switch)
{
    struct engine *engine = aof_switch->engine;

    aof_switch->lacks_thread = false;
    if (!aof_switch->was_asked || aof_switch->ending || aof_switch->held || aof_switch->wanted == (engine->aof != NULL))
        return true;
    if (!task_claim(engine->tasks, TASK_AOF_SWITCH))
        return true;                /* it runs, and will see what is wanted */
    return task_run(engine->tasks, TASK_AOF_SWITCH, switch_main, aof_switch) == TASK_STARTED;
}

bool aof_switch_start(struct aof_switch *aof_switch, bool on)
{
    bool wanted_before, good;

    mutex_lock(&aof_switch->lock);
    wanted_before = aof_switch->was_asked ? aof_switch->wanted : aof_switch->engine->aof != NULL;
    aof_switch->wanted = on;
    aof_switch->was_asked = true;
    good = start_if_wanted(aof_switch);
    if (!good)
        aof_switch->wanted = wanted_before;
    mutex_unlock(&aof_switch->lock);
    waiting_bump(&aof_switch->engine->waiting);
    return good;
}

bool aof_switch_wants(struct aof_switch *aof_switch, bool on)
{
    bool wants;

    mutex_lock(&aof_switch->lock);
    wants = aof_switch->wanted == on;
    mutex_unlock(&aof_switch->lock);
    return wants;
}

void aof_switch_retry(struct aof_switch *aof_switch)
{
    if (!aof_switch->lacks_thread)
        return;
    mutex_lock(&aof_switch->lock);
    aof_switch->lacks_thread = !start_if_wanted(aof_switch);
    mutex_unlock(&aof_switch->lock);
}

void aof_switch_hold(struct aof_switch *aof_switch)
{
    mutex_lock(&aof_switch->lock);
    aof_switch->held = true;
    aof_switch->begun_held = aof_switch->over = false;
    mutex_unlock(&aof_switch->lock);
    waiting_bump(&aof_switch->engine->waiting);
}

void aof_switch_go_on(struct aof_switch *aof_switch)
{
    mutex_lock(&aof_switch->lock);
    aof_switch->held = false;
    aof_switch->lacks_thread = !start_if_wanted(aof_switch);
    mutex_unlock(&aof_switch->lock);
}

bool aof_switch_is_running(const struct aof_switch *aof_switch)
{
    return task_is_running(aof_switch->engine->tasks, TASK_AOF_SWITCH);
}

bool aof_switch_has_failed(const struct aof_switch *aof_switch)
{
    return aof_switch->has_failed;
}

void aof_switch_stop(struct aof_switch *aof_switch)
{
    struct tasks *tasks = aof_switch->engine->tasks;

    mutex_lock(&aof_switch->lock);
    aof_switch->ending = true;
    mutex_unlock(&aof_switch->lock);
    waiting_bump(&aof_switch->engine->waiting);
    if (aof_switch_is_running(aof_switch) && aof_switch->engine->tier != NULL)
        tier_image_cancel(aof_switch->engine->tier, true);
    task_join(tasks, TASK_AOF_SWITCH);
}

void aof_switch_destroy(struct aof_switch *aof_switch)
{
    if (aof_switch == NULL)
        return;
    while (aof_switch->retired != NULL) {
        struct retired *next = aof_switch->retired->next;

        if (aof_switch->retired->aof == aof_switch->engine->aof)
            aof_switch->engine->aof = NULL;
        aof_close(aof_switch->retired->aof);
        mem_free(aof_switch->retired);
        aof_switch->retired = next;
    }
    aof_close(aof_switch->engine->aof);
    mutex_release(&aof_switch->lock);
    mem_free(aof_switch);
}
