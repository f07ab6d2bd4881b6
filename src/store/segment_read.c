/* Reading segments: one record by its place, or all in order. */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "base/check.h"
#include "base/file.h"
#include "base/mem.h"
#include "store/segment_body.h"

enum { WALK_READ = 1 << 20, HUGE_FIRST_READ = 4096, READ_MAX = 1 << 30 };

void segment_buffer_release(struct segment_buffer *buffer)
{
    mem_free(buffer->data);
    *buffer = (struct segment_buffer){ 0 };
}

char *segment_buffer_grow(struct segment_buffer *buffer, size_t size)
{
    if (buffer->capacity < size) {
        size = (size + SEGMENT_ALIGNMENT_MAX - 1) / SEGMENT_ALIGNMENT_MAX * SEGMENT_ALIGNMENT_MAX;
        mem_free(buffer->data);
        buffer->data = mem_alloc_aligned(SEGMENT_ALIGNMENT_MAX, size);
        buffer->capacity = size;
    }
    return buffer->data;
}

struct segment *segments_pin(struct segments *segments, uint64_t place)
{
    uint64_t slot = place >> PLACE_SLOT_SHIFT;
    struct segment *segment = slot < 1ull << PLACE_SLOT_BITS ? atomic_load_explicit(&segments->slots[slot], memory_order_acquire) : NULL;

    if (segment != NULL)
        atomic_fetch_add_explicit(&segment->pins, 1, memory_order_relaxed);
    return segment;
}

void segments_unpin(struct segment *segment)
{
    CHECK(atomic_fetch_sub_explicit(&segment->pins, 1, memory_order_release) > 0);
}

enum status segment_check(const struct segment *segment, uint64_t place)
{
    if (segment->is_lost)
        return STATUS_CORRUPT;
    if (segment->is_ours && place_offset(place) >= atomic_load_explicit(&segment->written, memory_order_acquire))
        return STATUS_NOT_FOUND;
    return STATUS_OK;
}

bool segment_is_lost(const struct segment *segment)
{
    return segment->is_lost;
}

/* The smallest aligned range that has `size` bytes from `begin` on. */
static void align_span(const struct segment *segment, enum segment_access access, uint64_t begin, uint64_t size, struct segment_span *span)
{
    bool is_direct = access == SEGMENT_DIRECT || atomic_load_explicit(&segment->is_read_direct, memory_order_acquire);
    int direct_fd = is_direct ? atomic_load_explicit(&segment->direct_fd, memory_order_acquire) : -1;
    uint64_t alignment = direct_fd >= 0 ? segment->alignment : 1, end = (begin + size + alignment - 1) / alignment * alignment;

    span->is_direct = direct_fd >= 0;
    span->fd = direct_fd >= 0 ? direct_fd : segment->fd;
    span->offset = begin / alignment * alignment;
    span->skip = (uint32_t)(begin - span->offset);
    span->size = end - span->offset < READ_MAX ? (uint32_t)(end - span->offset) : READ_MAX;
}

void segment_span_of(const struct segment *segment, uint64_t place, enum segment_access access, struct segment_span *span)
{
    unsigned class = place & SEGMENT_CLASS_HUGE;

    align_span(segment, access, place_offset(place), class == SEGMENT_CLASS_HUGE ? HUGE_FIRST_READ : place_size(place), span);
}

void segment_span_between(const struct segment *segment, uint64_t first, uint64_t last, enum segment_access access, struct segment_span *span)
{
    align_span(segment, access, place_offset(first), place_offset(last) + place_size(last) - place_offset(first), span);
}

enum status segment_value(const struct segment *segment, struct bytes read, uint32_t skip, uint32_t incarnation, struct bytes key,
    struct bytes *value, uint64_t *size)
{
    struct segment_record record;
    enum status status;

    *size = SEGMENT_RECORD_HEAD_MAX;
    if (read.size < skip)
        return STATUS_CORRUPT;      /* the file ends before the record */
    status = segment_record_parse(bytes_of(read.data + skip, read.size - skip), &record, size);
    if (status != STATUS_OK)
        return status;
    if (record.incarnation != incarnation || !bytes_equal(record.key, key))
        return STATUS_NOT_FOUND;
    *value = record.value;
    return STATUS_OK;
}

/* A read through the page cache that does not wait: the bytes that were there, or -1 with EAGAIN. Not for a direct span. With a disk for tests
 * nothing is cached. */
