/* Writing segments, through the page cache or past it, and syncing them. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "store/segment_body.h"

enum { DIRECT_WRITE_MAX = 1 << 20 };

/* Reads with O_DIRECT need an alignment that depends on the device: tried with the head. */
static bool can_read(const struct segments *segments, int fd, size_t alignment)
{
    char *data = mem_alloc_aligned(SEGMENT_ALIGNMENT_MAX, alignment);
    ssize_t size = segments->disk->pread(segments->disk->context, fd, data, alignment, 0);

    mem_free(data);
    return size > 0;
}

bool segment_may_be_direct(const struct segments *segments)
{
    return !segments->without_direct && segments->count + segments->direct_count < segments->descriptors_max;
}

static void open_direct(struct segments *segments, struct segment *segment)
{
    char path[SEGMENT_PATH_SIZE];
    int fd;

    if (!segment_may_be_direct(segments))
        return;
    segment_path(segments, segment, path);
    fd = file_open(segments->disk, AT_FDCWD, path, O_RDONLY | O_DIRECT);
    if (fd >= 0 && segments->alignment == 0)
        segments->alignment = can_read(segments, fd, 512) ? 512 : can_read(segments, fd, SEGMENT_ALIGNMENT_MAX) ? SEGMENT_ALIGNMENT_MAX : 0;
    if (fd >= 0 && segments->alignment == 0) {
        segments->disk->close(segments->disk->context, fd);
        fd = -1;
    }
    if (fd < 0 && errno == EINVAL)
        segments->without_direct = true;        /* the file system can't */
    segments->direct_count += fd >= 0;
    segment->alignment = (uint32_t)segments->alignment;
    atomic_store_explicit(&segment->direct_fd, fd, memory_order_release);
}

static enum status create_file(struct segments *segments, struct segment *segment)
{
    char path[SEGMENT_PATH_SIZE];

    if (segment->fd >= 0)
        return STATUS_OK;
    segment_path(segments, segment, path);
    /* A file of this name is what an earlier attempt left. */
    (void)segments->disk->unlink(segments->disk->context, AT_FDCWD, path);
    segment->fd = file_open(segments->disk, AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL);
    return segment->fd >= 0 ? STATUS_OK : status_of_errno(errno);
}

/* After a failed write the file may have a part of it, which is written over. */
static enum status write_at(const struct segments *segments, int fd, uint64_t offset, struct bytes data)
{
    if (lseek(fd, (off_t)offset, SEEK_SET) < 0)
        return status_of_errno(errno);
    return file_write_all(segments->disk, fd, data);
}

static enum status write_buffered(const struct segments *segments, const struct segment *segment)
{
    enum status status = write_at(segments, segment->fd, segment->written, buffer_bytes(&segment->pending));

    /* The disk begins now, so that little is left when the segment is synced. A hint: errors show at the sync. */
    if (status == STATUS_OK)
        (void)segments->disk->sync_file_range(segments->disk->context, segment->fd, (off_t)segment->written, (off_t)segment->pending.size,
            SYNC_FILE_RANGE_WRITE);
    return status;
}

/* `size` bytes of rest and pending together, from `at` on. */
static void copy_out(const struct segment *segment, size_t at, size_t size, char *out)
{
    size_t head = 0;

    if (at < segment->rest.size) {
        head = segment->rest.size - at < size ? segment->rest.size - at : size;
        memcpy(out, segment->rest.data + at, head);
    }
    if (size > head)
        memcpy(out + head, segment->pending.data + at + head - segment->rest.size, size - head);
}

/* Whole blocks, beginning with the one that the last write has begun; the last one is filled up with zeros. */
static enum status write_blocks(struct segments *segments, const struct segment *segment)
{
    size_t total = segment->rest.size + segment->pending.size;
    uint64_t begin = segment->written - segment->rest.size;
    enum status status = STATUS_OK;

    for (size_t done = 0; done < total && status == STATUS_OK; done += DIRECT_WRITE_MAX) {
        size_t size = total - done < DIRECT_WRITE_MAX ? total - done : DIRECT_WRITE_MAX;
        size_t blocks = (size + SEGMENT_ALIGNMENT_MAX - 1) / SEGMENT_ALIGNMENT_MAX * SEGMENT_ALIGNMENT_MAX;
        char *aligned = segment_buffer_grow(&segments->scratch, blocks);

        copy_out(segment, done, size, aligned);
        memset(aligned + size, 0, blocks - size);
        status = write_at(segments, segment->write_fd, begin + done, bytes_of(aligned, blocks));
    }
    return status;
}

static void keep_rest(struct segment *segment)
{
    size_t total = segment->rest.size + segment->pending.size, size = total % SEGMENT_ALIGNMENT_MAX;
    char rest[SEGMENT_ALIGNMENT_MAX];

    copy_out(segment, total - size, size, rest);
    segment->rest.size = 0;
    buffer_append(&segment->rest, rest, size);
}

static void close_write(const struct segments *segments, struct segment *segment)
{
    if (segment->write_fd >= 0)
        segments->disk->close(segments->disk->context, segment->write_fd);
    segment->write_fd = -1;
}

/* Past the page cache. A sealed segment ends with its footer, so the zeros after it are cut off. */
static enum status write_direct(struct segments *segments, struct segment *segment)
{
    char path[SEGMENT_PATH_SIZE];
    enum status status;

