#include "lifecycle/rewrite.h"

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/tree.h"
#include "engine/engine.h"
#include "lifecycle/kept_log.h"
#include "lifecycle/task.h"
#include "persist/checkpoint.h"
#include "tier/image.h"

enum {
    AFTER_FAILURE_MS = 60000,
    SCHEDULED_AGAIN_MS = 1000,
    ROOM_STEP = 1 << 20,            /* bytes: smaller changes come and go without a reason */
    LAST_TAIL_MIN = 1 << 20,        /* of a log that is worth a checkpoint at the end, or on a full disk */
    TOO_LONG = 4,                   /* times checkpoint-log-size: see keep_log */
    LOG_LOOK_MS = 100,              /* for an error of the log, which ends no wait */
};

struct rewrite {
    struct engine *engine;
    struct aof *aof;                /* the one that runs: what is rewritten. It is not switched off meanwhile */
    _Atomic bool scheduled;
    _Atomic int64_t failed_spare;   /* tier_image_spare() after the last one failed on a full disk; INT64_MAX: it did not */
    _Atomic uint64_t changes;       /* engine_changes() before the last one began */
    _Atomic bool has_changes;       /* there is such a number, and that one has succeeded */
};

struct rewrite *rewrite_create(struct engine *engine)
{
    struct rewrite *rewrite = mem_zalloc(sizeof(*rewrite));

    rewrite->engine = engine;
    rewrite->failed_spare = INT64_MAX;
    return rewrite;
}

/* A kept log of a checkpoint that has failed. The manifest that says so is written first, as that of a commit that failed may be on the disk. */
static enum status settle_kept_log(struct rewrite *rewrite, const char *dir, struct message *message)
{
    char kept[TREE_PATH_SIZE];
    enum status status;

    if (!kept_log_is_pending(dir))
        return STATUS_OK;
    status = aof_prepare(rewrite->aof, message);
    if (status == STATUS_OK)
        (void)kept_log_settle(rewrite->aof, dir, kept);
    return status;
}

/* Records that can't be read are newer than the last checkpoint. Only the log has their values, so checkpoints are refused, but the log must not
 * grow without a bound because of that. When it is too long it is kept, and the checkpoint goes on. What is appended until the cut is in the last of
 * the linked files, too. */
static bool keep_log(struct rewrite *rewrite, const char *dir, struct message *message)
{
    uint64_t log_size = (uint64_t)config_number(rewrite->engine->config, CONFIG_CHECKPOINT_LOG_SIZE);
    struct message problem = { "" };

    if (log_size == 0 || aof_stats(rewrite->aof).tail_size / TOO_LONG < log_size)
        return false;
    if (kept_log_begin(dir, &problem) == STATUS_OK)
        return true;
    message_set(message, "cold keys can't be read, and the log, which has them, can't be kept: %.150s", problem.text);
    return false;
}

/* A checkpoint passes on the keys that can't be read. One that fails leaves the kept log: its commit may be on the disk nevertheless. */
static enum status take_checkpoint(struct rewrite *rewrite, const char *dir, const char *name, struct message *message)
{
    struct engine *engine = rewrite->engine;
    struct checkpoint_data data = {
        .tier = engine->tier, .partitions = engine->partitions, .registry = engine->scripts, .history = &engine->history,
    };
    char kept[TREE_PATH_SIZE];
    uint64_t damaged;
    enum status status = settle_kept_log(rewrite, dir, message);

    if (status != STATUS_OK)
        return status;
    if (!tier_may_checkpoint(engine->tier, &damaged, message) && !keep_log(rewrite, dir, message))
        return STATUS_CORRUPT;
    status = checkpoint_run(rewrite->aof, &data, dir, name, message);
    if (status != STATUS_OK)
        return status;
    if (kept_log_settle(rewrite->aof, dir, kept))
        log_write(engine->log, LOG_LEVEL_WARNING, "%llu cold keys can't be read. The log, which has values of them, became too long and is kept in '%s': a "
            "server that is started with --appenddirname '%s' has them. Remove it when they are written again", (unsigned long long)damaged, kept, kept);
    else if (damaged > 0)
        log_write(engine->log, LOG_LEVEL_WARNING, "%llu cold keys can't be read, as in the checkpoint before. Only a backup or a replica may "
            "still have them", (unsigned long long)damaged);
    return status;
}

