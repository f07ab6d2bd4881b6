#include "tier/load.h"

#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/histogram.h"
#include "base/mem.h"
#include "keyspace/pages.h"
#include "keyspace/uses.h"
#include "tier/grave.h"
#include "tier/reader.h"
#include "tier/tier_private.h"
#include "value/string.h"

enum { RINGS_MAX = 16 };

struct value_limits tier_limits(const struct tier *tier)
{
    struct value_limits limits = { .seed = tier->partitions->seed.sip };

    tier->hooks.limits(tier->hooks.context, &limits);
    return limits;
}

static void note_latency(struct tier *tier, int64_t us)
{
    uint64_t taken_us = us < 1 ? 1 : (uint64_t)us;

    histogram_count(tier->statistics.latency, LOAD_LATENCY_BUCKETS, LOAD_LATENCY_STEP_BITS, taken_us);
    statistics_add(&tier->statistics.latency_us, taken_us);
}

/* Workers that have to be rung when the lock has been released. */
struct rings {
    struct worker *workers[RINGS_MAX];
    int count;
    const struct worker *self;      /* is not rung; or NULL */
};

static void ring_later(struct tier *tier, struct rings *rings, struct worker *worker)
{
    if (worker == NULL || (rings != NULL && worker == rings->self))
        return;
    if (rings != NULL && rings->count < RINGS_MAX)
        rings->workers[rings->count++] = worker;
    else
        tier->hooks.ring(tier->hooks.context, worker);
}

static void ring_all(struct tier *tier, struct rings *rings)
{
    for (int i = 0; i < rings->count; i++)
        tier->hooks.ring(tier->hooks.context, rings->workers[i]);
}

/* Ringing is put off until the lock is released; a client must be in its worker's list before that, as it could be closed afterwards.
 * `rings` NULL: the caller does not know when the lock will be released, so the worker is rung here. */
static void wake_waits(struct tier *tier, struct load *load, struct rings *rings)
{
    for (struct tier_wait *wait = load->waits; wait != NULL; wait = wait->of_load) {
        if (!wait->waiting)
            continue;
        wait->waiting = false;
        if (atomic_fetch_sub(&wait->client->loads.pending, 1) == 1)
            ring_later(tier, rings, tier->hooks.wake(tier->hooks.context, wait->client));
    }
}

void load_void(struct tier *tier, struct load *load)
{
    ASSERT_LOCKED(load->partition);
    load->state = LOAD_DONE;
    load->ticket++;
    wake_waits(tier, load, NULL);
}

/* The entry of a key that was only looked at leaves as it came: nothing is written, and its uses are as they were. One that has changed, is in use by
 * another thread, or was pinned by the operator meanwhile, stays. */
static void forget_looked_at(struct tier *tier, struct load *load, uint32_t handle) REQUIRES(load->partition->lock);
static void forget_looked_at(struct tier *tier, struct load *load, uint32_t handle)
{
    struct keyspace *keyspace = load->keyspace;
    const struct entry *entry = keyspace_entry(keyspace, handle);
    bool is_free = entry_record(entry) == RECORD_CLEAN && entry->flags & ENTRY_PROBATION && !(entry->flags & (ENTRY_WRITING | ENTRY_LATCHED));
    struct value value;

    keyspace_assert_locked(keyspace);
    if (load->is_used || !is_free || tier_keeps(tier, keyspace, entry)) {
        statistics_count(&tier->statistics.promotions);
        return;
    }
    statistics_count(&tier->statistics.looks);
    ghost_note(&keyspace->tier->ghost, load->node.hash, entry->uses, keyspace->table.count);
    keyspace_remove(keyspace, load->node.hash, handle, &value);
    if (value_is_object(&value) && tier->hooks.free_value != NULL)
        tier->hooks.free_value(tier->hooks.context, value);
    else
        value_free(&value);
}

static void free_if_unused(struct tier *tier, struct load *load) REQUIRES(load->partition->lock);
static void free_if_unused(struct tier *tier, struct load *load)
{
    if (load->pins > 0 || load->in_flight)
        return;
    if (load->keyspace != NULL) {
        uint32_t handle = keyspace_find(load->keyspace, load->node.hash, load->node.key);

        if (handle != 0) {
            keyspace_entry(load->keyspace, handle)->flags &= (uint8_t)~ENTRY_PINNED;
            if (load->is_looked_at)
                forget_looked_at(tier, load, handle);
        }
        keyed_remove(&load->keyspace->tier->loads, &load->node);
    }
    mem_free(load);
}