static ssize_t segment_read_cached(const struct segments *segments, const struct segment_span *span, char *data)
{
    struct iovec part = { data, span->size };

    if (segments->disk != disk_system()) {
        errno = EAGAIN;
        return -1;
    }
    return preadv2(span->fd, &part, 1, (off_t)span->offset, RWF_NOWAIT);
}

enum status segments_read_span(const struct segments *segments, const struct segment_span *span, char *data, struct bytes *read, bool *was_cached)
{
    ssize_t size = -1;

    if (was_cached != NULL) {
        size = span->is_direct ? -1 : segment_read_cached(segments, span, data);
        *was_cached = size == (ssize_t)span->size;
    }
    if (was_cached == NULL || !*was_cached)         /* a part of it: the end of the file, or of what is cached */
        size = file_pread_all(segments->disk, span->fd, data, span->size, span->offset);
    if (size < 0)
        return STATUS_IO;
    *read = bytes_of(data, (size_t)size);
    return STATUS_OK;
}

/* A record that is longer than its place said: huge. It is read into memory of its own. */
static enum status read_huge(const struct segments *segments, const struct segment *segment, int fd, uint64_t begin, uint64_t size,
    uint32_t incarnation, struct bytes key, struct buffer *value)
{
    struct buffer bytes = { 0 };
    struct bytes found;
    uint64_t needed;
    ssize_t got;
    enum status status;

    if (begin + size > segment->size)
        return STATUS_CORRUPT;
    buffer_reserve_exact(&bytes, size);
    got = file_pread_all(segments->disk, fd, bytes.data, size, begin);
    status = got < 0 ? STATUS_IO : segment_value(segment, bytes_of(bytes.data, (size_t)got), 0, incarnation, key, &found, &needed);
    if (status == STATUS_TRUNCATED)
        status = STATUS_CORRUPT;
    if (status == STATUS_OK) {
        buffer_reserve_exact(value, found.size);
        buffer_append_bytes(value, found);
    }
    buffer_release(&bytes);
    return status;
}

enum status segments_read(struct segments *segments, struct segment *segment, uint64_t place, enum segment_access access,
    uint32_t incarnation, struct bytes key, struct segment_buffer *scratch, struct buffer *value, bool *was_cached)
{
    enum status status = segment_check(segment, place);
    struct segment_span span;
    struct bytes read, found;
    uint64_t size;
    int fd;

    if (status != STATUS_OK)
        return status;
    fd = segment_open(segments, segment);
    if (fd < 0)
        return STATUS_IO;           /* also if there is no file: the key has a record, whatever became of it */
    atomic_fetch_add_explicit(&segments->reads, 1, memory_order_relaxed);
    segment_span_of(segment, place, access, &span);
    if (!span.is_direct)
        span.fd = fd;
    status = segments_read_span(segments, &span, segment_buffer_grow(scratch, span.size), &read, was_cached);
    if (status == STATUS_OK)
        status = segment_value(segment, read, span.skip, incarnation, key, &found, &size);
    if (status == STATUS_OK)
        buffer_append_bytes(value, found);
    else if (status == STATUS_TRUNCATED && (place & SEGMENT_CLASS_HUGE) == SEGMENT_CLASS_HUGE)
        status = read_huge(segments, segment, fd, place_offset(place), size, incarnation, key, value);
    segment_close(segments, segment, fd);
    return status == STATUS_TRUNCATED ? STATUS_CORRUPT : status;
}

/* --- all records --- */

void segment_walk_begin(struct segments *segments, struct segment *segment, struct segment_walk *walk)
{
    *walk = (struct segment_walk){ .segments = segments, .segment = segment, .fd = segment_open(segments, segment), .at = SEGMENT_HEAD_SIZE,
        .stamp = segment->sequence };
}

void segment_walk_end(struct segment_walk *walk)
{
    segment_close(walk->segments, walk->segment, walk->fd);
    buffer_release(&walk->bytes);
}

static struct bytes unread(const struct segment_walk *walk)
{
    return bytes_of(walk->bytes.data + walk->used, walk->bytes.size - walk->used);
}

/* Makes sure that at least `size` bytes are there, or all that the file has. */
static enum status read_more(struct segment_walk *walk, uint64_t size)
{
    struct bytes rest = unread(walk);
    ssize_t got;

