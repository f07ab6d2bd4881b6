/* Closer: closes files and removes directories on a thread of its own. That frees the files' blocks and their pages in the cache, which takes
 * milliseconds for each 64 MiB, and the caller may be a thread that serves clients. There is one for the server; its thread exists only while there is
 * something to do, in the order in which it came.
 *
 * Any thread may call. The lock inside is a leaf; it is not held while something is closed. With NULL for a closer, and if the system gives no thread,
 * it is done at once by the caller.
 */
#ifndef KELVIN_BASE_CLOSER_H
#define KELVIN_BASE_CLOSER_H

struct closer;
struct disk;
struct meter;

struct closer *closer_create(struct meter *meter);
void closer_destroy(struct closer *closer);     /* after all is closed and removed; NULL is fine */

/* A file, usually one without a name. SYNCED: it has no pages that are to be written, or few: they leave the cache in pieces before, so that no
 * thread waits for a CPU for all of them at once. */
enum closer_file { CLOSER_FILE, CLOSER_FILE_SYNCED };
void closer_close(struct closer *closer, const struct disk *disk, int fd, enum closer_file kind);
/* A directory with all that is in it, as tree_remove does. `path` was allocated, and is the closer's. */
void closer_remove_take(struct closer *closer, char *path);

#endif
