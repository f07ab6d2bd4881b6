/* Full synchronizations: one at a time takes an image and writes its RDB to a file; all replicas that wait when it begins, and those that
 * come while its thread runs, read that file, and then the stream from the image on. */
#include "replication/primary_private.h"

#include "base/mem.h"
#include "lifecycle/full_sync.h"

enum { RETRY_MS = 5000 };

/* Returns whether the replica gets an image, not an RDB, as both are set now. */
static bool gets_image(const struct replica *replica)
{
    const struct config *config = replica->primary->engine->config;

    return replica->can_image && !replica->rdb_only && !replica->without_keys && !replica->without_functions && !replica->is_plain &&
           config_number(config, CONFIG_REPL_IMAGE_SYNC) != 0;
}

static void free_sync(struct replica_sync *sync)
{
    struct primary *primary = sync->primary;

    if (sync->file != NULL)
        full_sync_file_release(sync->file);
    if (sync->hold != NULL)
        backlog_detach(sync->hold);
    mem_free(sync);
    atomic_fetch_sub(&primary->sync_count, 1);
    waiting_bump(&primary->engine->waiting);
}

static void sync_release(struct replica_sync *sync)
{
    if (atomic_fetch_sub(&sync->refs, 1) == 1)
        free_sync(sync);
}

/* Returns whether the synchronization makes what the replica asks for. */
static bool fits(const struct replica *replica, const struct replica_sync *sync)
{
    bool is_image = gets_image(replica);

    if (is_image || sync->is_image)
        return is_image == sync->is_image;
    return sync->with_keys == !replica->without_keys && sync->with_functions == !replica->without_functions &&
           sync->rdb12 == replica->can_rdb12;
}

static void assign(struct replica *replica, struct replica_sync *sync)
{
    replica->sync = sync;
    atomic_fetch_add(&sync->refs, 1);
}

void sync_join(struct replica *replica)
{
    struct primary *primary = replica->primary;
    struct replica_sync *running = primary->running;

    if (running != NULL && running->state != SYNC_FAILED && fits(replica, running))
        assign(replica, running);
    else if (primary->wanted_ms == 0)
        primary->wanted_ms = primary_now_ms();
}

/* No other replica reads it. */
static bool is_last(const struct replica_sync *sync)
{
    return atomic_load(&sync->refs) <= 1;
}

void sync_leave(struct replica *replica)
{
    struct replica_sync *sync = replica->sync;
    struct primary *primary = replica->primary;

    replica->sync = NULL;
    if (sync == NULL)
        return;
    sync_release(sync);
    if (sync == primary->running && is_last(sync))
        full_sync_cancel(primary->engine->lifecycle.full_sync);       /* no replica waits for it any more */
}

/* --- the sync's thread --- */

/* With all partitions locked: the image's place in the stream. What follows begins with a SELECT. */
static void on_instant(void *context, struct full_sync_instant *instant)
{
    struct replica_sync *sync = context;
    struct history *history = &sync->primary->engine->history;

    primary_need_backlog(sync->primary->engine);        /* it may just have ended: see end_backlog_if_due */
    history_mark(history, &sync->point);
    sync->hold = backlog_attach(history_backlog(history), backlog_end(history_backlog(history)));
    memcpy(instant->repl_id, sync->point.identity.id, sizeof(instant->repl_id));
    instant->repl_offset = sync->point.offset;
    instant->repl_stream_db = sync->point.db;
    if (sync->primary->engine->upper.stream_begins != NULL)
        sync->primary->engine->upper.stream_begins(sync->primary->engine);
}

static void on_grown(void *context)
{
    struct replica_sync *sync = context;

    if (sync->state == SYNC_BEGINS)
        sync->state = SYNC_RUNS;
    primary_ring(sync->primary);
}

/* Drops the replicas of a synchronization that has failed: they are disconnected, and come back. */
static void drop_waiting(struct primary *primary, const struct replica_sync *sync) REQUIRES(primary->lock);
static void drop_waiting(struct primary *primary, const struct replica_sync *sync)
{
    for (struct replica *replica = primary->replicas; replica != NULL; replica = replica->next) {
        if (replica->sync == sync && replica->state == REPLICA_WAITS)
            replica->dropped = true;
    }
}

static void on_ended(void *context, enum status status, const struct message *message)
{
    struct replica_sync *sync = context;
    struct primary *primary = sync->primary;

    (void)message;                  /* full_sync.c has logged it */
    mutex_lock(&primary->lock);
    if (status != STATUS_OK) {
        sync->state = SYNC_FAILED;
        primary->retry_ms = primary_now_ms() + RETRY_MS;
        drop_waiting(primary, sync);
    }
    primary->running = NULL;
    mutex_unlock(&primary->lock);
    primary_ring(primary);
    sync_release(sync);
}

/* --- when one begins --- */

static int waiting_count(const struct primary *primary) REQUIRES(primary->lock);
static int waiting_count(const struct primary *primary)
{
    int count = 0;

    for (const struct replica *replica = primary->replicas; replica != NULL; replica = replica->next)
        count += replica->state == REPLICA_WAITS && replica->sync == NULL;
    return count;
}

