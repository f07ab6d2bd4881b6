/* Kept log: a log that is put aside when a checkpoint takes its place although it has values of records that can't be read. It is a directory
 * beside the log's, links of its files, on which a server can be started.
 *
 *   appendonlydir.kept.incomplete          until the checkpoint has committed; its last increment is still written by this server
 *   appendonlydir.kept, .kept.2, .kept.3   complete; never changed or removed by a server
 *
 * A checkpoint that failed, or a kill, leaves the first one. It is settled by the next start or checkpoint: the manifest says whether the commit
 * was made. The file system has hard links (opening_log_fits); a log's directory that is a mount, or a symbolic link to one, has no kept log.
 */
#ifndef KELVIN_LIFECYCLE_KEPT_LOG_H
#define KELVIN_LIFECYCLE_KEPT_LOG_H

#include <stdbool.h>

#include "base/message.h"
#include "base/status.h"
#include "base/tree.h"

struct aof;

/* Links the log's files, durably. `dir` is the log's. None is pending. The caller is the thread of a checkpoint. */
enum status kept_log_begin(const char *dir, struct message *message);
/* One was begun, and is not settled. */
bool kept_log_is_pending(const char *dir);
/* Removes the one that is pending if the log still has all of it; or gives it its name, sets `kept` and returns true. With a log that was
 * opened and not started, or whose manifest is as in memory. False as well if nothing is pending, or it can't be looked at or renamed: it stays then. */
bool kept_log_settle(struct aof *aof, const char *dir, char kept[TREE_PATH_SIZE]);

#endif
