#include "support/aof_disk.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"

void aof_disk_release(struct aof_disk_test *disk)
{
    pthread_mutex_destroy(&disk->lock);
    pthread_cond_destroy(&disk->changed);
}

static uint64_t fd_size(int fd)
{
    struct stat info;

    CHECK(fstat(fd, &info) == 0);
    return (uint64_t)info.st_size;
}

struct aof_disk_inode *aof_disk_inode(struct aof_disk_test *disk, int fd)
{
    struct stat info;

    CHECK(fstat(fd, &info) == 0);
    for (int i = 0; i < disk->inode_count; i++)
        if (disk->inodes[i].number == info.st_ino)
            return &disk->inodes[i];
    /* Numbers are used again; the oldest entries are those of files long gone. */
    if (disk->inode_count == AOF_DISK_INODES) {
        memmove(disk->inodes, disk->inodes + 1, sizeof(disk->inodes) - sizeof(disk->inodes[0]));
        disk->inode_count--;
    }
    disk->inodes[disk->inode_count] = (struct aof_disk_inode){ .number = info.st_ino };
    return &disk->inodes[disk->inode_count++];
}

static bool happens(struct aof_disk_test *disk, int *next, int chance)
{
    if (*next > 0) {
        --*next;
        return true;
    }
    return chance > 0 && (int)random_below(&disk->random, 1000) < chance;
}

static ssize_t disk_write(void *context, int fd, const void *data, size_t size)
{
    struct aof_disk_test *disk = context;
    bool cut, fails;

    if (disk->before != NULL)
        disk->before(disk->context);
    pthread_mutex_lock(&disk->lock);
    if (fd_size(fd) == 0)
        *aof_disk_inode(disk, fd) = (struct aof_disk_inode){ .number = aof_disk_inode(disk, fd)->number };       /* a new file */
    cut = size > 1 && happens(disk, &disk->next_write_short, disk->write_short);
    fails = !cut && happens(disk, &disk->next_write_fails, disk->write_fails);
    if (cut)
        size = 1 + random_below(&disk->random, size - 1);
    if (disk->write_max > 0 && size > disk->write_max)
        size = disk->write_max;
    pthread_mutex_unlock(&disk->lock);
    if (fails) {
        errno = ENOSPC;
        return -1;
    }
    return write(fd, data, size);
}

static int disk_fdatasync(void *context, int fd)
{
    struct aof_disk_test *disk = context;
    struct aof_disk_inode *inode;
    uint64_t size = fd_size(fd);        /* what came before the fsync began is what it covers */
    bool fails;

    if (disk->before != NULL)
        disk->before(disk->context);
    pthread_mutex_lock(&disk->lock);
    disk->syncs++;
    disk->syncs_waiting++;
    pthread_cond_broadcast(&disk->changed);
    /* Time for others to write behind what this covers. */
    for (uint64_t turns = random_below(&disk->random, 4) == 0 ? 20 : 0; turns > 0; turns--) {
        pthread_mutex_unlock(&disk->lock);
        sched_yield();
        pthread_mutex_lock(&disk->lock);
    }
    while (disk->sync_held)
        pthread_cond_wait(&disk->changed, &disk->lock);
    disk->syncs_waiting--;
    fails = happens(disk, &disk->next_sync_fails, disk->sync_fails);
    inode = aof_disk_inode(disk, fd);
    if (fails) {
        inode->poisoned = true;
        if (disk->sync_zeroes) {
            /* Shrunk and grown again: what was not durable reads as zeros, as an evicted page would. */
            CHECK(ftruncate(fd, (off_t)inode->durable) == 0);
            CHECK(ftruncate(fd, (off_t)size) == 0);
        }
    } else if (!inode->poisoned && size > inode->durable) {
        inode->durable = size;
    }
    pthread_mutex_unlock(&disk->lock);
    errno = EIO;
    return fails ? -1 : 0;
}

static int disk_ftruncate(void *context, int fd, off_t size)
{
    struct aof_disk_test *disk = context;
    struct aof_disk_inode *inode;
    bool fails;

    if (disk->before != NULL)
        disk->before(disk->context);
    pthread_mutex_lock(&disk->lock);
    fails = happens(disk, &disk->next_truncate_fails, disk->truncate_fails);
    inode = aof_disk_inode(disk, fd);
    if (!fails && inode->durable > (uint64_t)size)
        inode->durable = (uint64_t)size;
    pthread_mutex_unlock(&disk->lock);
    errno = EIO;
    return fails ? -1 : ftruncate(fd, size);
}

static int disk_fsync(void *context, int fd)
{
    struct aof_disk_test *disk = context;
    int next = 0;
    bool fails;

    if (disk->before != NULL)
        disk->before(disk->context);
    pthread_mutex_lock(&disk->lock);
    fails = happens(disk, &next, disk->fsync_fails);
    if (!fails && !aof_disk_inode(disk, fd)->poisoned)
        aof_disk_inode(disk, fd)->durable = fd_size(fd);
    pthread_mutex_unlock(&disk->lock);
    errno = EIO;
    return fails ? -1 : 0;
}


void aof_disk_init(struct aof_disk_test *disk, uint64_t seed)
{
    memset(disk, 0, sizeof(*disk));
    pthread_mutex_init(&disk->lock, NULL);
    pthread_cond_init(&disk->changed, NULL);
    random_init(&disk->random, seed);
    disk->table = *disk_system();
    disk->table.context = disk;
    disk->table.write = disk_write;
    disk->table.fdatasync = disk_fdatasync;
    disk->table.ftruncate = disk_ftruncate;
    disk->table.fsync = disk_fsync;
}