    if (rest.size > 0)
        memmove(walk->bytes.data, rest.data, rest.size);
    walk->at += walk->used;
    walk->used = 0;
    walk->bytes.size = rest.size;
    size = size > rest.size + WALK_READ ? size - rest.size : WALK_READ;
    if (size > walk->segment->written)
        size = walk->segment->written;
    buffer_reserve_exact(&walk->bytes, size);
    got = file_pread_all(walk->segments->disk, walk->fd, walk->bytes.data + walk->bytes.size, size, walk->at + walk->bytes.size);
    if (got < 0)
        return STATUS_IO;
    walk->bytes.size += (size_t)got;
    walk->is_at_end = (uint64_t)got < size;
    return STATUS_OK;
}

/* In a file of one huge record nothing but its footer is after damaged bytes. */
static void pass_damaged_huge(struct segment_walk *walk)
{
    const struct segment *segment = walk->segment;

    if (segment->is_huge && walk->at + walk->used == SEGMENT_HEAD_SIZE + SEGMENT_UNIT)
        segment_walk_seek(walk, (uint32_t)((segment->size - segment_footer_size()) / SEGMENT_UNIT));
}

/* The next record of any kind, at `*at`. */
static enum status next_of_any(struct segment_walk *walk, uint64_t *at, uint64_t *size, struct segment_record *record)
{
    enum status status, parsed;

    for (;;) {
        parsed = segment_record_parse_at(walk->at + walk->used, unread(walk), record, size);
        if (parsed != STATUS_TRUNCATED || walk->is_at_end)
            break;
        status = read_more(walk, *size);
        if (status != STATUS_OK)
            return status;
    }
    if (unread(walk).size == 0)
        return STATUS_NOT_FOUND;
    if (parsed != STATUS_OK) {          /* a record may begin at the next unit */
        walk->used += unread(walk).size < SEGMENT_UNIT ? unread(walk).size : SEGMENT_UNIT;
        return STATUS_CORRUPT;
    }
    *at = walk->at + walk->used;
    walk->used += *size < unread(walk).size ? *size : unread(walk).size;
    return STATUS_OK;
}

enum status segment_walk_next(struct segment_walk *walk, uint64_t *place, struct segment_record *record)
{
    struct segment_footer footer;
    uint64_t size, at;
    enum status status;

    pass_damaged_huge(walk);
    do
        status = next_of_any(walk, &at, &size, record);
    while (status == STATUS_OK && (segment_mark_parse(record, &walk->stamp) || segment_is_uses(record)));
    if (status == STATUS_NOT_FOUND)
        walk->stamp = UINT64_MAX;
    if (status != STATUS_OK)
        return status;
    if (segment_footer_parse(record, &footer)) {
        walk->stamp = footer.stamp > walk->stamp ? footer.stamp : walk->stamp;
        return STATUS_NOT_FOUND;
    }
    if (at >= SEGMENT_SIZE_MAX)
        return STATUS_CORRUPT;              /* Kelvin never writes it: a place has no room for its unit */
    *place = segment_place(walk->segment, at, record->kind, size);
    return STATUS_OK;
}

struct bytes segment_walk_damaged(const struct segment_walk *walk, uint64_t *offset)
{
    size_t passed = walk->used < SEGMENT_UNIT ? walk->used : SEGMENT_UNIT;

    *offset = (walk->at + walk->used - passed) / SEGMENT_UNIT * SEGMENT_UNIT;
    return bytes_of(walk->bytes.data + walk->used - passed, walk->bytes.size - walk->used + passed);
}

void segment_walk_seek(struct segment_walk *walk, uint32_t unit)
{
    uint64_t offset = (uint64_t)unit * SEGMENT_UNIT;

    if (offset < walk->at + walk->bytes.size) {
        walk->used = (size_t)(offset - walk->at);
        return;
    }
    walk->at = offset;
    walk->bytes.size = walk->used = 0;
    walk->is_at_end = false;
}

/* --- files --- */

uint32_t segment_slot(const struct segment *segment)
{
    return segment->slot;
}

uint64_t segment_sequence(const struct segment *segment)
{
    return segment->sequence;
}

uint64_t segment_size(const struct segment *segment)
{
    return segment->size;
}

uint64_t segments_next_sequence(const struct segments *segments)
{
    return segments->next_sequence;
}

uint64_t segments_damaged_count(const struct segments *segments)
{
    return segments->damaged_count;
}
