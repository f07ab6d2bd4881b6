#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

enum { READ_SIZE = 64 << 10, AHEAD_STEP = 1 << 20 };

/* While an error is on its way out, errno stays what it was. */
static void close_quietly(const struct disk *disk, int fd)
{
    int error = errno;

    disk->close(disk->context, fd);
    errno = error;
}

static void unlink_quietly(const struct disk *disk, int dir, const char *path)
{
    int error = errno;

    disk->unlink(disk->context, dir, path);
    errno = error;
}

int file_open(const struct disk *disk, int dir, const char *path, int flags)
{
    int fd;

    do
        fd = disk->open(disk->context, dir, path, flags | O_CLOEXEC, 0644);
    while (fd < 0 && errno == EINTR);
    return fd;
}

ssize_t file_read(const struct disk *disk, int fd, void *data, size_t size)
{
    ssize_t got;

    do
        got = disk->read(disk->context, fd, data, size);
    while (got < 0 && errno == EINTR);
    return got;
}

ssize_t file_pread_all(const struct disk *disk, int fd, void *data, size_t size, uint64_t offset)
{
    size_t done = 0;

    while (done < size) {
        ssize_t got = disk->pread(disk->context, fd, (char *)data + done, size - done, (off_t)(offset + done));

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

void file_read_ahead(int fd, uint64_t at, uint64_t next)
{
    if (at == 0 || at / AHEAD_STEP != next / AHEAD_STEP)
        (void)posix_fadvise(fd, (off_t)next, 2 * AHEAD_STEP, POSIX_FADV_WILLNEED);
}

enum status file_write_all(const struct disk *disk, int fd, struct bytes data)
{
    while (data.size > 0) {
        ssize_t written = disk->write(disk->context, fd, data.data, data.size);

        if (written < 0 && errno == EINTR)
            continue;
        if (written == 0)
            errno = ENOSPC;
        if (written <= 0)
            return status_of_errno(errno);
        data = bytes_of(data.data + written, data.size - (size_t)written);
    }
    return STATUS_OK;
}

/* A regular file gets a buffer of its size, with a byte more to see that this is all; others, and one that grows, what it takes. */
static enum status read_to_end(const struct disk *disk, int fd, size_t size_max, struct buffer *text)
{
    size_t before = text->size;
    struct stat info;

    if (fstat(fd, &info) == 0 && info.st_size > 0 && (uint64_t)info.st_size < size_max)
        buffer_reserve_exact(text, (size_t)info.st_size + 1);
    for (;;) {
        size_t room = text->capacity - text->size;
        ssize_t got;

        if (room == 0) {
            buffer_grow(text, READ_SIZE);
            room = text->capacity - text->size;
        }
        got = file_read(disk, fd, text->data + text->size, room);
        if (got < 0)
            return status_of_errno(errno);
        if (got == 0)
            return STATUS_OK;
        text->size += (size_t)got;
        if (text->size - before > size_max) {
            errno = EFBIG;
            return STATUS_TOO_LARGE;
        }
    }
}

enum status file_read_all(const struct disk *disk, int dir, const char *path, size_t size_max, struct buffer *text)
{
    size_t before = text->size;
    enum status status;
    int fd = file_open(disk, dir, path, O_RDONLY);

    if (fd < 0)
        return status_of_errno(errno);
    status = read_to_end(disk, fd, size_max, text);
    if (status != STATUS_OK)
        text->size = before;
    close_quietly(disk, fd);
    return status;
}

/* Mode 0: as it is. */
static enum status create_named(const struct disk *disk, int dir, const char *path, mode_t mode, struct bytes data)
{
    enum status status;
    int fd = file_open(disk, dir, path, O_WRONLY | O_CREAT | O_EXCL);

    if (fd < 0)
        return status_of_errno(errno);
    status = file_write_all(disk, fd, data);
    if (status == STATUS_OK && ((mode != 0 && fchmod(fd, mode) != 0) || disk->fsync(disk->context, fd) != 0))
        status = status_of_errno(errno);
    if (status != STATUS_OK)
        close_quietly(disk, fd);
    else if (disk->close(disk->context, fd) != 0)
        status = status_of_errno(errno);
    if (status != STATUS_OK)
        unlink_quietly(disk, dir, path);
    return status;
}

enum status file_create(const struct disk *disk, int dir, const char *path, struct bytes data)
{
    return create_named(disk, dir, path, 0, data);
}

static enum status overwrite(const struct disk *disk, int dir, const char *path, mode_t mode, struct bytes data)
{
    if (disk->unlink(disk->context, dir, path) != 0 && errno != ENOENT)
        return status_of_errno(errno);
    return create_named(disk, dir, path, mode, data);
}

enum status file_overwrite(const struct disk *disk, int dir, const char *path, struct bytes data)
{
    return overwrite(disk, dir, path, 0, data);
}

enum status file_replace(const struct disk *disk, const struct file_replacement *place, struct bytes data, bool *renamed)
{
    enum status status = overwrite(disk, place->dir, place->aside, place->mode, data);

    *renamed = false;
    if (status != STATUS_OK)
        return status;
    *renamed = true;            /* a rename that fails may have taken place all the same */
    if (disk->rename(disk->context, place->dir, place->aside, place->path) != 0) {
        unlink_quietly(disk, place->dir, place->aside);
        return status_of_errno(errno);
    }
    if (place->dir == AT_FDCWD)
        return directory_sync_parent(disk, place->path);
    return disk->fsync(disk->context, place->dir) != 0 ? status_of_errno(errno) : STATUS_OK;
}

enum status file_refill(const struct disk *disk, int dir, const char *path, struct bytes data)
{
    enum status status;
    int fd = file_open(disk, dir, path, O_WRONLY);

    if (fd < 0)
        return status_of_errno(errno);
    status = file_write_all(disk, fd, data);
    if (status == STATUS_OK && (disk->ftruncate(disk->context, fd, (off_t)data.size) != 0 || disk->fsync(disk->context, fd) != 0))
        status = status_of_errno(errno);
    close_quietly(disk, fd);
    return status;
}

enum status directory_sync(const struct disk *disk, const char *path)
{
    enum status status = STATUS_OK;
    int fd = file_open(disk, AT_FDCWD, path, O_RDONLY | O_DIRECTORY);

    if (fd < 0)
        return status_of_errno(errno);
    if (disk->fsync(disk->context, fd) != 0)
        status = status_of_errno(errno);
    close_quietly(disk, fd);
    return status;
}

/* As dirname(3): "a/b/" is in "a", "b" in ".", "/b" in "/". */
static struct bytes parent_of(const char *path)
{
    size_t size = strlen(path);

    while (size > 1 && path[size - 1] == '/')
        size--;
    while (size > 0 && path[size - 1] != '/')
        size--;
    if (size == 0)
        return BYTES(".");
    while (size > 1 && path[size - 1] == '/')
        size--;
    return bytes_of(path, size);
}

enum status directory_sync_parent(const struct disk *disk, const char *path)
{
    char *parent = mem_string(parent_of(path));
    enum status status = directory_sync(disk, parent);
    int error = errno;

    mem_free(parent);
    errno = error;
    return status;
}
