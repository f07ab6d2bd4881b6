#include "lifecycle/full_sync.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/tree.h"
#include "engine/engine.h"
#include "lifecycle/dump_image.h"
#include "lifecycle/task.h"
#include "persist/archive.h"
#include "persist/checkpoint.h"
#include "tier/image.h"

enum {
    GROWN_NS = 10000000,            /* between two calls of `grown` */
    AUX_MAX = 3,
    ROOM_LOOK_SIZE = 256 << 10,     /* bytes written between two looks for room on the disk */
    ROOM_MAX = 64 << 20,            /* bytes that a full sync leaves to others, ... */
    ROOM_PART = 100,                /* ... or this part of the disk, if that is less */
};

struct full_sync {
    struct engine *engine;
    struct rdb_save_progress progress;
    /* The options of the one that runs; its thread's. */
    struct full_sync_options options;
    struct full_sync_instant instant;
    struct full_sync_file *file;
    int64_t grown_ns;               /* when `grown` was called last */
    uint64_t room_looked;           /* size of the file */
    bool is_full;                   /* the disk */
};

struct full_sync *full_sync_create(struct engine *engine)
{
    struct full_sync *sync = mem_zalloc(sizeof(*sync));

    sync->engine = engine;
    return sync;
}

static void note_instant(void *context)
{
    struct full_sync *sync = context;

    sync->options.instant(sync->options.context, &sync->instant);
}

static void call_grown(struct full_sync *sync)
{
    sync->grown_ns = clock_mono_ns();
    if (sync->options.grown != NULL)
        sync->options.grown(sync->options.context);
}

/* A replica's file must not take the room that the log needs: then clients could not write. */
static bool disk_is_full(struct full_sync *sync, uint64_t size)
{
    struct statvfs disk;
    uint64_t room, part;

    if (size - sync->room_looked < ROOM_LOOK_SIZE || fstatvfs(full_sync_file_descriptor(sync->file), &disk) != 0)
        return false;
    sync->room_looked = size;
    room = (uint64_t)disk.f_bavail * disk.f_frsize;
    part = (uint64_t)disk.f_blocks * disk.f_frsize / ROOM_PART;
    return room < (part < ROOM_MAX ? part : ROOM_MAX);
}

static void note_grown(void *context, uint64_t size)
{
    struct full_sync *sync = context;

    full_sync_file_grow(sync->file, size);
    if (disk_is_full(sync, size)) {
        sync->is_full = true;
        sync->progress.cancel = true;
    }
    if (clock_mono_ns() - sync->grown_ns >= GROWN_NS)
        call_grown(sync);
}

/* As a redis-server does it that has a backlog. */
static enum status write_rdb(struct full_sync *sync, const char *image, struct message *message)
{
    const struct full_sync_instant *instant = &sync->instant;
    struct rdb_save_options options = dump_image_options(sync->engine, image);
    char db[TEXT_INT_SIZE], offset[TEXT_INT_SIZE];
    struct rdb_aux aux[AUX_MAX] = {
        { BYTES("repl-stream-db"), bytes_of(db, text_of_int(instant->repl_stream_db < 0 ? 0 : instant->repl_stream_db, db)) },
        { BYTES("repl-id"), bytes_of_string(instant->repl_id) },
        { BYTES("repl-offset"), bytes_of(offset, text_of_int(instant->repl_offset, offset)) },
    };

    options.fd = full_sync_file_open(sync->file, ".");
    if (options.fd < 0) {
        message_set(message, "can't create the file for the replicas in the data directory: %.100s", strerror(errno));
        return status_of_errno(errno);
    }
    options.grown = note_grown;
    options.context = sync;
    options.aux = aux;
    options.aux_count = AUX_MAX;
    options.field_times = sync->options.field_times;
    options.without_keys = !sync->options.include_keys;
    options.without_functions = !sync->options.include_functions;
    return rdb_save(&options, &sync->progress, message);
}

/* Why it ended early is known here. */
static enum status name_end(const struct full_sync *sync, struct message *message)
{
    if (sync->is_full) {
        message_set(message, "the disk is nearly full: what is left is for the writes of clients");
        return STATUS_NO_SPACE;
    }
    message_set(message, "it was cancelled");
    return STATUS_CANCELLED;
}

/* The image itself is what connections read, until the last one has done so. It gets a name of its own: the next one may begin before. */
static enum status pass_image(struct full_sync *sync, const char *image, struct message *message)
{
    const struct partitions *partitions = sync->engine->partitions;
    struct archive_facts facts = { partitions->count, (uint32_t)partitions->db_count };
    struct archive *archive = NULL;
    char path[DUMP_IMAGE_PATH_SIZE];
    enum status status;

    dump_image_path(sync->engine, (uint64_t)clock_mono_ns(), ".sync", path);
    status = rename(image, path) == 0 ? STATUS_OK : status_of_errno(errno);
    if (status != STATUS_OK) {
        message_set(message, "can't rename '%.100s': %.60s", image, strerror(errno));
        tree_remove(image);
        return status;
    }
    status = archive_open(path, &facts, sync->engine->closer, &archive, message);
    if (status != STATUS_OK)
        return status;
    sync->progress.bytes = archive_size(archive);
    full_sync_file_set_archive(sync->file, archive);
    return STATUS_OK;
}

