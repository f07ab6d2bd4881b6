#include "base/read_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#ifndef KELVIN_NO_LIBURING
#include <liburing.h>
#endif

#include "base/check.h"
#include "base/mem.h"

enum { ALIGNMENT_MIN = 512 };           /* of reads with O_DIRECT */

struct read_list {
    struct ring_read *first, *last;
};

struct read_ring {
#ifndef KELVIN_NO_LIBURING
    struct io_uring uring;              /* if `has_uring` */
#endif
    bool has_uring;
    const struct disk *disk;
    int descriptor;                     /* the io_uring's; without it one that is never readable */
    unsigned depth;
    unsigned count;                     /* added and not returned */
    unsigned prepared_count;            /* in the submission queue, not taken by the kernel */
    unsigned flight_count;              /* taken by the kernel; with the prepared ones at most `depth` */
    struct read_list waiting;
    struct read_list finished;
};

static void append(struct read_list *list, struct ring_read *read)
{
    read->next = NULL;
    if (list->last != NULL)
        list->last->next = read;
    else
        list->first = read;
    list->last = read;
}

static struct ring_read *take_first(struct read_list *list)
{
    struct ring_read *read = list->first;

    list->first = read->next;
    if (list->first == NULL)
        list->last = NULL;
    return read;
}

/* --- one read --- */

/* Notes what a call has returned: bytes or -errno. Returns false if the read goes on. */
static bool note_result(struct ring_read *read, int64_t result)
{
    if (result > 0) {
        read->done += (uint32_t)result;
        read->result = read->done;
        return read->done == read->size;
    }
    /* A direct read that ended at the end of the file can't go on there on file systems that check the alignment first. */
    if (result == -EINVAL && read->done % ALIGNMENT_MIN != 0)
        result = 0;
    read->result = result < 0 ? result : read->done;
    return true;
}

/* Reads by pread what is missing. */
static void finish_in_place(struct read_ring *ring, struct ring_read *read)
{
    const struct disk *disk = ring->disk;
    ssize_t got;

    do {
        got = disk->pread(disk->context, read->fd, read->data + read->done, read->size - read->done, (off_t)(read->offset + read->done));
        if (got < 0)
            got = -errno;
    } while (got == -EINTR || !note_result(read, got));
    append(&ring->finished, read);
}

/* --- io_uring --- */

#ifndef KELVIN_NO_LIBURING
/* One byte, to see that the kernel has this kind of read and lets this process use it. Returns the read's result or -errno. */
static int try_read(unsigned flags)
{
    struct io_uring uring;
    struct io_uring_cqe *cqe;
    struct io_uring_sqe *sqe;
    int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC), result = io_uring_queue_init(1, &uring, flags);
    char byte;

    if (result == 0) {
        sqe = io_uring_get_sqe(&uring);
        io_uring_prep_read(sqe, fd, &byte, 1, 0);
        result = io_uring_submit_and_wait(&uring, 1);
        if (result >= 0)
            result = io_uring_peek_cqe(&uring, &cqe) == 0 ? cqe->res : -EIO;
        io_uring_queue_exit(&uring);
    }
    if (fd >= 0)
        close(fd);
    return result;
}

static int open_with(struct read_ring *ring, unsigned flags)
{
    int result = try_read(flags);

    if (result < 0)
        return result;
    return io_uring_queue_init(ring->depth, &ring->uring, flags);
}

/* Completions do not interrupt the owner: they are added when it is in the kernel. IORING_SETUP_DEFER_TASKRUN was measured, too: it saves
 * nothing, and on some kernels (6.18) the descriptor is not readable when reads have completed. */
static int open_uring(struct read_ring *ring)
{
    int result = open_with(ring, IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SUBMIT_ALL);      /* Linux 5.19 */

    if (result == -EINVAL)
        result = open_with(ring, 0);
    ring->descriptor = ring->uring.ring_fd;
    return result;
}

static void close_uring(struct read_ring *ring)
{
    struct io_uring_cqe *cqe;
    int result;

    while (ring->flight_count > 0) {
        result = io_uring_wait_cqe(&ring->uring, &cqe);
        CHECK(result == 0 || result == -EINTR || result == -EAGAIN);
        if (result != 0)
            continue;
        io_uring_cqe_seen(&ring->uring, cqe);
        ring->flight_count--;
    }
    io_uring_queue_exit(&ring->uring);      /* closes the descriptor */
}

static void prepare(struct read_ring *ring, struct ring_read *read)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->uring);

    CHECK(sqe != NULL);
    io_uring_prep_read(sqe, read->fd, read->data + read->done, read->size - read->done, read->offset + read->done);
    io_uring_sqe_set_data(sqe, read);
    ring->prepared_count++;
}

/* Takes back what the kernel does not take, and reads it here. Without SQPOLL the kernel looks at the queue in io_uring_enter only. */
static void read_prepared_in_place(struct read_ring *ring)
{
    struct io_uring_sq *queue = &ring->uring.sq;
    unsigned first = *queue->khead, end = queue->sqe_tail;

    queue->sqe_head = queue->sqe_tail = *queue->ktail = first;
    ring->prepared_count = 0;
    for (unsigned i = first; i != end; i++)
        finish_in_place(ring, (struct ring_read *)(uintptr_t)queue->sqes[i & *queue->kring_mask].user_data);
}

