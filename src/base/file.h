/* Files: what needs more than one call of the disk. Reads and writes that a signal interrupts are repeated, short ones are continued.
 *
 * Errors: STATUS_OK, or status_of_errno with errno left as it was, so that a caller may name it with strerror. A write of 0
 * bytes counts as ENOSPC. `dir` is a directory's descriptor or AT_FDCWD, as in base/disk.h.
 *
 * Thread-safe, but for a descriptor's own offset.
 */
#ifndef KELVIN_BASE_FILE_H
#define KELVIN_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/disk.h"
#include "base/status.h"

/* A descriptor, or -1 with errno. O_CLOEXEC is added; what is created has the mode 0644. */
int file_open(const struct disk *disk, int dir, const char *path, int flags);

/* One read: the bytes it got, 0 at the file's end, -1 with errno. */
ssize_t file_read(const struct disk *disk, int fd, void *data, size_t size);

/* All `size` bytes from `offset` on, or as many as the file has: returns how many, or -1 with errno. */
ssize_t file_pread_all(const struct disk *disk, int fd, void *data, size_t size, uint64_t offset);

/* For a thread that reads a file in order and should not wait for the disk: it has read from `at` to `next`. After each MiB, and at the begin, the kernel
 * is asked to read on, so that the next bytes are in the page cache by the time they are wanted. */
void file_read_ahead(int fd, uint64_t at, uint64_t next);

enum status file_write_all(const struct disk *disk, int fd, struct bytes data);

/* Appends the whole file to `text`. STATUS_TOO_LARGE (errno is EFBIG): it has more than `size_max` bytes. On failure the buffer keeps its
 * old contents. */
enum status file_read_all(const struct disk *disk, int dir, const char *path, size_t size_max, struct buffer *text);

/* A file with these bytes, synced; its name is not durable before its directory is synced. On failure there is no file.
 * create: fails with EEXIST if there is a file of that name. overwrite: takes the place of one. */
enum status file_create(const struct disk *disk, int dir, const char *path, struct bytes data);
enum status file_overwrite(const struct disk *disk, int dir, const char *path, struct bytes data);

/* Replaces the contents of `path` so that it has the old or the new ones at every instant: the new ones are written to `aside`, a name in
 * the same directory, which then is renamed; all of it is synced, the directory too. Once *renamed is true a failure leaves it open which
 * of the two a crash leaves. */
struct file_replacement {
    int dir;
    const char *path;
    const char *aside;          /* a file of that name is removed first */
    mode_t mode;                /* exactly, whatever the umask; 0: that of new files */
};
enum status file_replace(const struct disk *disk, const struct file_replacement *replacement, struct bytes data, bool *renamed);

/* Replaces the contents of an existing file in place, synced: for a file in a directory that can't be written. A crash, or a failure, may leave the new
 * contents up to some byte and the old ones after it. */
enum status file_refill(const struct disk *disk, int dir, const char *path, struct bytes data);

/* Makes the names in a directory durable; of the parent: the name of `path` itself. */
enum status directory_sync(const struct disk *disk, const char *path);
enum status directory_sync_parent(const struct disk *disk, const char *path);

#endif
