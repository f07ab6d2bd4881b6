#include "base/disk.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int system_open(void *context, int dir, const char *path, int flags, mode_t mode) { return openat(dir, path, flags, mode); }
static int system_close(void *context, int fd) { return close(fd); }
static ssize_t system_read(void *context, int fd, void *data, size_t size) { return read(fd, data, size); }
static ssize_t system_pread(void *context, int fd, void *data, size_t size, off_t offset) { return pread(fd, data, size, offset); }
static ssize_t system_write(void *context, int fd, const void *data, size_t size) { return write(fd, data, size); }
static int system_ftruncate(void *context, int fd, off_t size) { return ftruncate(fd, size); }
static int system_fdatasync(void *context, int fd) { return fdatasync(fd); }
static int system_fsync(void *context, int fd) { return fsync(fd); }
static int system_sync_file_range(void *context, int fd, off_t offset, off_t size, unsigned flags) { return sync_file_range(fd, offset, size, flags); }
static int system_rename(void *context, int dir, const char *from, const char *to) { return renameat(dir, from, dir, to); }
static int system_link(void *context, int dir, const char *from, const char *to) { return linkat(dir, from, dir, to, 0); }
static int system_unlink(void *context, int dir, const char *path) { return unlinkat(dir, path, 0); }
static int system_mkdir(void *context, int dir, const char *path, mode_t mode) { return mkdirat(dir, path, mode); }
static int system_rmdir(void *context, int dir, const char *path) { return unlinkat(dir, path, AT_REMOVEDIR); }

const struct disk *disk_system(void)
{
    static const struct disk table = {
        .open = system_open,
        .close = system_close,
        .read = system_read,
        .pread = system_pread,
        .write = system_write,
        .ftruncate = system_ftruncate,
        .fdatasync = system_fdatasync,
        .fsync = system_fsync,
        .sync_file_range = system_sync_file_range,
        .rename = system_rename,
        .link = system_link,
        .unlink = system_unlink,
        .mkdir = system_mkdir,
        .rmdir = system_rmdir,
    };

    return &table;
}