static void rewrite_main(void *context)
{
    struct rewrite *rewrite = context;
    struct engine *engine = rewrite->engine;
    char *dir, *name;
    struct message message = { "" };
    enum status status;

    dir = config_string(engine->config, CONFIG_APPENDDIRNAME);
    name = config_string(engine->config, CONFIG_APPENDFILENAME);
    rewrite->changes = engine_changes(engine);
    log_write(engine->log, LOG_LEVEL_NOTICE, "Background append only file rewriting started");
    status = take_checkpoint(rewrite, dir, name, &message);
    mem_free(dir);
    mem_free(name);
    rewrite->has_changes = status == STATUS_OK;
    if (status != STATUS_OK && (status == STATUS_NO_SPACE || engine_disk_refuses_growth(engine)))
        rewrite->failed_spare = tier_image_spare(engine->tier);
    if (status == STATUS_OK)
        log_write(engine->log, LOG_LEVEL_NOTICE, "Background AOF rewrite finished successfully");
    else
        log_write(engine->log, LOG_LEVEL_WARNING, "Background AOF rewrite failed: %s. The last checkpoint and the log stay valid.", message.text);
    task_end(engine->tasks, TASK_REWRITE, status);
}

enum task_start rewrite_start(struct rewrite *rewrite)
{
    struct engine *engine = rewrite->engine;
    enum task_start start;
    bool was_scheduled;

    if (!task_claim(engine->tasks, TASK_REWRITE))
        return TASK_BUSY;
    rewrite->aof = engine->aof;
    if (rewrite->aof == NULL) {
        task_give_back(engine->tasks, TASK_REWRITE);
        return TASK_BUSY;
    }
    was_scheduled = atomic_exchange(&rewrite->scheduled, false);
    rewrite->failed_spare = INT64_MAX;
    start = task_run(engine->tasks, TASK_REWRITE, rewrite_main, rewrite);
    if (start == TASK_NO_THREAD && was_scheduled)
        rewrite->scheduled = true;
    return start;
}

void rewrite_schedule(struct rewrite *rewrite)
{
    rewrite->scheduled = true;
}

bool rewrite_is_running(const struct rewrite *rewrite)
{
    return task_is_running(rewrite->engine->tasks, TASK_REWRITE);
}

void rewrite_cancel(struct rewrite *rewrite)
{
    if (rewrite->engine->tier != NULL)
        tier_image_cancel(rewrite->engine->tier, true);
}

void rewrite_allow(struct rewrite *rewrite)
{
    if (rewrite->engine->tier != NULL)
        tier_image_cancel(rewrite->engine->tier, false);
}

/* A checkpoint can't end before the log reaches its cut: while the log can't be written the end of the process does not wait for it. */
static void await_end_or_error(struct rewrite *rewrite, struct aof *aof)
{
    struct engine *engine = rewrite->engine;

    for (;;) {
        uint32_t version = waiting_version(&engine->waiting);

        if (!task_is_running(engine->tasks, TASK_REWRITE))
            return;
        if (aof_error(aof) != STATUS_OK)
            rewrite_cancel(rewrite);
        waiting_wait(&engine->waiting, version, LOG_LOOK_MS);
    }
}

void rewrite_last(struct rewrite *rewrite)
{
    struct engine *engine = rewrite->engine;
    struct aof *aof = engine->aof;

    if (aof == NULL || engine->tier == NULL || engine->state != ENGINE_READY ||
        !config_number(engine->config, CONFIG_CHECKPOINT_ON_SHUTDOWN) || aof_stats(aof).tail_size < LAST_TAIL_MIN)
        return;
    log_write(engine->log, LOG_LEVEL_NOTICE, "A last checkpoint before exiting, so that the next start has little to replay");
    rewrite_start(rewrite);         /* or the one that is under way */
    await_end_or_error(rewrite, aof);
}

/* The log grows without changes, too: PING to replicas, and what Sentinel publishes. */
static bool has_changed(const struct rewrite *rewrite)
{
    return !rewrite->has_changes || engine_changes(rewrite->engine) != rewrite->changes;
}

