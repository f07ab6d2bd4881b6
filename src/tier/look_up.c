#include "tier/look_up.h"

#include <poll.h>

#include "base/mem.h"
#include "base/mutex.h"
#include "base/read_ring.h"
#include "base/thread.h"
#include "tier/read.h"
#include "tier/tier_private.h"

enum {
    RECORD_MAX = 64 * 1024,
    BUFFER_KEPT_MAX = 8 * 1024,
    READERS = 15,                       /* threads; the caller reads, too */
};

struct slot {
    struct ring_read read;              /* first: the ring returns it */
    struct reading_place reading;
    struct segment_buffer aligned;
    uint32_t skip;
    size_t index;                       /* in the list */
    struct buffer record;               /* without a ring: what was read ... */
    enum status status;                 /* ... or why not */
};

struct search;

/* Threads that read the slots of a batch where io_uring can't be used. They are started when they are first needed. */
struct readers {
    struct tier *tier;
    struct slot *slots;
    struct thread threads[READERS];
    int thread_count;                   /* the owner's */
    struct mutex lock;                  /* leaf; for what follows */
    struct condition begun, ended;
    const struct search *search;
    size_t next, end, done;             /* slots of the batch: the next to be read, all, those that were read */
    bool is_stopping;
};

struct look_up {
    struct read_ring *ring;             /* NULL: io_uring can't be used */
    struct slot slots[LOOK_UP_MAX];
    struct readers readers;             /* without a ring */
};

struct look_up *look_up_create(struct tier *tier)
{
    struct look_up *look_up = mem_zalloc(sizeof(*look_up));
    struct message why;

    look_up->ring = read_ring_open(LOOK_UP_MAX, store_disk(tier->store), &why);     /* the workers' rings log the reason */
    look_up->readers.tier = tier;
    look_up->readers.slots = look_up->slots;
    mutex_init(&look_up->readers.lock);
    condition_init(&look_up->readers.begun);
    condition_init(&look_up->readers.ended);
    return look_up;
}

static void readers_stop(struct readers *readers)
{
    mutex_lock(&readers->lock);
    readers->is_stopping = true;
    condition_broadcast(&readers->begun);
    mutex_unlock(&readers->lock);
    for (int i = 0; i < readers->thread_count; i++)
        thread_join(&readers->threads[i]);
    condition_release(&readers->begun);
    condition_release(&readers->ended);
    mutex_release(&readers->lock);
}

void look_up_destroy(struct look_up *look_up)
{
    if (look_up == NULL)
        return;
    read_ring_close(look_up->ring);
    readers_stop(&look_up->readers);
    for (int i = 0; i < LOOK_UP_MAX; i++)
        segment_buffer_release(&look_up->slots[i].aligned);
    mem_free(look_up);
}

/* The key's place, pinned. False: it has no record. */
static bool begin(struct tier *tier, const struct key_list *list, size_t index, struct reading_place *reading)
{
    const struct listed_key *listed = &list->keys[index];
    struct keyspace *keyspace;
    bool is_there = false;

    partition_lock(listed->partition);
    keyspace = tier_keyspace_of(listed->partition, listed->incarnation);
    if (keyspace != NULL && keyspace->tier != NULL) {
        keyspace_assert_locked(keyspace);
        is_there = reading_begin(tier, keyspace, listed->hash, key_list_key(list, index), reading);
    }
    partition_unlock(listed->partition);
    return is_there;
}

/* The keys of one call. */
struct search {
    struct tier *tier;
    const struct key_list *list;
    look_up_found *found;
    void *context;
};

static void read_alone(const struct search *search, size_t index, const struct reading_place *reading)
{
    const struct listed_key *listed = &search->list->keys[index];
    struct buffer record = { 0 };
    enum status status = reading_record(search->tier, reading, listed->incarnation, listed->hash, key_list_key(search->list, index), &record);

    search->found(search->context, index, status, buffer_bytes(&record));
    buffer_release(&record);
}

/* False: it is read alone, which returns why it can't be read. */
static bool goes_with_others(const struct look_up *look_up, const struct reading_place *reading)
{
    return look_up != NULL && reading->segment != NULL && place_size(reading->place) <= RECORD_MAX &&
           segment_check(reading->segment, reading->place) == STATUS_OK;
}

/* --- without a ring --- */

static void read_slot(const struct search *search, struct slot *slot)
{
    const struct listed_key *listed = &search->list->keys[slot->index];

    slot->status = reading_record(search->tier, &slot->reading, listed->incarnation, listed->hash, key_list_key(search->list, slot->index),
        &slot->record);
}

/* Reads slots as long as there are any. */
static void read_slots(struct readers *readers) REQUIRES(readers->lock);
static void read_slots(struct readers *readers)
{
    while (readers->next < readers->end) {
        struct slot *slot = &readers->slots[readers->next++];
        const struct search *search = readers->search;

        mutex_unlock(&readers->lock);
        read_slot(search, slot);
        mutex_lock(&readers->lock);
        if (++readers->done == readers->end)
            condition_broadcast(&readers->ended);
    }
}

