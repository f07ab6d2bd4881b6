/* Nodes store: the file nodes.conf on the disk. One process has it, by flock(2): two nodes with the same name and the same votes would break every
 * promise.
 *
 * A save writes a file beside it ("nodes.conf.tmp"), syncs and locks that one, and renames it: at every instant the file has the old or the new contents, and
 * the one with the name is locked. The new contents are always synced before the rename, because an empty file is that of a new node, which has
 * forgotten its votes.
 *
 * Owner: one thread at a time. Errors are not logged.
 */
#ifndef KELVIN_CLUSTER_NODES_STORE_H
#define KELVIN_CLUSTER_NODES_STORE_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/disk.h"
#include "base/message.h"
#include "base/status.h"

struct nodes_store;

/* Locks the file, which is created if it is missing, and appends its contents to `text`. STATUS_LOCKED: another process has it; else STATUS_TOO_LARGE, or
 * the system's failure. `message` says why. `disk` outlives the store. */
enum status nodes_store_open(const struct disk *disk, const char *path, struct nodes_store **store, struct buffer *text, struct message *message);
void nodes_store_close(struct nodes_store *store);      /* unlocks; NULL is fine */

/* After a power cut the old contents may be there again with SOON, and not with NOW. */
enum nodes_store_durability { NODES_STORE_SOON, NODES_STORE_NOW };
/* On failure the file has the old contents, or, if only the directory could not be synced, the new ones. */
enum status nodes_store_save(struct nodes_store *store, struct bytes text, enum nodes_store_durability durability, struct message *message);

#endif
