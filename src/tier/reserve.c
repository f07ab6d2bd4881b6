#include "tier/reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/statvfs.h>

#include "base/disk.h"
#include "base/file.h"

void reserve_init(struct reserve *reserve, const char *dir, uint64_t size_max)
{
    *reserve = (struct reserve){ .dir = dir, .size_max = size_max, .fd = -1 };
}

void reserve_release(struct reserve *reserve)
{
    reserve_give_up(reserve);
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

bool reserve_restore(struct reserve *reserve, const struct disk *disk)
{
    uint64_t size;

    if (reserve->fd >= 0 || reserve->size_max == 0 || reserve->is_impossible)
        return true;
    reserve->disk = disk;
    size = wanted_size(reserve);
    if (size == 0)
        return true;
    if (reserve_free_bytes(reserve->dir) < 2 * size)
        return false;
    reserve->fd = create_file(reserve);
    if (reserve->fd < 0)
        return false;
    if (fallocate(reserve->fd, 0, 0, (off_t)size) == 0) {
        reserve->size = size;
        return true;
    }
    reserve->is_impossible = errno == EOPNOTSUPP || errno == ENOSYS;
    reserve_give_up(reserve);
    return reserve->is_impossible;
}

void reserve_give_up(struct reserve *reserve)
{
    if (reserve->fd >= 0)
        (void)reserve->disk->close(reserve->disk->context, reserve->fd);
    reserve->fd = -1;
}
