/* A disk for tests of the log: it fails as the test or its seed says, and knows how much of each file an fsync made
 * durable. */
#ifndef KELVIN_TESTS_AOF_DISK_H
#define KELVIN_TESTS_AOF_DISK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/disk.h"
#include "base/random.h"

enum { AOF_DISK_INODES = 64 };

/* An fsync after a failed one counts for nothing, as with kernels. Owner: `lock`, while threads use it. */
struct aof_disk_test {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct random random;
    /* In 1/1000 of the calls. */
    int write_short, write_fails, sync_fails, truncate_fails, fsync_fails;
    /* This many of the next calls fail. */
    int next_write_short, next_write_fails, next_sync_fails, next_truncate_fails;
    size_t write_max;               /* a write accepts at most this many bytes, as write(2) may; 0: no limit */
    bool sync_held;                 /* fdatasync waits */
    bool sync_zeroes;               /* a failing fdatasync loses what it should have synced */
    int syncs, syncs_waiting;
    struct aof_disk_inode { ino_t number; uint64_t durable; bool poisoned; } inodes[AOF_DISK_INODES];
    int inode_count;
    void (*before)(void *context);  /* called before each call, the lock not held */
    void *context;
    struct disk table;              /* what the log is given */
};

void aof_disk_init(struct aof_disk_test *disk, uint64_t seed);
void aof_disk_release(struct aof_disk_test *disk);

/* The file of `fd`; the caller holds `lock`. */
struct aof_disk_inode *aof_disk_inode(struct aof_disk_test *disk, int fd);

#endif
