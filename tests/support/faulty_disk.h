/* A disk for tests: it fails as the test or its seed says, and its power can be cut.
 *
 * It is between the code under test and a real directory: paths and descriptors are the system's, absolute or relative to the working
 * directory. Only what is opened by its table is its concern. Thread-safe. For tests; what must not happen CHECKs.
 */
#ifndef KELVIN_TESTS_FAULTY_DISK_H
#define KELVIN_TESTS_FAULTY_DISK_H

#include <stdint.h>

#include "base/disk.h"

#ifdef __cplusplus
extern "C" {
#endif

struct faulty_disk;

struct faulty_disk *faulty_disk_create(void);
void faulty_disk_destroy(struct faulty_disk *disk);     /* its table is no longer in use */
const struct disk *faulty_disk_table(struct faulty_disk *disk);

/* Each is a probability in 1/1000 a call, decided by the seed, or 1000 for always. */
struct disk_faults {
    uint64_t seed;
    const char *only;       /* files whose path contains this; NULL: all. Copied */
    int write_error;        /* EIO on write */
    int write_no_space;     /* ENOSPC on write */
    int write_short;        /* half of it is written, then EIO */
    int write_late;         /* all of it is written, yet EIO, and it can't be cut back */
    int sync_error;         /* EIO on sync, of directories too */
    int write_back_error;   /* write_back_errno on sync_file_range that waits */
    int write_back_errno;
    int read_error;         /* EIO on read */
    int read_corrupt;       /* one bit of what is read is turned */
    int read_short;         /* a half of what was asked for is read, and one byte at least */
    int open_error;         /* EIO on opening for reading, or creating */
    int unlink_error;       /* EIO on removing a file that is there */
    int read_delay_us;      /* every read sleeps that long: a slow disk */
    int reads_together;     /* a read waits until this many have been under way at a time since the faults were set; for 10 s */
};
void faulty_disk_set(struct faulty_disk *disk, const struct disk_faults *faults);       /* NULL: none */
/* Reads of the files that faults concerned, since the disk was created: how a test notices that one has begun. */
uint64_t faulty_disk_reads(struct faulty_disk *disk);
/* How many were under way at a time since `reads_together` was set. */
int faulty_disk_reads_together(struct faulty_disk *disk);

/* Power cut. Track first: from then on the disk remembers what of each new file was synced, and which names of a directory were (a
 * removed file is kept in a directory of the disk's own until its directory is synced).
 * Cut: from now on nothing reaches the disk, every change fails with EIO. Then, after the files were closed, apply: each directory loses
 * a part of its unsynced changes of names, the latest ones, and each file goes back to what had been synced plus a part of what had
 * not; the seed decides which. Power is back then, and tracking goes on. */
void faulty_disk_track_power(struct faulty_disk *disk);
void faulty_disk_cut_power(struct faulty_disk *disk);
void faulty_disk_apply_power_cut(struct faulty_disk *disk, uint64_t seed);

#ifdef __cplusplus
}
#endif

#endif