static void reader_main(void *context)
{
    struct readers *readers = context;

    mutex_lock(&readers->lock);
    while (!readers->is_stopping) {
        read_slots(readers);
        if (!readers->is_stopping)
            condition_wait(&readers->begun, &readers->lock);
    }
    mutex_unlock(&readers->lock);
}

/* As many as the batch needs. Without any the caller reads alone. */
static void start_readers(struct readers *readers, size_t wanted)
{
    while (readers->thread_count < READERS && (size_t)readers->thread_count + 1 < wanted) {
        if (thread_start(&readers->threads[readers->thread_count], "kelvin-look", readers->tier->hooks.meter, reader_main, readers) != 0)
            return;
        readers->thread_count++;
    }
}

static void read_in_parallel(struct look_up *look_up, const struct search *search, size_t count)
{
    struct readers *readers = &look_up->readers;

    start_readers(readers, count);
    mutex_lock(&readers->lock);
    readers->search = search;
    readers->next = readers->done = 0;
    readers->end = count;
    condition_broadcast(&readers->begun);
    read_slots(readers);
    while (readers->done < readers->end)
        condition_wait(&readers->ended, &readers->lock);
    readers->next = readers->end = readers->done = 0;
    mutex_unlock(&readers->lock);
    for (size_t i = 0; i < count; i++) {
        struct slot *slot = &look_up->slots[i];

        reading_end(&slot->reading);
        search->found(search->context, slot->index, slot->status, buffer_bytes(&slot->record));
        buffer_release(&slot->record);
        slot->record = (struct buffer){ 0 };
    }
}

/* --- with a ring --- */

static void add_read(struct tier *tier, struct look_up *look_up, struct slot *slot, size_t index)
{
    struct segment_span span;

    slot->index = index;
    segment_span_of(slot->reading.segment, slot->reading.place, access_choose(&tier->access), &span);
    slot->skip = span.skip;
    slot->read = (struct ring_read){ .fd = span.fd, .offset = span.offset, .size = span.size,
        .data = segment_buffer_grow(&slot->aligned, span.size) };
    read_ring_add(look_up->ring, &slot->read);
}

/* What can't be used is read again, alone: that says why. */
static void judge(const struct search *search, const struct slot *slot)
{
    const struct listed_key *listed = &search->list->keys[slot->index];
    enum status status = STATUS_IO;
    struct bytes value = { 0 };
    uint64_t size;

    if (slot->read.result >= 0)
        status = segment_value(bytes_of(slot->read.data, (size_t)slot->read.result), slot->skip, listed->incarnation, listed->hash,
            key_list_key(search->list, slot->index), &value, &size);
    if (status == STATUS_OK || status == STATUS_NOT_FOUND)
        search->found(search->context, slot->index, status, value);
    else
        read_alone(search, slot->index, &slot->reading);
}

static void collect_reads(struct look_up *look_up, const struct search *search)
{
    (void)read_ring_submit(look_up->ring);
    while (read_ring_count(look_up->ring) > 0) {
        struct ring_read *read = read_ring_completed(look_up->ring);
        struct pollfd poller = { .fd = read_ring_descriptor(look_up->ring), .events = POLLIN };

        if (read == NULL)
            (void)poll(&poller, 1, 1);
        for (; read != NULL; read = read->next) {
            struct slot *slot = (struct slot *)read;

            judge(search, slot);
            reading_end(&slot->reading);
            if (slot->aligned.capacity > BUFFER_KEPT_MAX)
                segment_buffer_release(&slot->aligned);
        }
    }
}

void look_up_records(struct tier *tier, struct look_up *look_up, const struct key_list *list, size_t first, size_t count, look_up_found *found,
    void *context)
{
    const struct search search = { tier, list, found, context };
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        struct reading_place reading = { 0, NULL };

        if (!begin(tier, list, first + i, &reading)) {
            found(context, first + i, STATUS_NOT_FOUND, (struct bytes){ 0 });
        } else if (goes_with_others(look_up, &reading)) {
            struct slot *slot = &look_up->slots[used++];

            slot->reading = reading;
            slot->index = first + i;
            if (look_up->ring != NULL)
                add_read(tier, look_up, slot, first + i);
        } else {
            read_alone(&search, first + i, &reading);
            reading_end(&reading);
        }
    }
    if (look_up != NULL && look_up->ring != NULL)
        collect_reads(look_up, &search);
    else if (used > 0)
        read_in_parallel(look_up, &search, used);
}

struct key_statuses {
    struct tier *tier;
    const struct key_list *list;
    enum status *statuses;
    size_t first;
};

static void note_status(void *context, size_t index, enum status status, struct bytes record)
{
    struct key_statuses *keys = context;
    const struct listed_key *listed = &keys->list->keys[index];

    (void)record;
    keys->statuses[index - keys->first] = reading_existence(keys->tier, listed->incarnation, listed->hash, key_list_key(keys->list, index), status);
}

void look_up_keys(struct tier *tier, struct look_up *look_up, const struct key_list *list, size_t first, size_t count,
    enum status statuses[LOOK_UP_MAX])
{
    struct key_statuses keys = { tier, list, statuses, first };

    look_up_records(tier, look_up, list, first, count, note_status, &keys);
}
