/* Full sync: the data set of one instant as an RDB for replicas, by a background thread: no fork, and no copy in memory.
 *
 * A task (lifecycle/task.h), one at a time. It takes an image of one instant (checkpoint_image: hard links) and writes that as an RDB to a
 * file without a name in the data directory (full_sync_file.h). Connections read the file while it grows, each at its own pace, and may do
 * so long after the task has ended. The image is a directory `temp-<pid>.sync` in tier-dir, as that of a save; it is removed as soon
 * as the file is complete.
 *
 * It runs beside everything: only the taking of the image waits for an image that another task takes, and its instant for a reload.
 *
 *     file = NULL
 *     if (full_sync_start(sync, &options, &file) == TASK_STARTED)
 *         ... for each connection: full_sync_file_hold(file); read, send ...; full_sync_file_release(file)
 *
 *     the sync's thread:      instant at most once, grown any number of times, ended once
 *
 * It fails rather than take the last room on the disk: 64 MiB, or one percent of a smaller disk, are left for the log.
 */
#ifndef KELVIN_LIFECYCLE_FULL_SYNC_H
#define KELVIN_LIFECYCLE_FULL_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#include "lifecycle/full_sync_file.h"
#include "lifecycle/task.h"
#include "persist/rdb_save.h"

struct engine;
struct full_sync;

struct full_sync *full_sync_create(struct engine *engine);
void full_sync_destroy(struct full_sync *sync);     /* cancels the one that runs, and waits for its end; NULL is fine */

/* Where the stream is at the instant of the image; written to the file. */
struct full_sync_instant {
    char repl_id[41];
    int64_t repl_offset;
    int repl_stream_db;             /* the database that is selected there; -1: none (as 0 to Redis) */
};

struct full_sync_options {
    /* All on the sync's thread, with `context`. None may start a full sync. `grown` and `ended` may be NULL. */
    void *context;
    /* With all partitions locked and no unit under way. Short: no I/O, and only locks that are below the partitions'. */
    void (*instant)(void *context, struct full_sync_instant *instant);
    /* There is more in the file, or its state is final. At most each 10 ms, but for the end. No lock is held. */
    void (*grown)(void *context);
    /* The file's state is final, and the task has ended: another one can be started, by another thread. `message` says why it failed. */
    void (*ended)(void *context, enum status status, const struct message *message);
    enum rdb_field_times field_times;       /* what replicas know: RDB_TIMES_ALLOWED writes version 12, the others write version 10 */
    bool include_keys, include_functions;
    bool as_image;                  /* no RDB is written: the file is the image's own ones (full_sync_file_archive), and what is before this
                                     * has no effect */
};

/* If it was started, *file is a reference of the caller's. Any thread; waits for the callback `ended` of the one before. */
enum task_start full_sync_start(struct full_sync *sync, const struct full_sync_options *options, struct full_sync_file **file);

/* The one that runs fails as soon as possible, with STATUS_CANCELLED. Any thread; returns at once. */
void full_sync_cancel(struct full_sync *sync);
/* For good: no other one can be started. */
void full_sync_close(struct full_sync *sync);

bool full_sync_is_running(const struct full_sync *sync);

/* Returns what the one that runs has written, or the last one has. */
const struct rdb_save_progress *full_sync_progress(const struct full_sync *sync);

#endif
