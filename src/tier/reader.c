#include "tier/reader.h"

#include <poll.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/read_ring.h"
#include "tier/read_pool.h"
#include "tier/tier_private.h"

enum {
    SORT_MIN = 128,                     /* readings that are submitted together are sorted, so that neighbours are found; for fewer it does not pay */
    SLOT_KEPT_MAX = 8 * 1024,
    BUFFER_KEPT_MAX = 64 * 1024,
};

/* A read on the ring and its group. */
struct slot {
    struct ring_read read;              /* first: the ring returns it */
    struct reading *group;
    struct segment_buffer aligned;
    uint32_t skip;                      /* bytes before the first record */
    bool is_counted;                    /* whether it was cached, for tier/access.h */
    struct slot *next_free;
};

struct reading_list {
    struct reading *first, *last;       /* linked by `next` */
    size_t count;                       /* of `added` only */
};

struct tier_reader {
    struct tier *tier;
    struct reader_options options;
    struct reading_list added;          /* and not submitted */
    struct reading_list waiting;        /* for room */
    struct reading *pool_first, *pool_last;     /* groups that the pool is about to get, linked by `next_group` */
    uint64_t pool_count;
    _Atomic unsigned pooled;            /* groups that were given to the pool, and are not done */
    uint64_t reads;
    struct read_buffers buffers;        /* the owner's */
    struct read_ring *ring;             /* NULL: io_uring can't be used */
    uint64_t bytes;                     /* of the reads in flight */
    struct slot *free;
    struct slot slots[];
};

static void log_reason(struct tier *tier, const struct message *why)
{
    struct message text;

    if (tier->rings.refused++ > 0)
        return;
    message_set(&text, "Cold keys are read by threads: %s", why->text);
    if (tier->hooks.notice != NULL)
        tier->hooks.notice(tier->hooks.context, text.text);
}

static void open_ring(struct tier_reader *reader)
{
    struct message why = { "" };

    reader->ring = read_ring_open(reader->options.flight_max, store_disk(reader->tier->store), &why);
    if (reader->ring == NULL)
        log_reason(reader->tier, &why);
    else if (reader->options.worker != NULL)
        reader->tier->rings.worker_count++;
    for (unsigned i = reader->options.flight_max; i-- > 0; ) {
        reader->slots[i].next_free = reader->free;
        reader->free = &reader->slots[i];
    }
}

struct tier_reader *reader_open(struct tier *tier, const struct reader_options *options)
{
    size_t slot_count = options->without_ring ? 0 : options->flight_max;
    struct tier_reader *reader = mem_zalloc(sizeof(*reader) + slot_count * sizeof(reader->slots[0]));

    CHECK(options->flight_max > 0 && options->flight_max <= READER_DEPTH);
    reader->tier = tier;
    reader->options = *options;
    if (!options->without_ring)
        open_ring(reader);
    return reader;
}

void reader_close(struct tier_reader *reader)
{
    if (reader == NULL)
        return;
    reader_finish(reader);
    if (reader->ring != NULL && reader->options.worker != NULL)
        reader->tier->rings.worker_count--;
    read_ring_close(reader->ring);
    for (unsigned i = 0; i < reader->options.flight_max && !reader->options.without_ring; i++)
        segment_buffer_release(&reader->slots[i].aligned);
    read_buffers_release(&reader->buffers);
    mem_free(reader);
}

int reader_descriptor(const struct tier_reader *reader)
{
    return reader->ring != NULL ? read_ring_descriptor(reader->ring) : -1;
}

uint64_t reader_reads(const struct tier_reader *reader)
{
    return reader->reads;
}

/* --- groups --- */

void reader_add(struct tier_reader *reader, struct reading *reading)
{
    struct reading_list *added = &reader->added;

    reading->reader = reader;
    reading->next = NULL;
    if (added->first != NULL)
        added->last->next = reading;
    else
        added->first = reading;
    added->last = reading;
    added->count++;
}

static int compare_places(const void *left, const void *right)
{
    uint64_t a = (*(struct reading *const *)left)->place, b = (*(struct reading *const *)right)->place;

    return a < b ? -1 : a > b;
}

static void sort_list(struct reading_list *list)
{
    struct reading **all = mem_alloc(list->count * sizeof(*all)), *reading = list->first;

    for (size_t i = 0; i < list->count; i++, reading = reading->next)
        all[i] = reading;
    qsort(all, list->count, sizeof(*all), compare_places);
    list->first = all[0];
    list->last = all[list->count - 1];
    list->last->next = NULL;
    for (size_t i = 1; i < list->count; i++)
        all[i - 1]->next = all[i];
    mem_free(all);
}

static void move_added(struct tier_reader *reader)
{
    struct reading_list *waiting = &reader->waiting;

    if (reader->added.count >= SORT_MIN)
        sort_list(&reader->added);
    if (waiting->first != NULL)
        waiting->last->next = reader->added.first;
    else
        waiting->first = reader->added.first;
    waiting->last = reader->added.last;
    reader->added = (struct reading_list){ 0 };
}

