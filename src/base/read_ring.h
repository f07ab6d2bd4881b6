/* Read ring: reads of files in batches, without a thread of its own: many are submitted in one system call (io_uring), and the results are
 * collected later. The caller goes on meanwhile.
 *
 * A read is memory of the caller, who owns it and its buffer; both stay as they are from read_ring_add until read_ring_completed has
 * returned the read. Reads complete in any order. At most `depth` are in flight; more wait inside the ring.
 *
 * Owner: one thread at a time; another one may use the ring, or close it, when nothing is in flight. No locks, no memory that grows.
 *
 * Errors belong to single reads: result is -errno. No read is lost: if the kernel takes none now (EAGAIN, EBUSY) the ring submits again
 * when others have completed, and if none is in flight it reads by pread.
 *
 * Tests: a ring that is opened with another disk than the system's has no io_uring. Its reads run one after the other by the disk's pread
 * when they are submitted. So the errors, short reads and changed bytes of a disk for tests (tests/support/faulty_disk.h) reach the code
 * that uses a ring as they would from the kernel.
 */
#ifndef KELVIN_BASE_READ_RING_H
#define KELVIN_BASE_READ_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/disk.h"
#include "base/message.h"

enum { READ_RING_DEPTH_MAX = 4096 };

struct read_ring;

struct ring_read {
    /* Set by the caller. If the file is open with O_DIRECT, data, offset and size are aligned as it requires. */
    int fd;
    uint32_t size;                  /* at least 1 */
    uint64_t offset;
    char *data;                     /* `size` bytes */
    /* Set by the ring. */
    int64_t result;                 /* bytes, less than `size` only at the end of the file; or -errno */
    struct ring_read *next;         /* in the list that read_ring_completed returns; NULL ends it */
    uint32_t done;                  /* bytes so far: short reads are continued by the ring */
    bool was_cached;                /* it completed while it was submitted: a sign that the bytes were in the page cache */
};

/* `depth` is 1 to READ_RING_DEPTH_MAX. NULL: io_uring can't be used (old kernel, forbidden in this container or by kernel.io_uring_disabled,
 * RLIMIT_MEMLOCK, a build without liburing); `why` has the reason. Tries one read of /dev/zero first, so that what can be opened also works. */
struct read_ring *read_ring_open(unsigned depth, const struct disk *disk, struct message *why);
/* Waits for what is in flight, on the owner; those reads, and those that wait to be submitted, are not returned. NULL is fine. */
void read_ring_close(struct read_ring *ring);

/* Readable when reads that the kernel has taken have completed, until read_ring_completed is called: for epoll, level-triggered.
 * (epoll_wait may return EINTR when a read completes.) */
int read_ring_descriptor(const struct read_ring *ring);
/* Reads that were added and not returned yet. */
unsigned read_ring_count(const struct read_ring *ring);

/* Queues a read; no system call. */
void read_ring_add(struct read_ring *ring, struct ring_read *read);
/* Submits what is queued, up to the depth, in one system call; after the last read_ring_add of a batch. True: some reads have completed
 * without the kernel's ring, which the descriptor does not show, so read_ring_completed is to be called soon. */
bool read_ring_submit(struct read_ring *ring);
/* The reads that have completed, in a list, in the order of their ends; NULL: none. Does not wait. Submits what waited for them, so it is
 * called until it returns NULL, or again when the descriptor is readable. */
struct ring_read *read_ring_completed(struct read_ring *ring);

#endif
