/* Disk: the system's functions on files, as a table. Code that has to be tested against failing disks and power cuts takes a
 * `const struct disk *` and writes, syncs and renames by it; tests pass tables of their own (tests/support/faulty_disk.h, aof_disk.h).
 *
 * Each function is the system call of its name, with its results and its errno, and `context` in front. Descriptors are the system's.
 * `dir` is the descriptor of the directory that relative paths begin in, AT_FDCWD for the working directory. base/file.h has the loops
 * that most callers need around these.
 *
 * Thread-safe. A table is constant and outlives everything that was given it.
 */
#ifndef KELVIN_BASE_DISK_H
#define KELVIN_BASE_DISK_H

#include <stddef.h>
#include <sys/types.h>

struct disk {
    void *context;
    int (*open)(void *context, int dir, const char *path, int flags, mode_t mode);
    int (*close)(void *context, int fd);
    ssize_t (*read)(void *context, int fd, void *data, size_t size);
    ssize_t (*pread)(void *context, int fd, void *data, size_t size, off_t offset);
    ssize_t (*write)(void *context, int fd, const void *data, size_t size);
    int (*ftruncate)(void *context, int fd, off_t size);
    int (*fdatasync)(void *context, int fd);        /* of files with data */
    int (*fsync)(void *context, int fd);            /* of directories, and of files that take another's place */
    /* Makes nothing durable. With WAIT flags the call reports a failed write-back, of any error, and only once: a later fdatasync succeeds. */
    int (*sync_file_range)(void *context, int fd, off_t offset, off_t size, unsigned flags);
    int (*rename)(void *context, int dir, const char *from, const char *to);
    int (*link)(void *context, int dir, const char *from, const char *to);
    int (*unlink)(void *context, int dir, const char *path);
    int (*mkdir)(void *context, int dir, const char *path, mode_t mode);
    int (*rmdir)(void *context, int dir, const char *path);
};

/* The system's own functions. */
const struct disk *disk_system(void);

#endif
