#include "lifecycle/reload.h"

#include <stdio.h>

#include "base/mem.h"
#include "engine/engine.h"
#include "engine/tracking.h"
#include "engine/watch.h"
#include "lifecycle/emptying.h"
#include "lifecycle/image_import.h"
#include "lifecycle/replay.h"
#include "lifecycle/save.h"
#include "lifecycle/task.h"

enum { PATH_SIZE = 4096 };

/* All watched keys change, if they are there: before what is there goes, and after what is new has come. */
static void touch_all(struct engine *engine)
{
    for (int db = 0; db < engine->partitions->db_count; db++)
        watch_touch_database(engine, db);
}

static void empty_dataset(const struct reload *reload)
{
    struct engine *engine = reload->engine;

    partitions_lock_all(engine->partitions);
    if (reload->options.without_flush)
        touch_all(engine);
    else
        emptying_run(engine);
    partitions_unlock_all(engine->partitions);
}

static void note_loaded(struct engine *engine)
{
    struct tracking_list list = { 0 };

    partitions_lock_all(engine->partitions);
    touch_all(engine);
    if (tracking_is_on(engine))
        tracking_note_all(engine, &list);
    partitions_unlock_all(engine->partitions);
    tracking_send(engine, NULL, &list, partitions_last_lsn(engine->partitions));
}

static bool load_dump(struct reload *reload)
{
    struct engine *engine = reload->engine;
    struct import_rules rules = {
        .twins = reload->options.merges ? IMPORT_REPLACES_TWINS : IMPORT_REFUSES_TWINS, .is_reload = true,
    };
    char *path = config_string(engine->config, CONFIG_DBFILENAME);
    bool good = import_again(engine, path, &rules, &reload->message) == STATUS_OK;

    mem_free(path);
    return good;
}

/* The log's base if that is an image. */
static bool load_base(struct reload *reload)
{
    static const struct import_rules rules = { .twins = IMPORT_REFUSES_TWINS, .is_reload = true };
    char *name = aof_base_copy(reload->engine->aof), *dir, path[PATH_SIZE];
    bool good;

    if (name == NULL)
        return true;
    dir = config_string(reload->engine->config, CONFIG_APPENDDIRNAME);
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    good = image_import(reload->engine, path, &rules, &reload->message) == STATUS_OK;
    mem_free(dir);
    mem_free(name);
    return good;
}

static bool load_log(struct reload *reload)
{
    return load_base(reload) && replay_log_again(reload->engine, &reload->message) == STATUS_OK;
}

/* Recovers after a load that failed: a part of the data is not what the log says. */
static void recover(struct reload *reload)
{
    struct engine *engine = reload->engine;
    struct message message = reload->message;

    log_write(engine->log, LOG_LEVEL_WARNING, "The reload failed: %s. The AOF is loaded in its place.", message.text);
    partitions_lock_all(engine->partitions);
    emptying_run(engine);
    partitions_unlock_all(engine->partitions);
    if (!load_log(reload)) {
        log_write(engine->log, LOG_LEVEL_WARNING, "The AOF can't be loaded: %s. Exiting.", reload->message.text);
        engine->process.end(engine->process.end_context, 1);
    }
    reload->message = message;
}

static void await_turn(struct engine *engine)
{
    for (;;) {
        uint32_t version = waiting_version(&engine->waiting);

        if (!task_must_wait(engine->tasks, TASK_RELOAD))
            return;
        waiting_wait(&engine->waiting, version, -1);
    }
}

/* From here on no client reaches a key. */
static bool own_all(struct reload *reload, struct claim *claim)
{
    struct engine *engine = reload->engine;

    if (!reload->options.from_log && !reload->options.without_save)
        return save_and_own(engine->lifecycle.save, claim, &reload->message);
    partitions_lock_all_unowned(engine->partitions, claim);
    partitions_unlock_all_owned(engine->partitions, claim);
    return true;
}

/* Returns whether the options are possible with the log, which may have been switched since they were checked. */
static bool is_possible(struct reload *reload)
{
    const struct reload_options *options = &reload->options;
    bool has_log = reload->engine->aof != NULL;

    if (options->from_log && !has_log)
        message_set(&reload->message, "DEBUG LOADAOF needs appendonly yes");
    else if (has_log && (options->without_save || options->without_flush || options->merges))
        message_set(&reload->message, "the options of DEBUG RELOAD need appendonly no: the log would not have what is loaded");
    else
        return true;
    return false;
}

static bool run_reload(struct reload *reload)
{
    struct engine *engine = reload->engine;
    struct claim claim;
    bool good;

    await_turn(engine);
    if (!is_possible(reload) || !own_all(reload, &claim))
        return false;
    empty_dataset(reload);
    good = reload->options.from_log ? load_log(reload) : load_dump(reload);
    if (!good && engine->aof != NULL && engine->state != ENGINE_STOPPING)
        recover(reload);
    note_loaded(engine);
    partitions_give_all(engine->partitions, &claim);
    return good;
}

static void reload_main(void *context)
{
    struct reload *reload = context;
    struct engine *engine = reload->engine;

    reload->good = run_reload(reload);
    if (reload->good)
        log_write(engine->log, LOG_LEVEL_NOTICE, "DB reloaded from the %s", reload->options.from_log ? "AOF" : "dump");
    else
        log_write(engine->log, LOG_LEVEL_WARNING, "The DB could not be reloaded: %s", reload->message.text);
    task_end(engine->tasks, TASK_RELOAD, reload->good ? STATUS_OK : STATUS_CANCELLED);
    job_finish(engine->jobs, &reload->job);
}

enum task_start reload_start(struct reload *reload)
{
    struct tasks *tasks = reload->engine->tasks;

    return task_claim(tasks, TASK_RELOAD) ? task_run(tasks, TASK_RELOAD, reload_main, reload) : TASK_BUSY;
}

void reload_stop(struct engine *engine)
{
    task_join(engine->tasks, TASK_RELOAD);
}