/* Marks the reads that completed while they were submitted: all but the first `known` completions. */
static void mark_cached(struct read_ring *ring, unsigned known)
{
    struct io_uring_cqe *cqe;
    unsigned head, count = 0;

    io_uring_for_each_cqe(&ring->uring, head, cqe) {
        if (count++ >= known)
            ((struct ring_read *)io_uring_cqe_get_data(cqe))->was_cached = cqe->res > 0;
    }
}

/* One system call, and more only after an error. */
static void submit_prepared(struct read_ring *ring)
{
    while (ring->prepared_count > 0) {
        unsigned known = io_uring_cq_ready(&ring->uring);
        int result = io_uring_submit(&ring->uring);

        if (result > 0) {
            ring->prepared_count -= (unsigned)result;
            ring->flight_count += (unsigned)result;
            mark_cached(ring, known);
        } else if (ring->flight_count > 0) {
            return;                     /* again, when one of those has completed */
        } else if (result != -EINTR) {
            read_prepared_in_place(ring);
        }
    }
}

static void submit_uring(struct read_ring *ring)
{
    do {
        while (ring->waiting.first != NULL && ring->prepared_count + ring->flight_count < ring->depth)
            prepare(ring, take_first(&ring->waiting));
        submit_prepared(ring);
    } while (ring->waiting.first != NULL && ring->flight_count == 0);   /* all were read in place */
}

static void complete(struct read_ring *ring, struct ring_read *read, int result)
{
    if (result == -EAGAIN || result == -EINTR || result == -ECANCELED)
        finish_in_place(ring, read);            /* the kernel had no thread or memory for it */
    else if (note_result(read, result))
        append(&ring->finished, read);
    else
        append(&ring->waiting, read);
}

static void collect_uring(struct read_ring *ring)
{
    struct io_uring_cqe *cqe;
    unsigned head, count = 0;

    io_uring_for_each_cqe(&ring->uring, head, cqe) {
        complete(ring, io_uring_cqe_get_data(cqe), cqe->res);
        count++;
    }
    io_uring_cq_advance(&ring->uring, count);
    ring->flight_count -= count;
}
#else
static int open_uring(struct read_ring *ring)
{
    return -ENOPKG;
}

/* No ring is open that could call these. */
static void close_uring(struct read_ring *ring) { }
static void submit_uring(struct read_ring *ring) { }
static void collect_uring(struct read_ring *ring) { }
#endif

/* --- opening and closing --- */

static void explain(int error, struct message *why)
{
    if (error == ENOSYS)
        message_set(why, "the kernel has no io_uring, or a seccomp filter hides it");
    else if (error == EPERM || error == EACCES)
        message_set(why, "io_uring is forbidden, by kernel.io_uring_disabled, a container's seccomp filter or a security module");
    else if (error == ENOMEM)
        message_set(why, "io_uring needs more locked memory than RLIMIT_MEMLOCK allows, or memory is short");
    else if (error == EINVAL)
        message_set(why, "the kernel's io_uring is too old");
    else if (error == ENOPKG)
        message_set(why, "this server was built without liburing");
    else
        message_set(why, "io_uring can't be opened: %s", strerror(error));
}

struct read_ring *read_ring_open(unsigned depth, const struct disk *disk, struct message *why)
{
    struct read_ring *ring = mem_zalloc(sizeof(*ring));
    int result;

    CHECK(depth > 0 && depth <= READ_RING_DEPTH_MAX);
    ring->disk = disk;
    ring->depth = depth;
    ring->has_uring = disk == disk_system();
    if (ring->has_uring) {
        result = open_uring(ring);
    } else {
        ring->descriptor = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        result = ring->descriptor < 0 ? -errno : 0;
    }
    if (result < 0) {
        explain(-result, why);
        mem_free(ring);
        return NULL;
    }
    return ring;
}

void read_ring_close(struct read_ring *ring)
{
    if (ring == NULL)
        return;
    if (ring->has_uring)
        close_uring(ring);
    else
        close(ring->descriptor);
    mem_free(ring);
}

/* --- submitting --- */

int read_ring_descriptor(const struct read_ring *ring)
{
    return ring->descriptor;
}

unsigned read_ring_count(const struct read_ring *ring)
{
    return ring->count;
}

void read_ring_add(struct read_ring *ring, struct ring_read *read)
{
    CHECK(read->size > 0);
    read->done = 0;
    read->result = 0;
    read->was_cached = false;
    append(&ring->waiting, read);
    ring->count++;
}

static void submit(struct read_ring *ring)
{
    if (ring->has_uring) {
        submit_uring(ring);
        return;
    }
    while (ring->waiting.first != NULL)
        finish_in_place(ring, take_first(&ring->waiting));
}

bool read_ring_submit(struct read_ring *ring)
{
    submit(ring);
    return ring->finished.first != NULL;
}

/* --- completing --- */

struct ring_read *read_ring_completed(struct read_ring *ring)
{
    struct ring_read *first;

    if (ring->has_uring)
        collect_uring(ring);
    submit(ring);
    first = ring->finished.first;
    ring->finished = (struct read_list){ 0 };
    for (const struct ring_read *read = first; read != NULL; read = read->next)
        ring->count--;
    return first;
}
