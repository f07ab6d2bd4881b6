#include "lifecycle/backups.h"

#include <stdatomic.h>

#include "base/mem.h"
#include "base/mutex.h"
#include "engine/engine.h"
#include "lifecycle/task.h"

struct backups {
    struct engine *engine;
    struct mutex lock;
    _Atomic bool stop;
    struct backup_result last_good;     /* lock */
    /* The directory of the backup that runs. */
    char *dir;
    enum backups_place place;
    struct job *job;
    struct backup_done *done;
};

struct backups *backups_create(struct engine *engine)
{
    struct backups *backups = mem_zalloc(sizeof(*backups));

    backups->engine = engine;
    mutex_init(&backups->lock);
    return backups;
}

static void note_end(struct backups *backups, const struct backup_done *done)
{
    mutex_lock(&backups->lock);
    if (done->status == STATUS_OK)
        backups->last_good = done->result;
    task_end(backups->engine->tasks, TASK_BACKUP, done->status);
    mutex_unlock(&backups->lock);
}

static enum status make_backup(struct backups *backups, const struct backup_places *places)
{
    struct engine *engine = backups->engine;
    struct backup_done *done = backups->done;
    char *root = config_string(engine->config, CONFIG_BACKUP_DIR);
    struct checkpoint_data data = {
        .tier = engine->tier, .partitions = engine->partitions, .registry = engine->scripts, .history = &engine->history,
    };
    bool allowed = backups->place == BACKUPS_ANYWHERE || backup_is_below(backups->dir, ".", root);

    mem_free(root);
    if (!allowed) {
        message_set(&done->message, "'%.100s' is not below dir or backup-dir; another place needs "
            "enable-protected-configs", backups->dir);
        return STATUS_INVALID;
    }
    log_write(engine->log, LOG_LEVEL_NOTICE, "Backup to '%s' started", backups->dir);
    return backup_make(&data, places, backups->dir, &backups->stop, &done->result, &done->message);
}

static void backups_main(void *context)
{
    struct backups *backups = context;
    struct engine *engine = backups->engine;
    struct backup_done *done = backups->done;
    struct job *job = backups->job;
    char *log_dir = config_string(engine->config, CONFIG_APPENDDIRNAME), *log_name = config_string(engine->config, CONFIG_APPENDFILENAME);
    char *store_dir = config_string(engine->config, CONFIG_TIER_DIR);
    struct backup_places places = { log_dir, log_name, store_dir };

    done->status = make_backup(backups, &places);
    if (done->status == STATUS_OK)
        log_write(engine->log, LOG_LEVEL_NOTICE, "Backup %s to '%s' finished: %llu keys, %llu bytes, %llu of them in files of its own",
            done->result.id, backups->dir, (unsigned long long)done->result.keys, (unsigned long long)done->result.bytes,
            (unsigned long long)done->result.copied_bytes);
    else
        log_write(engine->log, LOG_LEVEL_WARNING, "Backup to '%s' failed: %s", backups->dir, done->message.text);
    mem_free(log_dir);
    mem_free(log_name);
    mem_free(store_dir);
    note_end(backups, done);
    job_finish(engine->jobs, job);      /* from here on both are the client's */
}

enum task_start backups_start(struct backups *backups, const char *dir, enum backups_place place, struct job *job, struct backup_done *done)
{
    struct tasks *tasks = backups->engine->tasks;

    if (!task_claim(tasks, TASK_BACKUP))
        return TASK_BUSY;
    mem_free(backups->dir);
    backups->dir = mem_string(bytes_of_string(dir));
    backups->place = place;
    backups->job = job;
    backups->done = done;
    return task_run(tasks, TASK_BACKUP, backups_main, backups);
}

void backups_stats(struct backups *backups, struct backups_stats *stats)
{
    mutex_lock(&backups->lock);
    stats->task = task_stats(backups->engine->tasks, TASK_BACKUP);
    stats->last_good = backups->last_good;
    mutex_unlock(&backups->lock);
}

void backups_destroy(struct backups *backups)
{
    if (backups == NULL)
        return;
    task_close(backups->engine->tasks, TASK_BACKUP);
    backups->stop = true;
    task_join(backups->engine->tasks, TASK_BACKUP);
    mem_free(backups->dir);
    mutex_release(&backups->lock);
    mem_free(backups);
}