/* The others are read alone. */
static bool is_groupable(const struct tier_reader *reader, const struct reading *reading)
{
    return reading->segment != NULL && place_size(reading->place) <= reader->options.record_max &&
           segment_check(reading->segment, reading->place) == STATUS_OK;
}

static uint64_t end_of(const struct reading *reading)
{
    return place_offset(reading->place) + place_size(reading->place);
}

/* Whether one read has it, too, and those of a group from `first` to `last`. */
static bool is_neighbour(const struct tier_reader *reader, const struct reading *first, const struct reading *last, const struct reading *next)
{
    return next->segment == first->segment && place_offset(next->place) >= place_offset(last->place) &&
           place_offset(next->place) <= end_of(last) + READER_GAP && end_of(next) - place_offset(first->place) <= READER_GROUP_SIZE &&
           is_groupable(reader, first) && is_groupable(reader, next);
}

/* Takes the first of those that wait, and its neighbours after it. */
static struct reading *take_group(struct tier_reader *reader, uint64_t *count)
{
    struct reading *first = reader->waiting.first, *last = first;

    *count = 1;
    for (; last->next != NULL && is_neighbour(reader, first, last, last->next); last = last->next)
        ++*count;
    reader->waiting.first = last->next;
    last->next = NULL;
    reader->reads++;
    return first;
}

static void span_of(const struct reading *group, enum segment_access access, struct segment_span *span)
{
    const struct reading *last = group;

    while (last->next != NULL)
        last = last->next;
    segment_span_between(group->segment, group->place, last->place, access, span);
}

/* --- the pool --- */

static void add_to_pool(struct tier_reader *reader, struct reading *group)
{
    group->next_group = NULL;
    if (reader->pool_last != NULL)
        reader->pool_last->next_group = group;
    else
        reader->pool_first = group;
    reader->pool_last = group;
    reader->pool_count++;
    reader->pooled++;
}

static void submit_to_pool(struct tier_reader *reader)
{
    if (reader->pool_count > 0)
        read_pool_submit(reader->tier, reader->pool_first, reader->pool_last, reader->pool_count);
    reader->pool_first = reader->pool_last = NULL;
    reader->pool_count = 0;
}

static void end_reading(struct reading *reading, struct read_record *record)
{
    struct tier_reader *reader = reading->reader;

    reader->options.done(reader->options.context, reading, record);
}

/* Reading its group returned `status`, and the record could not be used. If the key is not known, that is all that can be said of it. */
static void read_alone(struct tier *tier, struct reading *reading, enum status status, struct read_buffers *buffers)
{
    struct read_record record = { .status = status == STATUS_OK ? STATUS_CORRUPT : status };

    if (reading->key.data != NULL)
        reading_now(tier, reading, buffers, &record);
    else
        record.status = reading_failed(tier, reading, record.status);
    end_reading(reading, &record);
}

/* A group has been read, or could not be: `status`. Returns the readings that are to be read alone. */
static struct reading *end_group(struct tier *tier, struct reading *group, enum status status, struct bytes bytes, uint64_t skip,
    struct read_record *record)
{
    uint64_t begin = place_offset(group->place);
    struct reading *failed = NULL, **end = &failed, *next;

    for (struct reading *reading = group; reading != NULL; reading = next) {
        uint64_t at = skip + place_offset(reading->place) - begin;

        next = reading->next;
        record->status = status == STATUS_OK ? STATUS_TRUNCATED : status;
        if (status == STATUS_OK && at < bytes.size)
            reading_parse(tier, reading, bytes_of(bytes.data + at, bytes.size - at), record);
        if (record->status == STATUS_OK || record->status == STATUS_NOT_FOUND) {
            end_reading(reading, record);
        } else {
            *end = reading;
            end = &reading->next;
            *end = NULL;
        }
    }
    return failed;
}

static enum status read_span(struct tier *tier, const struct reading *group, struct read_buffers *buffers, struct bytes *bytes, uint64_t *skip)
{
    enum segment_access access = access_choose(&tier->access);
    struct segment_span span;
    bool was_cached = false;
    enum status status;

    span_of(group, access, &span);
    *skip = span.skip;
    status = segments_read_span(store_segments(tier->store), &span, segment_buffer_grow(&buffers->aligned, span.size), bytes,
        access == SEGMENT_BUFFERED ? &was_cached : NULL);
    if (access == SEGMENT_BUFFERED)
        access_note(&tier->access, was_cached);
    return status;
}

/* On any thread. What can't be used of a group is read again. */
static void read_group(struct tier *tier, struct reading *group, struct read_buffers *buffers)
{
    struct read_record record = { .scratch = &buffers->scratch };
    enum status status = STATUS_CORRUPT;
    bool is_single = group->next == NULL;
    struct bytes bytes = { 0 };
    uint64_t skip = 0;

    if (is_groupable(group->reader, group)) {
        status = read_span(tier, group, buffers, &bytes, &skip);
        group = end_group(tier, group, status, bytes, skip, &record);
    }
    for (struct reading *next; group != NULL; group = next) {
        next = group->next;
        group->next = NULL;
        if (is_single)
            read_alone(tier, group, status, buffers);
        else
            read_group(tier, group, buffers);
    }
}