void loads_void_all(struct tier *tier, struct keyspace *keyspace)
{
    struct tier_keyspace *part = keyspace->tier;
    struct keyed_node *node;
    size_t slot = 0;

    ASSERT_LOCKED(keyspace->partition);
    while ((node = keyed_any(&part->loads, &slot)) != NULL) {
        struct load *load = (struct load *)node;

        keyed_remove(&part->loads, node);
        load->keyspace = NULL;
        partition_assert_locked(load->partition);
        load_void(tier, load);
        free_if_unused(tier, load);
        slot = 0;
    }
}

static struct load *load_create(struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    struct load *load = mem_zalloc(sizeof(*load) + key.size);
    char *copy = (char *)(load + 1);

    if (key.size > 0)
        memcpy(copy, key.data, key.size);
    load->node.hash = hash;
    load->node.key = bytes_of(copy, key.size);
    load->partition = keyspace->partition;
    load->keyspace = keyspace;
    load->incarnation = keyspace->incarnation;
    keyed_add(&keyspace->tier->loads, &load->node);
    return load;
}

/* The class of its place says it to a factor of two. */
static uint64_t load_size(uint64_t place)
{
    return place_size(place) / 4 * 3;
}

struct entry *load_install(struct keyspace *keyspace, uint64_t hash, struct bytes key, const struct record *record)
{
    uint32_t handle;
    struct entry *entry;

    handle = keyspace_insert(keyspace, hash, key, &record->value, record->expire_ms, RECORD_CLEAN, clock_wall_ms());
    CHECK(handle != 0);
    entry = keyspace_entry(keyspace, handle);
    entry->heat = record->heat;
    entry->heat_minutes = record->heat_minutes;
    entry->uses = ghost_take(&keyspace->tier->ghost, hash) & USES_MAX;      /* a new entry is on probation */
    return entry;
}

/* Reading has ended with `status`. Returns whether the record's value was taken. */
static bool settle_load(struct tier *tier, struct load *load, enum status status, const struct record *record)
{
    struct keyspace *keyspace = load->keyspace;
    struct entry *entry;

    if (status == STATUS_NOT_FOUND) {
        load->state = LOAD_ABSENT;
        statistics_count(&tier->statistics.false_maybes);
        return false;
    }
    if (status != STATUS_OK) {
        load->state = LOAD_FAILED;
        load->is_damaged = status == STATUS_CORRUPT;
        return false;
    }
    load->state = LOAD_DONE;
    keyspace_assert_locked(keyspace);
    entry = load_install(keyspace, load->node.hash, load->node.key, record);
    load->is_looked_at = !load->is_used && load->pins > 0;
    if (!load->is_looked_at)
        statistics_count(&tier->statistics.promotions);
    if (load->pins > 0)
        entry->flags |= ENTRY_PINNED;
    return true;
}

static bool take_packed(struct tier *tier, struct keyspace *keyspace, const struct reading *reading, struct record *record) REQUIRES(keyspace->partition->lock);
static bool take_packed(struct tier *tier, struct keyspace *keyspace, const struct reading *reading, struct record *record)
{
    struct value_limits limits;

    if (LIKELY(keyspace->tier->packed == NULL))
        return false;
    limits = tier_limits(tier);
    return packed_find(tier, keyspace, reading, &limits, record);
}

/* True: its record was in memory, and is installed. Otherwise it is being read. */
static bool load_begin(struct tier *tier, struct load *load, struct tier_reader *reader)
{
    struct record record;

    keyspace_assert_locked(load->keyspace);
    CHECK(reading_begin(tier, load->keyspace, load->node.hash, load->node.key, &load->reading));
    if (take_packed(tier, load->keyspace, &load->reading, &record)) {
        reading_end(&load->reading);
        return settle_load(tier, load, STATUS_OK, &record);
    }
    load->state = LOAD_READING;
    load->in_flight = true;
    load->posted_ticket = ++load->ticket;
    load->posted_us = clock_mono_us();
    reader_add(reader, &load->reading);
    atomic_fetch_add_explicit(&tier->loads_waiting, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&tier->loads_bytes, load_size(load->reading.place), memory_order_relaxed);
    return false;
}

static struct tier_wait *wait_of(struct load *load, const struct client *client)
{
    struct tier_wait *wait = load->waits;

    while (wait != NULL && wait->client != client)
        wait = wait->of_load;
    return wait;
}

static struct tier_wait *pin_for(struct load *load, struct client *client)
{
    struct tier_wait *wait = wait_of(load, client);

    if (wait == NULL) {
        wait = mem_alloc(sizeof(*wait));
        *wait = (struct tier_wait){ client->loads.waits, load->waits, load, client, false };
        client->loads.waits = wait;
        load->waits = wait;
        load->pins++;
    }
    return wait;
}

