#include "stream/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/closer.h"
#include "base/crc32c.h"
#include "base/disk.h"
#include "base/file.h"
#include "base/mem.h"

enum { CLOSED_AT_ONCE = 1 << 20 };

static char *path_of(const char *dir, const char *name)
{
    size_t size = strlen(dir) + strlen(name) + 32;
    char *path = mem_alloc(size);

    snprintf(path, size, "%s/temp-%d.%s", dir, (int)getpid(), name);
    return path;
}

void spool_init(struct spool *spool, const struct disk *disk, struct closer *closer, const char *dir, const char *name, size_t block_size)
{
    *spool = (struct spool){ .disk = disk, .path = dir != NULL ? path_of(dir, name) : NULL, .block_size = block_size,
        .closer = closer };
}

void spool_release(struct spool *spool)
{
    spool_trim(spool, UINT64_MAX);
    spool_close(spool, spool_take_unused(spool));
    mem_free(spool->path);
}

/* --- with the lock --- */

uint64_t spool_begin(const struct spool *spool)
{
    return spool->files->first;
}

uint64_t spool_end(const struct spool *spool)
{
    return spool->last->first + spool->last->count;
}

bool spool_has(const struct spool *spool, uint64_t number)
{
    return !spool_is_empty(spool) && number >= spool_begin(spool) && number < spool_end(spool);
}

struct spool_file *spool_hold(struct spool *spool, uint64_t number)
{
    struct spool_file *file = spool->files;

    CHECK(spool_has(spool, number));
    while (number >= file->first + file->count)
        file = file->next;
    file->holds++;
    return file;
}

struct spool_file *spool_hold_last(struct spool *spool)
{
    struct spool_file *last = spool->last;

    if (last == NULL || last->is_sealed || last->count == last->capacity)
        return NULL;
    last->holds++;
    return last;
}

void spool_let_go(struct spool *spool, struct spool_file *file)
{
    if (--file->holds > 0)
        return;
    file->next = spool->unused;
    spool->unused = file;
}

static void link_last(struct spool *spool, struct spool_file *file)
{
    CHECK(spool_is_empty(spool) || spool_end(spool) == file->first);
    if (spool->last != NULL)
        spool->last->next = file;
    else
        spool->files = file;
    spool->last = file;
    spool->file_count++;
    file->is_listed = true;
    file->holds++;
}

static void unlink_first(struct spool *spool)
{
    struct spool_file *file = spool->files;

    spool->files = file->next;
    if (file->next == NULL)
        spool->last = NULL;
    spool->file_count--;
    spool->used -= (uint64_t)file->count * spool->block_size;
    file->next = NULL;
    file->is_listed = false;
    spool_let_go(spool, file);
}

void spool_commit(struct spool *spool, struct spool_file *file, uint32_t sum)
{
    CHECK(file->count < file->capacity && !file->is_sealed);
    if (!file->is_listed)
        link_last(spool, file);
    CHECK(file == spool->last);
    file->sums[file->count++] = sum;
    spool->used += spool->block_size;
}

void spool_seal(struct spool *spool, struct spool_file *file)
{
    (void)spool;
    file->is_sealed = true;
}

void spool_trim(struct spool *spool, uint64_t number)
{
    while (!spool_is_empty(spool) && spool->files->first + spool->files->count <= number)
        unlink_first(spool);
}

struct spool_file *spool_take_unused(struct spool *spool)
{
    struct spool_file *files = spool->unused;

    spool->unused = NULL;
    return files;
}

/* --- without the lock --- */

static void close_quietly(const struct disk *disk, int fd)
{
    int error = errno;

    disk->close(disk->context, fd);
    errno = error;
}

/* A file of that name was left by a process with the same number that was killed just then. */
static int open_nameless(const struct spool *spool)
{
    const struct disk *disk = spool->disk;
    int fd;

    (void)disk->unlink(disk->context, AT_FDCWD, spool->path);
    do
        fd = disk->open(disk->context, AT_FDCWD, spool->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    while (fd < 0 && errno == EINTR);
    if (fd >= 0 && disk->unlink(disk->context, AT_FDCWD, spool->path) != 0) {
        close_quietly(disk, fd);
        return -1;
    }
    return fd;
}

struct spool_file *spool_open(const struct spool *spool, uint64_t first, uint32_t capacity)
{
    struct spool_file *file;
    int fd = open_nameless(spool);

    if (fd < 0)
        return NULL;
    file = mem_zalloc(sizeof(*file) + capacity * sizeof(file->sums[0]));
    file->first = first;
    file->capacity = capacity;
    file->fd = fd;
    file->holds = 1;
    return file;
}

bool spool_write(const struct spool *spool, const struct spool_file *file, const char *block, uint32_t *sum)
{
    const struct disk *disk = spool->disk;
    int error;

    *sum = crc32c(0, block, spool->block_size);
    if (file_write_all(disk, file->fd, bytes_of(block, spool->block_size)) == STATUS_OK)
        return true;
    error = errno;
    (void)disk->ftruncate(disk->context, file->fd, (off_t)(file->count * spool->block_size));  /* space only: the file is not written to again */
    errno = error;
    return false;
}

int spool_read(const struct spool *spool, const struct spool_file *file, uint64_t number, char *block)
{
    uint64_t index = number - file->first;
    ssize_t got = file_pread_all(spool->disk, file->fd, block, spool->block_size, index * spool->block_size);

    if (got < 0)
        return errno;
    if ((size_t)got < spool->block_size)
        return EIO;
    return crc32c(0, block, spool->block_size) == file->sums[index] ? 0 : EBADMSG;
}

void spool_close(struct spool *spool, struct spool_file *files)
{
    while (files != NULL) {
        struct spool_file *next = files->next;

        if (files->count * spool->block_size > CLOSED_AT_ONCE)
            closer_close(spool->closer, spool->disk, files->fd, CLOSER_FILE);
        else
            close_quietly(spool->disk, files->fd);
        mem_free(files);
        files = next;
    }
}