void reader_run(struct tier *tier, struct reading *group, struct read_buffers *buffers)
{
    struct tier_reader *reader = group->reader;

    read_group(tier, group, buffers);
    read_pool_note_end(tier->read_pool, &reader->pooled);
}

static bool pool_has_room(const struct tier_reader *reader)
{
    return reader->options.worker != NULL || reader->pooled + 1 < reader->options.flight_max;
}

/* --- the ring --- */

static bool ring_has_room(const struct tier_reader *reader)
{
    return reader->free != NULL && reader->bytes < READER_BYTES;
}

static void begin_on_ring(struct tier_reader *reader, struct reading *group)
{
    enum segment_access access = access_choose(&reader->tier->access);
    struct slot *slot = reader->free;
    struct segment_span span;

    reader->free = slot->next_free;
    slot->group = group;
    span_of(group, access, &span);
    slot->is_counted = access == SEGMENT_BUFFERED && !span.is_direct;
    slot->skip = span.skip;
    slot->read = (struct ring_read){ .fd = span.fd, .offset = span.offset, .size = span.size,
        .data = segment_buffer_grow(&slot->aligned, span.size) };
    reader->bytes += span.size;
    read_ring_add(reader->ring, &slot->read);
}

/* Ends a read on the ring. One that can't be used is read again by the pool, which says why. */
static void end_on_ring(struct tier_reader *reader, struct slot *slot)
{
    struct read_record record = { .scratch = &reader->buffers.scratch, .worker = reader->options.worker };
    int64_t result = slot->read.result;
    struct reading *failed, *next;

    if (slot->is_counted)
        access_note(&reader->tier->access, slot->read.was_cached);
    failed = end_group(reader->tier, slot->group, result < 0 ? STATUS_IO : STATUS_OK, bytes_of(slot->read.data, result < 0 ? 0 : (size_t)result), slot->skip, &record);
    for (; failed != NULL; failed = next) {
        next = failed->next;
        failed->next = NULL;
        add_to_pool(reader, failed);
    }
    reader->bytes -= slot->read.size;
    if (slot->aligned.capacity > SLOT_KEPT_MAX)
        segment_buffer_release(&slot->aligned);
    read_buffers_shrink(&reader->buffers, BUFFER_KEPT_MAX);
    slot->next_free = reader->free;
    reader->free = slot;
}

static void count_reads(struct tier_reader *reader, uint64_t count)
{
    if (count == 0 || reader->options.worker == NULL)
        return;
    statistics_add(&reader->tier->statistics.ring_reads, count);
    statistics_count(&reader->tier->statistics.ring_batches);
}

/* As many of those that wait as there is room for. */
static void begin_reads(struct tier_reader *reader)
{
    uint64_t on_ring = 0, count;

    while (reader->waiting.first != NULL) {
        bool is_on_ring = reader->ring != NULL && is_groupable(reader, reader->waiting.first);

        if (is_on_ring ? !ring_has_room(reader) : !pool_has_room(reader))
            break;
        if (is_on_ring) {
            begin_on_ring(reader, take_group(reader, &count));
            on_ring += count;
        } else {
            add_to_pool(reader, take_group(reader, &count));
        }
    }
    submit_to_pool(reader);
    count_reads(reader, on_ring);
    if (reader->ring != NULL && read_ring_submit(reader->ring) && reader->options.worker != NULL)
        reader->tier->hooks.ring(reader->tier->hooks.context, reader->options.worker);
}

void reader_submit(struct tier_reader *reader)
{
    if (reader == NULL || reader->added.first == NULL)
        return;
    move_added(reader);
    begin_reads(reader);
}

void reader_collect(struct tier_reader *reader)
{
    struct ring_read *read;

    if (reader == NULL || reader->ring == NULL)
        return;
    read = read_ring_completed(reader->ring);
    while (read != NULL) {
        struct slot *slot = (struct slot *)read;

        read = read->next;
        end_on_ring(reader, slot);
    }
    if (reader->waiting.first != NULL || reader->pool_count > 0)
        begin_reads(reader);
}

static bool is_on_ring(const struct tier_reader *reader)
{
    return reader->ring != NULL && read_ring_count(reader->ring) > 0;
}

static void await_ring(struct tier_reader *reader)
{
    struct pollfd poller = { .fd = reader_descriptor(reader), .events = POLLIN };

    (void)poll(&poller, 1, 1);          /* a moment at most: what the descriptor does not show is collected, too */
}

void reader_finish(struct tier_reader *reader)
{
    uint64_t count;

    reader_submit(reader);
    for (;;) {
        if (is_on_ring(reader)) {
            reader_collect(reader);
            if (is_on_ring(reader))
                await_ring(reader);
        } else if (reader->waiting.first != NULL) {
            read_group(reader->tier, take_group(reader, &count), &reader->buffers);
            begin_reads(reader);
        } else if (reader->pooled > 0) {
            read_pool_wait(reader->tier->read_pool, &reader->pooled);
        } else {
            break;
        }
    }
    read_buffers_shrink(&reader->buffers, BUFFER_KEPT_MAX);
}