static void wait_for(struct tier_wait *wait)
{
    if (wait->waiting)
        return;
    wait->waiting = true;
    atomic_fetch_add(&wait->client->loads.pending, 1);
}

enum tier_load_result tier_load(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key, enum tier_purpose purpose,
    struct client *client, struct tier_reader *reader)
{
    struct tier_wait *wait;
    struct load *load;

    ASSERT_LOCKED(keyspace->partition);
    if (grave_find(keyspace, hash, key) != NULL)
        return TIER_ABSENT;
    load = load_find(keyspace, hash, key);
    if (load != NULL && load->state == LOAD_ABSENT)
        return TIER_ABSENT;
    if (load != NULL && load->state == LOAD_FAILED)
        return TIER_FAILED;
    if (!reading_is_possible(keyspace, hash, key))
        return TIER_ABSENT;
    if (load == NULL)
        load = load_create(keyspace, hash, key);
    load->is_used |= purpose == TIER_TO_USE;
    wait = pin_for(load, client);
    if (load->in_flight)
        load->state = LOAD_READING;     /* perhaps an older read of it is still under way: its end posts nothing, so wait for it */
    else if (load_begin(tier, load, reader))
        return TIER_PROMOTED;
    wait_for(wait);
    return TIER_WAIT;
}

void tier_load_ahead(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key, struct tier_reader *reader)
{
    struct load *load;

    ASSERT_LOCKED(keyspace->partition);
    if (keyspace_find(keyspace, hash, key) != 0 || grave_find(keyspace, hash, key) != NULL || load_find(keyspace, hash, key) != NULL ||
        !reading_is_possible(keyspace, hash, key))
        return;
    load = load_create(keyspace, hash, key);
    partition_assert_locked(load->partition);
    if (load_begin(tier, load, reader))
        free_if_unused(tier, load);
}

void tier_note_used(struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    struct load *load = load_find(keyspace, hash, key);

    ASSERT_LOCKED(keyspace->partition);
    if (load != NULL)
        load->is_used = true;
}

bool tier_may_be_cold(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    (void)tier;
    ASSERT_LOCKED(keyspace->partition);
    return keyspace->tier != NULL && grave_find(keyspace, hash, key) == NULL &&
           reading_is_possible(keyspace, hash, key);
}

uint64_t tier_load_size(struct tier *tier, const struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    uint64_t percent, place;

    if (keyspace->tier == NULL || !reading_find(keyspace, hash, key, &place))
        return 0;
    percent = tier->packing.recent_percent;
    return load_size(place) * (percent > 100 ? percent : 100) / 100;
}

uint64_t tier_loads_bytes(const struct tier *tier)
{
    return tier->loads_bytes;
}

uint64_t tier_loads_waiting(struct tier *tier)
{
    return tier->loads_waiting;
}

uint64_t tier_pin_count(const struct client *client)
{
    uint64_t count = 0;

    for (const struct tier_wait *wait = client->loads.waits; wait != NULL; wait = wait->of_client)
        count++;
    return count;
}

void tier_release(struct tier *tier, struct client *client)
{
    while (client->loads.waits != NULL) {
        struct tier_wait *wait = client->loads.waits, **link;
        struct load *load = wait->load;
        struct partition *partition = load->partition;

        client->loads.waits = wait->of_client;
        partition_lock(partition);
        for (link = &load->waits; *link != wait; link = &(*link)->of_load)
            ;
        *link = wait->of_load;
        if (wait->waiting)
            atomic_fetch_sub(&client->loads.pending, 1);
        load->pins--;
        partition_assert_locked(load->partition);
        free_if_unused(tier, load);
        partition_unlock(partition);
        mem_free(wait);
    }
}

/* Installs the record if the load's ticket is still the one it was posted with, wakes those that wait, and may free the load. */
static void finish_load(struct tier *tier, struct load *load, enum status status, struct record *record, const struct worker *self)
{
    struct partition *partition = load->partition;
    uint64_t size = load_size(load->reading.place);
    struct rings rings = { .self = self };
    bool is_taken = false;

    partition_lock(partition);
    if (load->waits != NULL)
        note_latency(tier, clock_mono_us() - load->posted_us);
    load->in_flight = false;
    if (load->state == LOAD_READING && load->keyspace != NULL) {
        if (load->ticket == load->posted_ticket)
            is_taken = settle_load(tier, load, status, record);
        else
            load->state = LOAD_DONE;    /* it was voided, and another client asked since: that client looks again */
        wake_waits(tier, load, &rings);
    }
    partition_assert_locked(load->partition);
    free_if_unused(tier, load);
    partition_unlock(partition);
    ring_all(tier, &rings);
    if (!is_taken && status == STATUS_OK)
        value_free(&record->value);
    tier->loads_waiting--;
    tier->loads_bytes -= size;
}

