/* Save: dumps, that is RDB files: SAVE, BGSAVE, the save points, and the last one before the server ends.
 *
 * A task (lifecycle/task.h). It takes an image of one instant (checkpoint_image: hard links, no fork) and streams that to
 * `dbfilename`; only clients that called SAVE wait for it. The image is a directory `temp-<pid>.image` in tier-dir, and is removed
 * afterwards.
 *
 * After a failure the previous dump stays, and the unfinished one is removed; the failure is reported in the log and INFO, and writes are
 * refused (stop-writes-on-bgsave-error). The save points try again after 5 seconds.
 *
 * Threads: any, but for save_consider (the main worker) and save_last (not a worker).
 */
#ifndef KELVIN_LIFECYCLE_SAVE_H
#define KELVIN_LIFECYCLE_SAVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/message.h"
#include "config/config.h"
#include "engine/job.h"
#include "lifecycle/task.h"

struct claim;
struct engine;
struct save;

struct save *save_create(struct engine *engine);
void save_destroy(struct save *save);       /* gives up the one that runs, and waits for its end; NULL is fine */

/* A client that waits for its SAVE. */
struct save_wait {
    struct job job;
    bool good;
    struct message message;      /* why not */
};

/* Claims the task. False: a save runs, or the server is about to end. A caller that has claimed it has to start it: in the background (`wait` NULL), or for a client that
 * waits (call_wait_job was called with it). save_start returns false if no thread could be created; the claim is given back then, and in
 * the background it counts as a save that failed. */
bool save_claim(struct save *save);
bool save_start(struct save *save, struct save_wait *wait);
/* BGSAVE SCHEDULE: as soon as no rewrite runs. */
void save_schedule(struct save *save);
/* Starts one if it is scheduled or a save point is reached. */
void save_consider(struct save *save);

/* The dump before the end. The caller makes sure that nothing is written meanwhile. Cancels one that runs; from then on, until save_reopen,
 * no other save can be claimed. `wanted` false: only cancels. Blocks. */
bool save_last(struct save *save, bool wanted, struct message *message);
void save_reopen(struct save *save);
/* A dump on the calling thread, after the one that runs. True: `owner` owns all partitions from the dump's instant on; the caller ends that
 * with partitions_give_all. False: it owns nothing, and `message` says why. Blocks; not on a worker, and no lock held. */
bool save_and_own(struct save *save, struct claim *owner, struct message *message);
/* The one that runs, the last one too, ends as a failure as soon as possible. */
void save_cancel(struct save *save);

bool save_is_running(struct save *save);
bool save_has_points(struct save *save);
/* The last background save failed, and the configuration says that nothing may be written then. */
bool save_denies_writes(struct save *save);

struct save_stats {
    struct task_stats task;
    bool last_failed;
    int64_t last_ms;                    /* how long the last one in the background took; -1: none */
    uint64_t count;                     /* that have begun */
    uint64_t keys, key_total;           /* of the one that runs */
};
void save_stats(struct save *save, struct save_stats *stats);

#endif
