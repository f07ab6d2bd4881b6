/* Full sync file: the RDB of a full synchronization, a file without a name that connections read while it is written.
 *
 *     writer, one thread:     full_sync_file_open, full_sync_file_grow ..., full_sync_file_end
 *     readers, any thread:    full_sync_file_look, full_sync_file_read at their own positions
 *
 * The bytes below `size` are complete and do not change any more: the version in the file's header, too. It grows until its state is not
 * FULL_SYNC_RUNNING; then `size` is that of the whole file (FULL_SYNC_DONE), or the file is of no use (FULL_SYNC_FAILED): a reader that has
 * sent a part of it closes its connection.
 *
 * The file has no name from the first moment on: its space is free as soon as the last reference is released, however the process ends.
 */
#ifndef KELVIN_LIFECYCLE_FULL_SYNC_FILE_H
#define KELVIN_LIFECYCLE_FULL_SYNC_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/message.h"
#include "base/status.h"

struct archive;
struct closer;
struct full_sync_file;

/* Empty and FULL_SYNC_RUNNING, with one reference. */
struct full_sync_file *full_sync_file_create(struct closer *closer);
/* Another reference; and the end of one: the last one closes the file. Any thread. */
struct full_sync_file *full_sync_file_hold(struct full_sync_file *file);
void full_sync_file_release(struct full_sync_file *file);       /* NULL is fine */

enum full_sync_state { FULL_SYNC_RUNNING, FULL_SYNC_DONE, FULL_SYNC_FAILED };

struct full_sync_view {
    enum full_sync_state state;
    uint64_t size;              /* complete bytes; of the whole file if it is done */
};
/* Any thread, no lock. */
struct full_sync_view full_sync_file_look(const struct full_sync_file *file);

/* Up to `size` of the complete bytes from `offset` on. 0: there are none, for now or (look) at all. -1: errno, as of pread(2). Any thread;
 * reads the disk if the bytes are not in the page cache. */
ssize_t full_sync_file_read(const struct full_sync_file *file, void *to, size_t size, uint64_t offset);
/* For sendfile(2) and the like: only bytes below `size` may be read, at offsets of the caller's own. -1 while there are none. */
int full_sync_file_descriptor(const struct full_sync_file *file);

/* In the place of a file: an image's own files, once the state is FULL_SYNC_DONE; borrowed. NULL: there is a file. */
struct archive *full_sync_file_archive(const struct full_sync_file *file);

/* Returns why a file is FULL_SYNC_FAILED. Constant from then on. */
enum status full_sync_file_status(const struct full_sync_file *file);
const char *full_sync_file_problem(const struct full_sync_file *file);

/* The writer's side. */

/* Creates the file in the directory `dir`. Returns its descriptor, or -1: errno. The file closes it. */
int full_sync_file_open(struct full_sync_file *file, const char *dir);
/* There is no file, but this archive, whose reference it takes. Then full_sync_file_end. */
void full_sync_file_set_archive(struct full_sync_file *file, struct archive *archive);
/* The first `size` bytes were written and do not change any more. */
void full_sync_file_grow(struct full_sync_file *file, uint64_t size);
/* STATUS_OK: it is complete. Else `message` says why not. Nothing is written after that. */
void full_sync_file_end(struct full_sync_file *file, enum status status, const struct message *message);

#endif
