/* Nodes store: the file nodes.conf on the disk. One process has it, by flock(2): two nodes with the same name and the same votes would break every
 * promise.
 *
 * A save writes a file beside it ("nodes.conf.tmp"), syncs and locks that one, and renames it: at every instant the file has the old or the new contents, and
 * the one with the name is locked. The new contents are always synced before the rename, because an empty file is that of a new node, which has
 * forgotten its votes.
 *
 * Syncing takes most of the time. What only has to outlive the process is written without it to "nodes.conf.next", which begins with the checksums (crc64, hexadecimal)
 * of the nodes.conf that it is to replace, and of the rest of itself:
 *
 *   <of nodes.conf> <of the text> LF <text>
 *
 * It counts as long as both are right. So a power cut, a later save, and a redis-server that has saved nodes.conf meanwhile make it void.
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

/* Locks the file, which is created if it is missing, and puts what was saved last into `text`, which is empty. STATUS_LOCKED: another process has it; else STATUS_TOO_LARGE, or
 * the system's failure. `message` says why. `disk` outlives the store. */
enum status nodes_store_open(const struct disk *disk, const char *path, struct nodes_store **store, struct buffer *text, struct message *message);
void nodes_store_close(struct nodes_store *store);      /* unlocks; NULL is fine */

/* WRITTEN: outlives the process, but a power cut may bring back what was saved before. nodes.conf keeps its contents until the next save that is SYNCED, which outlives both. */
enum nodes_store_durability { NODES_STORE_WRITTEN, NODES_STORE_SYNCED };
/* On failure the file has the old contents, or, if only the directory could not be synced, the new ones. */
enum status nodes_store_save(struct nodes_store *store, struct bytes text, enum nodes_store_durability durability, struct message *message);

#endif