static bool is_due(const struct primary *primary, int64_t now_ms) REQUIRES(primary->lock);
static bool is_due(const struct primary *primary, int64_t now_ms)
{
    const struct config *config = primary->engine->config;
    int64_t delay_ms = config_number(config, CONFIG_REPL_DISKLESS_SYNC_DELAY) * 1000, max = config_number(config, CONFIG_REPL_DISKLESS_SYNC_MAX_REPLICAS);

    if (primary->wanted_ms == 0 || primary->running != NULL || now_ms < primary->retry_ms)
        return false;
    if (!config_number(config, CONFIG_REPL_DISKLESS_SYNC) || (max > 0 && waiting_count(primary) >= max))
        return true;
    return now_ms - primary->wanted_ms >= delay_ms;
}

static struct replica *first_waiting(const struct primary *primary) REQUIRES(primary->lock);
static struct replica *first_waiting(const struct primary *primary)
{
    struct replica *found = NULL;

    for (struct replica *replica = primary->replicas; replica != NULL; replica = replica->next) {
        if (replica->state == REPLICA_WAITS && replica->sync == NULL)
            found = replica;        /* the last one of the list came first */
    }
    return found;
}

/* All that wait for the same go into one. Returns it; NULL: none waits. */
static struct replica_sync *gather(struct primary *primary)
{
    struct replica_sync *sync = NULL;
    struct replica *first;
    int left = 0;

    mutex_lock(&primary->lock);
    first = first_waiting(primary);
    if (first != NULL) {
        sync = mem_zalloc(sizeof(*sync));
        *sync = (struct replica_sync){ .primary = primary, .refs = 1, .state = SYNC_BEGINS, .with_keys = !first->without_keys,
            .with_functions = !first->without_functions, .rdb12 = first->can_rdb12, .is_image = gets_image(first),
            .may_grow = config_number(primary->engine->config, CONFIG_REPL_DISKLESS_SYNC) != 0 };
        atomic_fetch_add(&primary->sync_count, 1);
        primary->running = sync;
    }
    for (struct replica *replica = primary->replicas; replica != NULL; replica = replica->next) {
        if (replica->state != REPLICA_WAITS || replica->sync != NULL)
            continue;
        if (fits(replica, sync))
            assign(replica, sync);
        else
            left++;
    }
    if (left == 0)
        primary->wanted_ms = 0;
    mutex_unlock(&primary->lock);
    return sync;
}

static void not_started(struct primary *primary, struct replica_sync *sync)
{
    mutex_lock(&primary->lock);
    sync->state = SYNC_FAILED;
    primary->running = NULL;
    primary->retry_ms = primary_now_ms() + RETRY_MS;
    drop_waiting(primary, sync);
    mutex_unlock(&primary->lock);
    sync_release(sync);
}

static void note_start(struct primary *primary, const struct replica_sync *sync)
{
    const char *what = sync->is_image ? "the files of an image (repl-image-sync yes)"
        : sync->may_grow ? "an RDB of the data set, sent while it is written (repl-diskless-sync yes)"
                         : "an RDB of the data set, sent when it is complete";

    mutex_lock(&primary->lock);
    for (const struct replica *replica = primary->replicas; replica != NULL && sync->is_image; replica = replica->next)
        atomic_fetch_add(&primary->full_image, replica->sync == sync);
    mutex_unlock(&primary->lock);
    log_write(primary->engine->log, LOG_LEVEL_NOTICE, "Starting a full synchronization: %s", what);
}

static void start_syncs(struct primary *primary)
{
    struct engine *engine = primary->engine;
    struct replica_sync *sync = gather(primary);
    static const enum rdb_field_times field_times[] = { RDB_TIMES_REFUSED, RDB_TIMES_DROPPED, RDB_TIMES_ALLOWED };
    struct full_sync_options options;

    if (sync == NULL)
        return;
    options = (struct full_sync_options){
        .context = sync, .instant = on_instant, .grown = on_grown, .ended = on_ended,
        .field_times = sync->rdb12 ? RDB_TIMES_ALLOWED : field_times[config_number(engine->config, CONFIG_REPL_FIELD_TIMES)],
        .include_keys = sync->with_keys, .include_functions = sync->with_functions, .as_image = sync->is_image,
    };
    atomic_fetch_add(&sync->refs, 1);       /* until the file is noted */
    if (full_sync_start(engine->lifecycle.full_sync, &options, &sync->file) != TASK_STARTED)
        not_started(primary, sync);
    else
        note_start(primary, sync);
    sync_release(sync);
}

void sync_cron(struct primary *primary, int64_t now_ms)
{
    bool due;

    mutex_lock(&primary->lock);
    due = is_due(primary, now_ms);
    mutex_unlock(&primary->lock);
    if (due)
        start_syncs(primary);
}

enum replica_fill sync_end(struct replica *replica)
{
    struct primary *primary = replica->primary;
    struct client *client = replica->client;

    if (replica->has_mark)
        buffer_append(&client->reply.out, replica->mark, MARK_SIZE);
    mutex_lock(&replica->primary->lock);
    sync_leave(replica);
    mutex_unlock(&replica->primary->lock);
    replica->acked_ms = replica->heard_ms = primary_now_ms();
    if (replica->rdb_only) {
        log_write(primary->engine->log, LOG_LEVEL_NOTICE, "%s has got the RDB that it asked for", client->address);
        client->flags |= CLIENT_CLOSE_AFTER_REPLY;
        replica->state = REPLICA_LOADS;         /* nothing follows */
        return REPLICA_FILL_SOME;
    }
    replica->state = replica->has_mark ? REPLICA_LOADS : REPLICA_ONLINE;
    if (!replica->has_mark)
        log_write(primary->engine->log, LOG_LEVEL_NOTICE, "Synchronization with replica %s succeeded", client->address);
    return REPLICA_FILL_SOME;
}
