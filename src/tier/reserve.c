#include "tier/reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/statvfs.h>

#include "base/disk.h"
#include "base/file.h"
#include "base/status.h"

void reserve_init(struct reserve *reserve, const char *dir, uint64_t size_max)
{
    *reserve = (struct reserve){ .dir = dir, .size_max = size_max, .fd = -1 };
}

void reserve_release(struct reserve *reserve)
{
    if (reserve->fd >= 0)
        (void)reserve->disk->close(reserve->disk->context, reserve->fd);
}

uint64_t reserve_free_bytes(const char *dir)
{
    struct statvfs disk;

    return statvfs(dir, &disk) == 0 ? (uint64_t)disk.f_bavail * disk.f_frsize : UINT64_MAX;
}

/* 0: the disk says nothing about its size. */
static uint64_t wanted_size(const struct reserve *reserve)
{
    struct statvfs disk;
    uint64_t part;

    if (statvfs(reserve->dir, &disk) != 0)
        return 0;
    part = (uint64_t)disk.f_blocks * disk.f_frsize / RESERVE_PART;
    return part < reserve->size_max ? part : reserve->size_max;
}

static int create_file(const struct reserve *reserve)
{
    char path[4096];
    int fd;

    snprintf(path, sizeof(path), "%s/reserve", reserve->dir);
    fd = file_open(reserve->disk, AT_FDCWD, path, O_RDWR | O_CREAT | O_TRUNC);
    if (fd >= 0)
        (void)reserve->disk->unlink(reserve->disk->context, AT_FDCWD, path);
    return fd;
}

static void close_file(struct reserve *reserve)
{
    if (reserve->fd >= 0)
        (void)reserve->disk->close(reserve->disk->context, reserve->fd);
    reserve->fd = -1;
}

/* False: the disk is full. After another error there is no reserve, and it is tried again. */
static bool take(struct reserve *reserve, uint64_t size)
{
    int error;

    reserve->fd = create_file(reserve);
    if (reserve->fd >= 0 && fallocate(reserve->fd, 0, 0, (off_t)size) == 0)
        return true;
    error = errno;
    reserve->is_impossible = error == EOPNOTSUPP || error == ENOSYS;
    close_file(reserve);
    return status_of_errno(error) != STATUS_NO_SPACE;
}

bool reserve_restore(struct reserve *reserve, const struct disk *disk)
{
    uint64_t size;

    if (reserve->fd >= 0 || reserve->size_max == 0 || reserve->is_impossible)
        return true;
    reserve->disk = disk;
    size = wanted_size(reserve);
    if (size == 0)
        return true;
    if (reserve_free_bytes(reserve->dir) < (reserve->is_given_up ? 2 : 1) * size || !take(reserve, size))
        return !(reserve->is_given_up = true);
    return true;
}

void reserve_give_up(struct reserve *reserve)
{
    close_file(reserve);
    reserve->is_given_up = true;
}