enum status load_decode(struct tier *tier, const struct reading *reading, const struct read_record *read, struct record *record)
{
    struct value_limits limits = tier_limits(tier);
    enum status status;

    read->scratch->size = 0;
    status = record_decode(read->bytes, store_dictionaries(tier->store), &limits, read->scratch, record);
    if (status == STATUS_OK && incarnation_is_of_pages(reading->incarnation) && !pages_is_page(&record->value)) {
        value_free(&record->value);
        status = STATUS_CORRUPT;
    }
    if (status != STATUS_OK)
        return reading_failed_decoding(tier, reading, read->bytes, status);
    statistics_add(&tier->statistics.record_bytes, read->bytes.size);
    statistics_count(&tier->statistics.record_count);
    return STATUS_OK;
}

static void load_done(void *context, struct reading *reading, struct read_record *read)
{
    struct load *load = (struct load *)((char *)reading - offsetof(struct load, reading));
    struct tier *tier = context;
    enum status status = read->status;
    struct record record;

    if (status == STATUS_OK)
        status = load_decode(tier, reading, read, &record);
    reading_end(reading);
    finish_load(tier, load, status, &record, read->worker);
}

struct tier_reader *tier_open_reader(struct tier *tier, struct worker *worker, bool without_ring)
{
    struct reader_options options = { load_done, tier, worker, READER_RECORD_MAX, READER_DEPTH, without_ring };

    return reader_open(tier, &options);
}

bool tier_is_damaged(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    const struct load *load = load_find(keyspace, hash, key);

    (void)tier;
    ASSERT_LOCKED(keyspace->partition);
    return load != NULL && load->state == LOAD_FAILED && load->is_damaged;
}

bool tier_discard_damaged(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    struct load *load = load_find(keyspace, hash, key);
    struct value empty;
    uint32_t handle;

    (void)tier;
    ASSERT_LOCKED(keyspace->partition);
    if (load != NULL && (load->state != LOAD_FAILED || !load->is_damaged))
        return false;
    empty = string_value(BYTES(""));
    handle = keyspace_insert(keyspace, hash, key, &empty, -1, RECORD_STALE, clock_wall_ms());
    CHECK(handle != 0);
    if (load == NULL)
        return true;
    if (load->pins > 0)
        keyspace_entry(keyspace, handle)->flags |= ENTRY_PINNED;
    load->state = LOAD_DONE;
    return true;
}

bool tier_discard_unread(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    struct value empty = string_value(BYTES(""));

    ASSERT_LOCKED(keyspace->partition);
    /* One in pages has to be known: they are dropped with it. */
    if (pages_may_be_in(keyspace) || load_find(keyspace, hash, key) != NULL || grave_find(keyspace, hash, key) != NULL ||
        !reading_is_possible(keyspace, hash, key))
        return false;
    count_note(tier, keyspace, hash, key);
    CHECK(keyspace_insert(keyspace, hash, key, &empty, -1, RECORD_UNKNOWN, clock_wall_ms()) != 0);
    return true;
}

/* The value borrows from the buffers. */
static enum status read_in_place(struct tier *tier, const struct reading *reading, struct read_buffers *buffers, struct record *record)
{
    struct read_record read;

    statistics_count(&tier->statistics.unplanned_reads);
    reading_now(tier, reading, buffers, &read);
    return read.status == STATUS_OK ? load_decode(tier, reading, &read, record) : read.status;
}

enum status tier_load_in_place(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    struct read_buffers buffers = { 0 };
    struct reading reading;
    struct record record;
    struct load *load;
    enum status status;

    ASSERT_LOCKED(keyspace->partition);
    if (keyspace_find(keyspace, hash, key) != 0 || grave_find(keyspace, hash, key) != NULL || !reading_begin(tier, keyspace, hash, key, &reading))
        return STATUS_OK;
    status = take_packed(tier, keyspace, &reading, &record) ? STATUS_OK : read_in_place(tier, &reading, &buffers, &record);
    reading_end(&reading);
    if (status == STATUS_OK) {
        load_install(keyspace, hash, key, &record);
        statistics_count(&tier->statistics.promotions);
        load = load_find(keyspace, hash, key);
        if (load != NULL && load->state == LOAD_READING) {
            partition_assert_locked(load->partition);
            load_void(tier, load);
        }
    }
    read_buffers_release(&buffers);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}
