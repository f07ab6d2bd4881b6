/* Backup: the whole data set as of one instant, in a directory of its own that a server can be started on; made while the server runs.
 *
 *   <dir>/BACKUP                                what it is, how to restore it, its files and their sizes (text)
 *   <dir>/appendonlydir/<name>.manifest         the base below, and an empty increment
 *   <dir>/appendonlydir/<name>.<n>.base.image/  a checkpoint's image; tables and segments are hard links, where the file system allows it
 *   <dir>/appendonlydir/<name>.1.incr.aof
 *
 * Until everything is written and synced, it is `<dir>/appendonlydir.incomplete`; the rename makes it a backup. A restore does the same,
 * next to the log's directory. A server that finds such a directory and no data does not start (persist/aof.c).
 */
#ifndef KELVIN_PERSIST_BACKUP_H
#define KELVIN_PERSIST_BACKUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/message.h"
#include "base/status.h"
#include "persist/checkpoint.h"

enum { BACKUP_ID_SIZE = 41 };

struct progress_report;

struct backup_places {
    const char *log_dir, *log_name;     /* appenddirname, appendfilename: plain names */
    const char *store_dir;              /* tier-dir */
};

struct backup_result {
    char id[BACKUP_ID_SIZE];
    int64_t time_ms;                    /* wall clock, of the cut */
    uint64_t keys;                      /* of all databases */
    uint64_t files, bytes;
    uint64_t copied_bytes;              /* of `bytes`, those in files that are not shared with the store or other backups */
};

/* Whether `dir`, which need not exist, is in one of two directories or is that directory (`other` may be empty: there is none). Symbolic
 * links are followed. Also false if its parent can't be found. Reads the disk. */
bool backup_is_below(const char *dir, const char *one, const char *other);

/* `dir` does not exist, or is empty; its parent exists. Blocks until it is done: not on a worker, no lock held; waits while a checkpoint
 * or another backup runs. If `dir` is on another file system, where no links can be made, the image is linked in the store's directory first and then
 * copied, so that demotion stops only while the links are made. `stop` ends the copying. On failure `dir` is as it was. */
enum status backup_make(const struct checkpoint_data *data, const struct backup_places *places, const char *dir,
    const _Atomic bool *stop, struct backup_result *result, struct message *message);

/* Removes what a backup left in the store's directory if the process ended during it. Nothing else uses that name. */
void backup_clean(const char *store_dir);

/* Restores a backup to the working directory's log directory, which must not exist or must be empty. Verified first: manifest, files and
 * their sizes, databases, record maps. `databases` is the number in the configuration. The backup is only read; increments that a server
 * has written to it since are restored, too. STATUS_INVALID: there is data here already, or it is not a (complete) backup. `*result` is
 * filled. `report` says how far it is; its output is set. */
enum status backup_restore(const struct backup_places *places, const char *from, int databases, struct progress_report *report,
    struct backup_result *result, struct message *message);

#endif
