/* Closer: closes files without names in a thread of its own. The close frees the file's blocks and its pages in the cache, which takes milliseconds
 * for each 64 MiB, and the caller may be a thread that serves clients. The thread exists only while there are files to close.
 *
 * Any thread may add. The lock inside is a leaf; it is not held during a close.
 */
#ifndef KELVIN_STREAM_CLOSER_H
#define KELVIN_STREAM_CLOSER_H

#include <stdbool.h>

#include "base/mutex.h"
#include "base/thread.h"

struct disk;

struct closer {
    const struct disk *disk;        /* constant */
    bool are_synced;                /* constant: the cached pages go first, in pieces, so that no thread waits for a CPU for all of them at once */
    _Atomic bool is_ending;
    struct mutex lock;              /* guards what follows */
    int *fds;
    int count, capacity;
    struct thread thread;
    bool is_running;                /* the thread has not seen yet that there are no more files */
};

/* `are_synced`: the files have no pages that are to be written, or few. */
void closer_init(struct closer *closer, const struct disk *disk, bool are_synced);
void closer_release(struct closer *closer);     /* after all files are closed */

/* Closes it at once if the system gives no thread. */
void closer_add(struct closer *closer, int fd);

#endif
