#include "lifecycle/save.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/text.h"
#include "base/tree.h"
#include "engine/engine.h"
#include "lifecycle/dump_image.h"
#include "lifecycle/save_points.h"
#include "lifecycle/task.h"
#include "persist/checkpoint.h"
#include "persist/rdb_save.h"

enum { RETRY_MS = 5000, AUX_COUNT = 5, AUX_COUNT_WITHOUT_HISTORY = 2 };

struct save {
    struct engine *engine;
    struct save_wait *wait;         /* the one that runs */
    _Atomic bool scheduled;
    _Atomic bool abandoned;         /* save_cancel was called: no last dump either */
    _Atomic int64_t tried_ms, last_ms;      /* of those in the background */
    _Atomic int64_t saved_us;       /* when the last dump was complete, or this server began; monotonic, as engine->last_save_ms is not */
    _Atomic uint64_t count;
    struct rdb_save_progress progress;
    struct history_point point;     /* of the image that is being written; the task's thread */
    bool is_in_history;             /* what was changed before the image counts, and what is changed after it will */
};

struct save *save_create(struct engine *engine)
{
    struct save *save = mem_zalloc(sizeof(*save));

    save->engine = engine;
    save->last_ms = -1;
    save->saved_us = clock_mono_us();
    return save;
}

static enum status dump(struct save *save, const char *image, int64_t taken_us, struct message *message)
{
    struct engine *engine = save->engine;
    char *path = config_string(engine->config, CONFIG_DBFILENAME), when[32], offset[TEXT_INT_SIZE], db[TEXT_INT_SIZE];
    const struct history_point *point = &save->point;
    struct rdb_aux aux[AUX_COUNT] = {
        { BYTES("kelvin-id"), bytes_of_string(engine->identity.id) },
        { BYTES("kelvin-image"), bytes_of(when, (size_t)snprintf(when, sizeof(when), "%lld", (long long)taken_us)) },
        { BYTES("repl-stream-db"), bytes_of(db, text_of_int(point->db < 0 ? 0 : point->db, db)) },
        { BYTES("repl-id"), bytes_of_string(point->identity.id) },
        { BYTES("repl-offset"), bytes_of(offset, text_of_int(point->offset, offset)) },
    };
    struct rdb_save_options options = dump_image_options(engine, image);
    enum status status;

    options.path = path;
    options.aux = aux;
    options.aux_count = save->is_in_history ? AUX_COUNT : AUX_COUNT_WITHOUT_HISTORY;
    status = rdb_save(&options, &save->progress, message);
    mem_free(path);
    return status;
}

/* With all partitions locked: the image's place in the history. */
static void note_point(void *context)
{
    struct save *save = context;

    save->is_in_history = history_is_on(&save->engine->history);
    history_point(&save->engine->history, &save->point);
}

/* Makes a dump. Changes while it runs count for the next one: the number is taken before the instant of the image, so it may count a little
 * twice, but never forgets. */
static enum status save_now(struct save *save, struct claim *owner, struct message *message)
{
    struct engine *engine = save->engine;
    char image[DUMP_IMAGE_PATH_SIZE];
    struct checkpoint_data data = {
        .tier = engine->tier, .partitions = engine->partitions, .registry = engine->scripts, .is_read_once = true, .owner = owner,
        .at_cut = note_point, .context = save,
    };
    uint64_t changes = engine_dirty(engine);
    int64_t taken_us = clock_wall_us();
    enum status status = dump_image_take(engine, &data, ".image", image, message);

    if (status == STATUS_OK) {
        status = dump(save, image, taken_us, message);
        tree_remove(image);
        if (status != STATUS_OK && owner != NULL)
            partitions_give_all(engine->partitions, owner);
    }
    if (status == STATUS_OK) {
        atomic_fetch_add(&engine->saved, changes);
        atomic_fetch_sub(&engine->dirty, changes);
        engine->last_save_ms = clock_wall_ms();
        save->saved_us = clock_mono_us();
        engine->save_failed = false;
        log_write(engine->log, LOG_LEVEL_NOTICE, "DB saved on disk");
    }
    return status;
}

static void end_background(struct save *save, enum status status, const char *message)
{
    struct log *log = save->engine->log;

    save->last_ms = clock_mono_us() / 1000 - save->tried_ms;
    if (status == STATUS_OK) {
        log_write(log, LOG_LEVEL_NOTICE, "Background saving terminated with success");
    } else if (save->progress.cancel) {
        log_write(log, LOG_LEVEL_WARNING, "Background saving was given up, as the server is asked to end");
    } else {
        save->engine->save_failed = true;
        log_write(log, LOG_LEVEL_WARNING, "Background saving error: %s. The dump before stays.", message);
    }
}

static void save_main(void *context)
{
    struct save *save = context;
    struct engine *engine = save->engine;
    struct save_wait *wait = save->wait;
    struct message message;
    enum status status;

    status = save_now(save, NULL, &message);
    if (wait == NULL)
        end_background(save, status, message.text);
    else if (status != STATUS_OK)
        log_write(engine->log, LOG_LEVEL_WARNING, "SAVE failed: %s. The dump before stays.", message.text);
    task_end(engine->tasks, TASK_SAVE, status);
    if (wait != NULL) {
        wait->good = status == STATUS_OK;
        wait->message = message;
        job_finish(engine->jobs, &wait->job);
    }
}