    segment_path(segments, segment, path);
    if (segment->write_fd < 0)
        segment->write_fd = file_open(segments->disk, AT_FDCWD, path, O_WRONLY | O_DIRECT);
    if (segment->write_fd < 0)
        return status_of_errno(errno);
    status = write_blocks(segments, segment);
    if (status == STATUS_OK && segment->state != SEGMENT_TAIL &&
        segments->disk->ftruncate(segments->disk->context, segment->write_fd, (off_t)segment->size) != 0)
        status = status_of_errno(errno);
    if (status != STATUS_OK && errno != EINVAL)
        close_write(segments, segment);         /* the next attempt begins with a new descriptor */
    return status;
}

/* From now on, or because it does not change any more, it is written and read through the page cache. */
static void end_direct(const struct segments *segments, struct segment *segment)
{
    close_write(segments, segment);
    buffer_release(&segment->rest);
    segment->is_direct = false;
    segment->is_read_direct = false;
}

static enum status write_data(struct segments *segments, struct segment *segment)
{
    enum status status = segment->is_direct ? write_direct(segments, segment) : write_buffered(segments, segment);

    if (status == STATUS_OK || !segment->is_direct || errno != EINVAL)
        return status;
    segments->without_direct = true;            /* the file system can't */
    end_direct(segments, segment);
    return write_buffered(segments, segment);
}

/* Before a place of it is in a map. */
static void after_direct(struct segments *segments, struct segment *segment)
{
    if (segment->direct_fd < 0)
        open_direct(segments, segment);
    if (segment->direct_fd < 0 || segment->state != SEGMENT_TAIL)
        end_direct(segments, segment);
    else
        keep_rest(segment);
}

static enum status write_segment(struct segments *segments, struct segment *segment)
{
    enum status status = create_file(segments, segment);
    size_t size;

    if (status == STATUS_OK)
        status = write_data(segments, segment);
    if (status != STATUS_OK)
        return status;
    if (segment->is_direct)
        after_direct(segments, segment);
    size = segment->pending.size;
    atomic_store_explicit(&segment->written, segment->written + size, memory_order_release);
    segments->pending -= size;
    segments->bytes += size;
    segments->written_bytes += size;
    segment->pending.size = 0;
    if (segment->state == SEGMENT_TAIL)
        buffer_shrink(&segment->pending, PENDING_KEPT_MAX);
    else
        buffer_release(&segment->pending);
    return STATUS_OK;
}

enum status segments_write(struct segments *segments)
{
    enum status status = STATUS_OK;

    segments->writes++;
    /* Most segments with pending bytes are at the end of the list. */
    if (segments->pending == 0)
        return STATUS_OK;
    for (struct segment *segment = segments->last; segment != NULL && segments->pending > 0 && status == STATUS_OK; segment = segment->previous) {
        if (segment->pending.size > 0)
            status = write_segment(segments, segment);
    }
    return status;
}

/* --- syncing --- */

static enum status sync_segment(struct segments *segments, struct segment *segment)
{
    if (segments->disk->fdatasync(segments->disk->context, segment->fd) != 0) {
        /* The kernel may have dropped the pages: a second sync that succeeds would prove nothing. */
        segment->is_suspect = true;
        segment->is_spared = false;
        return status_of_errno(errno);
    }
    if (segment->is_suspect)
        return STATUS_IO;
    segment->is_synced = true;
    return STATUS_OK;
}

/* Returns whether a segment has to be durable. Not a suspect one that was collected and spared: what it still has can't be read. */
static bool must_sync(const struct segment *segment)
{
    if (segment->is_suspect && segment->is_spared)
        return false;
    return segment->state != SEGMENT_TAIL && !segment->is_synced && segment->pending.size == 0;
}

enum status segments_sync(struct segments *segments)
{
    enum status status = segments_write(segments);

    for (struct segment *segment = segments->first; segment != NULL && status == STATUS_OK; segment = segment->next) {
        if (must_sync(segment))
            status = sync_segment(segments, segment);
    }
    return status;
}

/* Waits until its bytes are on the disk, without waiting for the file system's journal as a sync does. Most of them have been written since
 * it was sealed. File systems without that call are no error. */
static bool write_back(const struct segments *segments, const struct segment *segment)
{
    const unsigned all = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;

    return segments->disk->sync_file_range(segments->disk->context, segment->fd, 0, 0, all) == 0 || errno == EINVAL || errno == ENOSYS ||
           errno == ESPIPE || errno == EOPNOTSUPP;
}

static enum status settle_segment(struct segments *segments, struct segment *segment)
{
    /* Whatever the error is, ENOSPC and EDQUOT too where blocks are allocated at this time: the kernel reports it only once. */
    if (!segment->is_synced && !write_back(segments, segment)) {
        segment->is_suspect = true;
        segment->is_spared = false;
        return status_of_errno(errno);
    }
    if (segment->direct_fd < 0)
        open_direct(segments, segment);
    segment->state = SEGMENT_SETTLED;
    segments->unsettled_count--;
    return STATUS_OK;
}

enum status segments_settle(struct segments *segments)
{
    int64_t now_ms = clock_mono_us() / 1000;
    int waits = 0;
    enum status status = STATUS_OK;

    if (segments->unsettled_count == 0)
        return STATUS_OK;
    for (struct segment *segment = segments->first; segment != NULL && waits == 0 && status == STATUS_OK; segment = segment->next) {
        if (segment->state != SEGMENT_SEALED || segment->pending.size > 0 || segment->is_suspect ||
            (!segment->is_synced && now_ms - segment->sealed_ms < SETTLE_MS))
            continue;
        waits += !segment->is_synced;
        status = settle_segment(segments, segment);
    }
    return status;
}