/* Why a checkpoint is due, or NULL. */
static const char *reason_to_start(struct rewrite *rewrite, struct aof *aof, int64_t began_ms)
{
    const struct config *config = rewrite->engine->config;
    uint64_t percent = (uint64_t)config_number(config, CONFIG_AUTO_AOF_REWRITE_PERCENTAGE);
    uint64_t log_size = (uint64_t)config_number(config, CONFIG_CHECKPOINT_LOG_SIZE);
    int64_t seconds = config_number(config, CONFIG_CHECKPOINT_SECONDS);
    struct aof_stats stats = aof_stats(aof);
    uint64_t base = stats.base_size > 0 ? stats.base_size : 1;

    if (stats.tail_size == 0)
        return NULL;
    if (engine_disk_refuses_growth(rewrite->engine) && stats.tail_size >= LAST_TAIL_MIN)
        return "the disk is full";
    if (percent > 0 && stats.current_size >= (uint64_t)config_number(config, CONFIG_AUTO_AOF_REWRITE_MIN_SIZE) &&
        stats.current_size >= base && (stats.current_size - base) * 100 / base >= percent)
        return "it has grown by auto-aof-rewrite-percentage";
    if (log_size > 0 && stats.tail_size >= log_size)
        return "checkpoint-log-size is reached";
    if (seconds > 0 && clock_mono_us() / 1000 - began_ms >= seconds * 1000 && has_changed(rewrite))
        return "checkpoint-seconds have gone by";
    return NULL;
}

/* Whether the disk, which was full when the last one failed, has clearly more room for an image now; any room, if it had none. */
static bool has_more_room(const struct rewrite *rewrite)
{
    int64_t before = rewrite->failed_spare;

    return before != INT64_MAX && tier_image_spare(rewrite->engine->tier) >= (before < 0 ? 0 : before + ROOM_STEP);
}

static bool has_failed_lately(const struct rewrite *rewrite, const struct task_stats *stats)
{
    return stats->failures > 0 && clock_mono_us() / 1000 - stats->failed_ms < AFTER_FAILURE_MS && !has_more_room(rewrite);
}

/* A scheduled one is tried again soon, but not with each tick: the system may give no threads. */
static bool has_failed_now(const struct task_stats *stats)
{
    return stats->failures > 0 && clock_mono_us() / 1000 - stats->failed_ms < SCHEDULED_AGAIN_MS;
}

bool rewrite_failed_lately(const struct rewrite *rewrite)
{
    struct task_stats stats = task_stats(rewrite->engine->tasks, TASK_REWRITE);

    return has_failed_lately(rewrite, &stats);
}

void rewrite_consider(struct rewrite *rewrite)
{
    struct engine *engine = rewrite->engine;
    struct aof *aof = engine->aof;          /* once: it may be switched off at any moment, and is closed at the end only */
    struct task_stats stats;
    const char *why;

    if (aof == NULL || engine->tier == NULL || engine->state != ENGINE_READY || !task_is_possible(engine->tasks, TASK_REWRITE))
        return;
    stats = task_stats(engine->tasks, TASK_REWRITE);
    if (rewrite->scheduled && !task_is_postponed(engine->tasks, TASK_REWRITE) && !has_failed_now(&stats)) {
        rewrite_start(rewrite);
        return;
    }
    if (has_failed_lately(rewrite, &stats) || aof_error(aof) != STATUS_OK || !tier_image_has_room(engine->tier))
        return;
    why = reason_to_start(rewrite, aof, stats.began_ms);
    if (why == NULL)
        return;
    log_write(engine->log, LOG_LEVEL_NOTICE, "Starting automatic rewriting of AOF: %s", why);
    rewrite_start(rewrite);
}

bool rewrite_is_scheduled(const struct rewrite *rewrite)
{
    return rewrite->scheduled;
}

void rewrite_destroy(struct rewrite *rewrite)
{
    if (rewrite == NULL)
        return;
    rewrite_cancel(rewrite);
    task_join(rewrite->engine->tasks, TASK_REWRITE);
    mem_free(rewrite);
}
