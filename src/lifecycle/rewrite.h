/* Rewrite: checkpoints in the background: BGREWRITEAOF and auto-aof-rewrite-*. A task (lifecycle/task.h). */
#ifndef KELVIN_LIFECYCLE_REWRITE_H
#define KELVIN_LIFECYCLE_REWRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "lifecycle/task.h"

struct engine;
struct rewrite;

struct rewrite *rewrite_create(struct engine *engine);
void rewrite_destroy(struct rewrite *rewrite);      /* cancels the one that runs; NULL is fine */

/* TASK_BUSY: one runs already, the log is just being switched on or off, or the data set is reloaded. Any thread. */
enum task_start rewrite_start(struct rewrite *rewrite);
/* BGREWRITEAOF while a save runs: as soon as that has ended. Any thread. */
void rewrite_schedule(struct rewrite *rewrite);
/* Before the process ends: a checkpoint, if checkpoint-on-shutdown says so and there is something to replay. Returns when it is done, or
 * has failed, which does no harm; soon, if the log can't be written. Any thread that may wait. */
void rewrite_last(struct rewrite *rewrite);
/* The one that runs, and all that are started until rewrite_allow, fail soon. Any thread. */
void rewrite_cancel(struct rewrite *rewrite);
void rewrite_allow(struct rewrite *rewrite);
bool rewrite_is_running(const struct rewrite *rewrite);
/* The last one failed less than a minute ago, and if that was on a full disk, there is not more room now: none is started without a command. */
bool rewrite_failed_lately(const struct rewrite *rewrite);
/* Starts one if it is scheduled, or the log has grown, or time gone by, as auto-aof-rewrite-*, checkpoint-log-size and
 * checkpoint-seconds say. Those do not wait for the end of a save, which may take long: only its image is taken first. Main
 * worker's cron. */
void rewrite_consider(struct rewrite *rewrite);

bool rewrite_is_scheduled(const struct rewrite *rewrite);

#endif
