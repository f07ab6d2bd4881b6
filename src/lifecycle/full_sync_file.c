#include "lifecycle/full_sync_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/check.h"
#include "base/closer.h"
#include "base/disk.h"
#include "base/file.h"
#include "base/mem.h"
#include "persist/archive.h"

enum { PATH_SIZE = 4096, CLOSED_AT_ONCE = 16 << 20 };

struct full_sync_file {
    _Atomic int references;
    struct closer *closer;
    _Atomic int state;              /* enum full_sync_state; written after all of what it says */
    _Atomic uint64_t size;          /* written after the bytes */
    struct archive *archive;        /* in its place; written before `state` */
    int fd;                         /* -1, or written before `size` is more than 0 */
    enum status status;             /* written before `state` */
    struct message message;
};

struct full_sync_file *full_sync_file_create(struct closer *closer)
{
    struct full_sync_file *file = mem_zalloc(sizeof(*file));

    file->references = 1;
    file->closer = closer;
    file->state = FULL_SYNC_RUNNING;
    file->fd = -1;
    return file;
}

struct full_sync_file *full_sync_file_hold(struct full_sync_file *file)
{
    CHECK(atomic_fetch_add(&file->references, 1) > 0);
    return file;
}

void full_sync_file_release(struct full_sync_file *file)
{
    if (file == NULL || atomic_fetch_sub(&file->references, 1) > 1)
        return;
    archive_release(file->archive);
    if (file->fd >= 0 && file->size > CLOSED_AT_ONCE)
        closer_close(file->closer, disk_system(), file->fd, CLOSER_FILE);       /* the caller may be a worker */
    else if (file->fd >= 0)
        (void)close(file->fd);
    mem_free(file);
}

struct full_sync_view full_sync_file_look(const struct full_sync_file *file)
{
    enum full_sync_state state = (enum full_sync_state)file->state;     /* first: the size does not change after that */

    return (struct full_sync_view){ state, file->size };
}

ssize_t full_sync_file_read(const struct full_sync_file *file, void *to, size_t size, uint64_t offset)
{
    uint64_t complete = file->size;
    ssize_t got;

    if (offset >= complete)
        return 0;
    if (size > complete - offset)
        size = (size_t)(complete - offset);
    do
        got = pread(file->fd, to, size, (off_t)offset);
    while (got < 0 && errno == EINTR);
    if (got == 0) {
        errno = EIO;                /* bytes that were written are not there */
        return -1;
    }
    if (got > 0)
        file_read_ahead(file->fd, offset, offset + (uint64_t)got);
    return got;
}

int full_sync_file_descriptor(const struct full_sync_file *file)
{
    return file->size > 0 ? file->fd : -1;
}

struct archive *full_sync_file_archive(const struct full_sync_file *file)
{
    return file->archive;
}

void full_sync_file_set_archive(struct full_sync_file *file, struct archive *archive)
{
    CHECK(file->state == FULL_SYNC_RUNNING && file->fd < 0 && file->archive == NULL);
    file->archive = archive;
}

enum status full_sync_file_status(const struct full_sync_file *file)
{
    CHECK(file->state == FULL_SYNC_FAILED);
    return file->status;
}

const char *full_sync_file_problem(const struct full_sync_file *file)
{
    CHECK(file->state == FULL_SYNC_FAILED);
    return file->message.text;
}

int full_sync_file_open(struct full_sync_file *file, const char *dir)
{
    char path[PATH_SIZE];

    CHECK(file->fd < 0);
    if (snprintf(path, sizeof(path), "%s/temp-%d.sync.rdb", dir, (int)getpid()) >= PATH_SIZE) {
        errno = ENAMETOOLONG;
        return -1;
    }
    file->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file->fd >= 0 && unlink(path) != 0) {
        int error = errno;

        (void)close(file->fd);
        file->fd = -1;
        errno = error;
    }
    return file->fd;
}

void full_sync_file_grow(struct full_sync_file *file, uint64_t size)
{
    CHECK(file->state == FULL_SYNC_RUNNING && size >= file->size && file->fd >= 0);
    file->size = size;
}

void full_sync_file_end(struct full_sync_file *file, enum status status, const struct message *message)
{
    CHECK(file->state == FULL_SYNC_RUNNING);
    file->status = status;
    if (status != STATUS_OK)
        file->message = *message;
    file->state = status == STATUS_OK ? FULL_SYNC_DONE : FULL_SYNC_FAILED;
}
