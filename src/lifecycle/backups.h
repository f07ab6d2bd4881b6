/* Backups: the task of TIER BACKUP (lifecycle/task.h), and its statistics for INFO. */
#ifndef KELVIN_LIFECYCLE_BACKUPS_H
#define KELVIN_LIFECYCLE_BACKUPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/message.h"
#include "lifecycle/task.h"
#include "persist/backup.h"

struct engine;
struct job;
struct backups;

struct backups *backups_create(struct engine *engine);
void backups_destroy(struct backups *backups);      /* ends the one that runs, early if it copies; NULL is fine */

/* Makes a backup on a thread of its own and calls job_finish(job) afterwards; the job then reads `done`. Nothing is done if it
 * can't be started. Without BACKUPS_ANYWHERE it fails unless `dir` is below the working
 * directory or backup-dir. `dir` is copied; `done` stays valid as long as the job does. Any thread. */
struct backup_done {
    enum status status;
    struct backup_result result;
    struct message message;
};
enum backups_place { BACKUPS_GUARDED, BACKUPS_ANYWHERE };
enum task_start backups_start(struct backups *backups, const char *dir, enum backups_place place, struct job *job, struct backup_done *done);

struct backups_stats {
    struct task_stats task;
    struct backup_result last_good;     /* zero: none yet */
};
void backups_stats(struct backups *backups, struct backups_stats *stats);

#endif