/* Begins a save that was claimed. */
static void begin_save(struct save *save)
{
    save->progress.key_total = save->progress.keys = save->progress.bytes = 0;
    save->progress.cancel = false;
    if (save->abandoned)
        save->progress.cancel = true;
    atomic_fetch_add(&save->count, 1);
}

bool save_claim(struct save *save)
{
    if (!task_claim(save->engine->tasks, TASK_SAVE))
        return false;
    begin_save(save);
    if (task_is_closed(save->engine->tasks, TASK_SAVE))
        save->progress.cancel = true;       /* save_last came between */
    return true;
}

bool save_start(struct save *save, struct save_wait *wait)
{
    struct engine *engine = save->engine;
    bool good;

    save->wait = wait;
    if (wait == NULL) {
        save->scheduled = false;
        save->tried_ms = clock_mono_us() / 1000;
    }
    good = task_run(engine->tasks, TASK_SAVE, save_main, save) == TASK_STARTED;
    if (good && wait == NULL)
        log_write(engine->log, LOG_LEVEL_NOTICE, "Background saving started");
    if (!good && wait == NULL)
        engine->save_failed = true;
    return good;
}

void save_schedule(struct save *save)
{
    save->scheduled = true;
}

/* Whether a background save may be tried: at once, or 5 s after one that failed. */
static bool may_try(const struct save *save)
{
    return !save->engine->save_failed || clock_mono_us() / 1000 - save->tried_ms > RETRY_MS;
}

void save_consider(struct save *save)
{
    struct engine *engine = save->engine;
    struct save_point due;
    char *points;
    bool wanted;

    if (engine->state != ENGINE_READY || !task_is_possible(engine->tasks, TASK_SAVE) || task_is_postponed(engine->tasks, TASK_SAVE) || !may_try(save))
        return;
    points = config_string(engine->config, CONFIG_SAVE);
    wanted = save_points_due(points, engine_dirty(engine), (clock_mono_us() - save->saved_us) / 1000, &due);
    mem_free(points);
    if (!wanted && !save->scheduled)
        return;
    if (wanted)
        log_write(engine->log, LOG_LEVEL_NOTICE, "%llu changes in %lld seconds. Saving...", (unsigned long long)due.changes,
            (long long)due.seconds);
    if (save_claim(save))
        save_start(save, NULL);
}

void save_cancel(struct save *save)
{
    save->abandoned = true;
    save->progress.cancel = true;
}

bool save_last(struct save *save, bool wanted, struct message *message)
{
    struct tasks *tasks = save->engine->tasks;
    enum status status;

    task_close(tasks, TASK_SAVE);
    save->progress.cancel = true;
    task_claim_last(tasks, TASK_SAVE);
    if (!wanted) {
        task_give_back(tasks, TASK_SAVE);
        return true;
    }
    begin_save(save);
    status = save_now(save, NULL, message);
    task_end(tasks, TASK_SAVE, status);
    return status == STATUS_OK;
}

bool save_and_own(struct save *save, struct claim *owner, struct message *message)
{
    struct tasks *tasks = save->engine->tasks;
    enum status status;

    while (!save_claim(save)) {
        if (task_is_closed(tasks, TASK_SAVE)) {
            message_set(message, "the server is about to end");
            return false;
        }
        task_await_end(tasks, TASK_SAVE);
    }
    status = save_now(save, owner, message);
    task_end(tasks, TASK_SAVE, status);
    return status == STATUS_OK;
}

void save_reopen(struct save *save)
{
    save->abandoned = false;
    task_open(save->engine->tasks, TASK_SAVE);
}

bool save_is_running(struct save *save)
{
    return task_is_running(save->engine->tasks, TASK_SAVE);
}

bool save_has_points(struct save *save)
{
    char *points = config_string(save->engine->config, CONFIG_SAVE);
    bool has = save_points_are(points);

    mem_free(points);
    return has;
}

bool save_denies_writes(struct save *save)
{
    return save->engine->save_failed && config_number(save->engine->config, CONFIG_STOP_WRITES_ON_BGSAVE_ERROR) && save_has_points(save);
}

void save_stats(struct save *save, struct save_stats *stats)
{
    bool running = save_is_running(save);

    *stats = (struct save_stats){
        .task = task_stats(save->engine->tasks, TASK_SAVE),
        .last_failed = save->engine->save_failed,
        .last_ms = save->last_ms,
        .count = save->count,
        .keys = running ? save->progress.keys : 0,
        .key_total = running ? save->progress.key_total : 0,
    };
}

void save_destroy(struct save *save)
{
    struct message message;

    if (save == NULL)
        return;
    CHECK(save_last(save, false, &message));
    task_join(save->engine->tasks, TASK_SAVE);
    mem_free(save);
}
