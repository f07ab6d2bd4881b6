#include "tier/load_ring.h"

#include <poll.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/read_ring.h"
#include "tier/load.h"
#include "tier/loader.h"
#include "tier/tier_private.h"

enum { BUFFER_KEPT_MAX = 8 * 1024 };

/* One read and its load. */
struct slot {
    struct ring_read read;              /* first: the read ring returns it */
    struct loading loading;
    uint32_t skip;                      /* bytes before the record */
    bool is_counted;                    /* whether it was cached, for tier/access.h */
    struct slot *next_free;
};

struct load_ring {
    struct tier *tier;
    struct worker *worker;
    struct read_ring *reads;
    struct load_batch waiting;          /* for a slot */
    uint64_t bytes;                     /* of the reads in flight */
    struct slot *free;
    struct slot slots[LOAD_RING_DEPTH];
};

static void log_reason(struct tier *tier, const struct message *why)
{
    struct message text;

    if (tier->loads.ring_refused++ > 0)
        return;
    message_set(&text, "Cold keys are read by threads: %s", why->text);
    if (tier->hooks.notice != NULL)
        tier->hooks.notice(tier->hooks.context, text.text);
}

struct load_ring *load_ring_open(struct tier *tier, struct worker *worker)
{
    struct message why = { "" };
    struct read_ring *reads = read_ring_open(LOAD_RING_DEPTH, store_disk(tier->store), &why);
    struct load_ring *ring;

    if (reads == NULL) {
        log_reason(tier, &why);
        return NULL;
    }
    ring = mem_zalloc(sizeof(*ring));
    ring->tier = tier;
    ring->worker = worker;
    ring->reads = reads;
    for (int i = LOAD_RING_DEPTH - 1; i >= 0; i--) {
        ring->slots[i].next_free = ring->free;
        ring->free = &ring->slots[i];
    }
    tier->loads.ring_count++;
    return ring;
}

int load_ring_descriptor(const struct load_ring *ring)
{
    return read_ring_descriptor(ring->reads);
}

void load_ring_close(struct load_ring *ring)
{
    if (ring == NULL)
        return;
    load_ring_collect(ring);
    while (read_ring_count(ring->reads) > 0) {
        struct pollfd poller = { .fd = load_ring_descriptor(ring), .events = POLLIN };

        (void)poll(&poller, 1, 1);      /* a moment at most: what the descriptor does not show is collected, too */
        load_ring_collect(ring);
    }
    ring->tier->loads.ring_count--;
    read_ring_close(ring->reads);
    for (int i = 0; i < LOAD_RING_DEPTH; i++)
        loading_release(&ring->slots[i].loading);
    mem_free(ring);
}

/* --- submitting --- */

static bool is_read_here(const struct load *load)
{
    const struct reading_place *reading = &load->reading;

    return reading->segment != NULL && place_size(reading->place) <= LOAD_RING_RECORD_MAX &&
           segment_check(reading->segment, reading->place) == STATUS_OK;
}

static void begin_read(struct load_ring *ring, struct load *load)
{
    struct slot *slot = ring->free;
    enum segment_access access = access_choose(&ring->tier->access);
    struct segment_span span;

    ring->free = slot->next_free;
    slot->loading.load = load;
    slot->loading.ticket = load->batch_ticket;
    segment_span_of(load->reading.segment, load->reading.place, access, &span);
    slot->is_counted = access == SEGMENT_BUFFERED && !span.is_direct;
    slot->skip = span.skip;
    slot->read = (struct ring_read){ .fd = span.fd, .offset = span.offset, .size = span.size,
        .data = segment_buffer_grow(&slot->loading.aligned, span.size) };
    ring->bytes += span.size;
    read_ring_add(ring->reads, &slot->read);
}

/* As many of the loads that wait as there is room for. */
static void begin_reads(struct load_ring *ring)
{
    uint64_t count = 0;

    while (ring->waiting.first != NULL && ring->free != NULL && ring->bytes < LOAD_RING_BYTES) {
        begin_read(ring, load_batch_take(&ring->waiting));
        count++;
    }
    if (count > 0) {
        statistics_add(&ring->tier->statistics.ring_reads, count);
        statistics_count(&ring->tier->statistics.ring_batches);
    }
    if (read_ring_submit(ring->reads))
        ring->tier->hooks.ring(ring->tier->hooks.context, ring->worker);
}

/* Takes from the batch the loads that this ring reads, and submits their reads. The worker is rung (tier_hooks) if some have been read
 * already without the descriptor being readable. */
static void load_ring_submit(struct load_ring *ring, struct load_batch *batch)
{
    struct load_batch others = { .ring = batch->ring };

    while (batch->first != NULL) {
        struct load *load = load_batch_take(batch);

        load_batch_add(is_read_here(load) ? &ring->waiting : &others, load);
    }
    *batch = others;
    begin_reads(ring);
}

void tier_submit(struct tier *tier, struct load_batch *batch)
{
    if (batch->first != NULL && batch->ring != NULL)
        load_ring_submit(batch->ring, batch);
    if (batch->first != NULL)
        loaders_submit(tier, batch);
}

/* --- completing --- */

/* The record is in loading->aligned. False: it can't be used. */
static bool decode(struct load_ring *ring, const struct slot *slot, const struct value_limits *limits, struct loading *loading)
{
    const struct load *load = loading->load;
    struct bytes value;
    uint64_t size;

    if (slot->read.result < 0)
        return false;
    loading->status = segment_value(bytes_of(slot->read.data, (size_t)slot->read.result), slot->skip, load->incarnation, load->node.hash,
        load->node.key, &value, &size);
    if (loading->status == STATUS_OK)
        load_decode(ring->tier, loading, limits, value);
    return loading->status == STATUS_OK || loading->status == STATUS_NOT_FOUND;
}

static void end_read(struct load_ring *ring, struct slot *slot, const struct value_limits *limits, struct load_batch *failed)
{
    struct loading *loading = &slot->loading;

    if (slot->is_counted)
        access_note(&ring->tier->access, slot->read.was_cached);
    if (decode(ring, slot, limits, loading)) {
        load_finish(ring->tier, loading, ring->worker);
        loaders_note_end(ring->tier);
    } else {
        load_batch_add(failed, loading->load);
    }
    ring->bytes -= slot->read.size;
    loading_shrink(loading, BUFFER_KEPT_MAX);
    slot->next_free = ring->free;
    ring->free = slot;
}

void load_ring_collect(struct load_ring *ring)
{
    struct ring_read *read = read_ring_completed(ring->reads);
    struct load_batch failed = { .first = NULL };

    if (read != NULL) {
        struct value_limits limits = tier_limits(ring->tier);

        while (read != NULL) {
            struct slot *slot = (struct slot *)read;

            read = read->next;
            end_read(ring, slot, &limits, &failed);
        }
    }
    if (failed.first != NULL)
        loaders_submit(ring->tier, &failed);
    if (ring->waiting.first != NULL)
        begin_reads(ring);
}