static enum status take_and_write(struct full_sync *sync, struct message *message)
{
    struct engine *engine = sync->engine;
    bool as_image = sync->options.as_image;
    struct checkpoint_data data = {
        .tier = engine->tier, .partitions = engine->partitions, .registry = engine->scripts, .is_read_once = !as_image, .at_cut = note_instant,
        .context = sync,
        .history = as_image ? &engine->history : NULL,
    };
    char image[DUMP_IMAGE_PATH_SIZE];
    enum status status = dump_image_take(engine, &data, ".sync", image, message);

    if (status != STATUS_OK)
        return status;
    if (as_image && !sync->progress.cancel)
        return pass_image(sync, image, message);
    if (!sync->progress.cancel)
        status = write_rdb(sync, image, message);
    tree_remove(image);
    return status;
}

static enum status run_sync(struct full_sync *sync, struct message *message)
{
    enum status status = STATUS_OK;

    if (!sync->progress.cancel)
        status = take_and_write(sync, message);
    return sync->progress.cancel ? name_end(sync, message) : status;
}

static void log_end(const struct full_sync *sync, enum status status, const struct message *message)
{
    struct log *log = sync->engine->log;
    int64_t ms = task_stats(sync->engine->tasks, TASK_FULL_SYNC).running_ms;

    if (status == STATUS_OK && sync->options.as_image)
        log_write(log, LOG_LEVEL_NOTICE, "Full sync: the image for the replicas is complete: %" PRIu64 " bytes, %" PRId64 " ms", sync->progress.bytes, ms);
    else if (status == STATUS_OK)
        log_write(log, LOG_LEVEL_NOTICE, "Full sync: the RDB for the replicas is complete: %" PRIu64 " keys, %" PRIu64 " bytes, %" PRId64 " ms",
            sync->progress.keys, sync->progress.bytes, ms);
    else
        log_write(log, LOG_LEVEL_WARNING, "Full sync failed: %s", message->text);
    if (sync->progress.times_dropped > 0)
        log_write(log, LOG_LEVEL_NOTICE, "Full sync: the fields' times of %" PRIu64 " hashes were left out", sync->progress.times_dropped);
}

static void note_end(struct full_sync *sync, enum status status, const struct message *message)
{
    log_end(sync, status, message);
    full_sync_file_end(sync->file, status, message);
    call_grown(sync);
}

static void full_sync_main(void *context)
{
    struct full_sync *sync = context;
    struct engine *engine = sync->engine;
    struct full_sync_options options = sync->options;
    struct full_sync_file *file = sync->file;
    struct message message = { "" };
    enum status status;

    status = run_sync(sync, &message);
    note_end(sync, status, &message);
    task_end(engine->tasks, TASK_FULL_SYNC, status);        /* another caller's from here on */
    if (options.ended != NULL)
        options.ended(options.context, status, &message);
    full_sync_file_release(file);
}

static bool claim(struct full_sync *sync)
{
    if (!task_claim(sync->engine->tasks, TASK_FULL_SYNC))
        return false;
    sync->progress.key_total = sync->progress.keys = sync->progress.bytes = sync->progress.times_dropped = 0;
    sync->progress.cancel = false;
    if (task_is_closed(sync->engine->tasks, TASK_FULL_SYNC))
        sync->progress.cancel = true;       /* full_sync_close came between */
    return true;
}

enum task_start full_sync_start(struct full_sync *sync, const struct full_sync_options *options, struct full_sync_file **file)
{
    struct engine *engine = sync->engine;
    enum task_start started;

    if (!claim(sync))
        return TASK_BUSY;
    sync->options = *options;
    sync->instant = (struct full_sync_instant){ .repl_stream_db = -1 };
    sync->file = full_sync_file_create(engine->closer);
    sync->grown_ns = 0;
    sync->room_looked = 0;
    sync->is_full = false;
    *file = full_sync_file_hold(sync->file);        /* callbacks may use it before this returns */
    started = task_run(engine->tasks, TASK_FULL_SYNC, full_sync_main, sync);
    if (started != TASK_STARTED) {
        full_sync_file_release(*file);
        full_sync_file_release(*file);
        *file = NULL;
    }
    return started;
}

void full_sync_cancel(struct full_sync *sync)
{
    sync->progress.cancel = true;
}

void full_sync_close(struct full_sync *sync)
{
    task_close(sync->engine->tasks, TASK_FULL_SYNC);
    full_sync_cancel(sync);
}

bool full_sync_is_running(const struct full_sync *sync)
{
    return task_is_running(sync->engine->tasks, TASK_FULL_SYNC);
}

const struct rdb_save_progress *full_sync_progress(const struct full_sync *sync)
{
    return &sync->progress;
}

void full_sync_destroy(struct full_sync *sync)
{
    if (sync == NULL)
        return;
    full_sync_close(sync);
    if (sync->engine->tier != NULL)
        tier_image_cancel(sync->engine->tier, true);        /* no other task completes an image any more, either */
    task_join(sync->engine->tasks, TASK_FULL_SYNC);
    mem_free(sync);
}
