/* Loads: how cold keys come back. A key that is wanted gets a placeholder with a ticket (tier rule 4); a loader reads its record
 * without any lock, decodes it, and installs it under the partition's lock, if the ticket still holds. */
#include "base/check.h"
#include "base/clock.h"
#include "base/histogram.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "keyspace/heat.h"
#include "tier/record.h"
#include "tier/tier_private.h"

enum {
    LOADER_CHUNK_MAX = 16,
    RINGS_MAX = 16,
    BUFFER_KEPT_MAX = 64 * 1024,
    RECORD_COPIES = 3,              /* of a record while it is read: block, string, buffer or value */
    LOADS_SHARE = 16,               /* of maxmemory, for all loads under way */
};

struct value_limits tier_limits(const struct tier *tier)
{
    const struct tier_settings *settings = &tier->settings;

    return (struct value_limits){
        .seed = tier->partitions->seed,
        .hash_listpack_entries_max = (size_t)settings->hash_listpack_entries_max,
        .hash_listpack_value_max = (size_t)settings->hash_listpack_value_max,
        .set_intset_entries_max = (size_t)settings->set_intset_entries_max,
        .set_listpack_entries_max = (size_t)settings->set_listpack_entries_max,
        .set_listpack_value_max = (size_t)settings->set_listpack_value_max,
        .zset_listpack_entries_max = (size_t)settings->zset_listpack_entries_max,
        .zset_listpack_value_max = (size_t)settings->zset_listpack_value_max,
        .list_fill = (int)settings->list_fill,
        .list_depth = (int)settings->list_depth,
    };
}

static void note_latency(struct tier *tier, int64_t us)
{
    histogram_count(tier->latency, LOAD_LATENCY_BUCKETS, LOAD_LATENCY_STEP_BITS, us < 1 ? 1 : (uint64_t)us);
}

/* Workers that have to be rung when the lock is given back. */
struct rings {
    struct worker *workers[RINGS_MAX];
    int count;
};

static void ring_later(struct tier *tier, struct rings *rings, struct worker *worker)
{
    if (worker == NULL)
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

/* Only the ringing waits: a client must be in its worker's list before the lock is given back, else it could go away meanwhile. `rings`
 * NULL: the caller does not know when that will be, so it is done here. */
static void wake_waits(struct tier *tier, struct load *load, struct rings *rings)
{
    for (struct tier_wait *wait = load->waits; wait != NULL; wait = wait->of_load) {
        if (!wait->waiting)
            continue;
        wait->waiting = false;
        if (atomic_fetch_sub(&wait->client->pending, 1) == 1)
            ring_later(tier, rings, tier->hooks.wake(tier->hooks.context, wait->client));
    }
}

void load_void(struct tier *tier, struct load *load)
{
    load->state = LOAD_DONE;
    load->ticket++;
    wake_waits(tier, load, NULL);
}

void load_free_if_unused(struct tier *tier, struct load *load)
{
    (void)tier;
    if (load->pins > 0 || load->in_flight > 0)
        return;
    if (load->keyspace != NULL) {
        uint32_t handle = keyspace_find(load->keyspace, load->node.hash, load->node.key);

        if (handle != 0)
            keyspace_entry(load->keyspace, handle)->flags &= (uint8_t)~ENTRY_PINNED;
        keyed_remove(&load->keyspace->tier->loads, &load->node);
    }
    mem_free(load);
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

static void load_post(struct tier *tier, struct load *load, struct load_batch *batch)
{
    load->state = LOAD_READING;
    load->ticket++;
    load->in_flight++;
    load->batch_next = NULL;
    load->batch_ticket = load->ticket;
    load->posted_us = clock_mono_us();
    if (batch->last != NULL)
        batch->last->batch_next = load;
    else
        batch->first = load;
    batch->last = load;
    atomic_fetch_add_explicit(&tier->loads_waiting, 1, memory_order_relaxed);
}

static struct tier_wait *wait_of(struct load *load, const struct client *client)
{
    struct tier_wait *wait = load->waits;

    while (wait != NULL && wait->client != client)
        wait = wait->of_load;
    return wait;
}

static void wait_for(struct load *load, struct client *client)
{
    struct tier_wait *wait = wait_of(load, client);

    if (wait == NULL) {
        wait = mem_alloc(sizeof(*wait));
        *wait = (struct tier_wait){ client->waits, load->waits, load, client, false };
        client->waits = wait;
        load->waits = wait;
        load->pins++;
    }
    if (!wait->waiting) {
        wait->waiting = true;
        atomic_fetch_add(&client->pending, 1);
    }
}

enum tier_answer tier_want(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key, struct client *client,
    struct load_batch *batch)
{
    struct tier_keyspace *in = keyspace->tier;
    struct load *load;

    ASSERT_LOCKED(keyspace->partition);
    if (keyed_find(&in->graves, hash, key) != NULL)
        return TIER_ABSENT;
    load = (struct load *)keyed_find(&in->loads, hash, key);
    if (load != NULL && load->state == LOAD_ABSENT)
        return TIER_ABSENT;
    if (load != NULL && load->state == LOAD_FAILED)
        return TIER_FAILED;
    if (!recordmap_maybe(in->map, hash))
        return TIER_ABSENT;
    if (load == NULL)
        load = load_create(keyspace, hash, key);
    if (load->state != LOAD_READING || load->in_flight == 0) {
        if (load->in_flight > 0) {      /* an older read of it is still on its way: its end posts nothing, so wait it out */
            load->state = LOAD_READING;
            wait_for(load, client);
            return TIER_WAIT;
        }
        load_post(tier, load, batch);
    }
    wait_for(load, client);
    return TIER_WAIT;
}

bool tier_may_be_cold(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    (void)tier;
    ASSERT_LOCKED(keyspace->partition);
    return keyspace->tier != NULL && keyed_find(&keyspace->tier->graves, hash, key) == NULL &&
           recordmap_maybe(keyspace->tier->map, hash);
}

void tier_preload(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key, struct load_batch *batch)
{
    struct tier_keyspace *in = keyspace->tier;

    ASSERT_LOCKED(keyspace->partition);
    if (!recordmap_maybe(in->map, hash) || keyed_find(&in->graves, hash, key) != NULL || keyed_find(&in->loads, hash, key) != NULL)
        return;
    load_post(tier, load_create(keyspace, hash, key), batch);
}

bool tier_is_loading(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    struct load *load = (struct load *)keyed_find(&keyspace->tier->loads, hash, key);

    (void)tier;
    ASSERT_LOCKED(keyspace->partition);
    return load != NULL && load->state == LOAD_READING;
}

uint64_t tier_loads_waiting(struct tier *tier)
{
    return tier->loads_waiting;
}

uint64_t tier_loads_ended(struct tier *tier)
{
    return tier->loads_ended;
}

void tier_submit(struct tier *tier, struct load_batch *batch)
{
    uint64_t count = 0;
    int idle;

    if (batch->first == NULL)
        return;
    for (struct load *load = batch->first; load != NULL; load = load->batch_next)
        count++;
    mutex_lock(&tier->queue_lock);
    if (tier->queue_last != NULL)
        tier->queue_last->batch_next = batch->first;
    else
        tier->queue_first = batch->first;
    tier->queue_last = batch->last;
    tier->queue_size += count;
    idle = tier->loaders_idle;
    mutex_unlock(&tier->queue_lock);
    /* As many loaders as there are loads: one read takes longer than waking another loader. */
    if (count < (uint64_t)idle) {
        for (uint64_t i = 0; i < count; i++)
            condition_signal(&tier->queue_filled);
    } else if (idle > 0) {
        condition_broadcast(&tier->queue_filled);
    }
    batch->first = batch->last = NULL;
}

void tier_release(struct tier *tier, struct client *client)
{
    while (client->waits != NULL) {
        struct tier_wait *wait = client->waits, **at;
        struct load *load = wait->load;
        struct partition *partition = load->partition;

        client->waits = wait->of_client;
        partition_lock(partition);
        for (at = &load->waits; *at != wait; at = &(*at)->of_load)
            ;
        *at = wait->of_load;
        if (wait->waiting)
            atomic_fetch_sub(&client->pending, 1);
        load->pins--;
        load_free_if_unused(tier, load);
        partition_unlock(partition);
        mem_free(wait);
    }
}

uint32_t load_install(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key, const struct buffer *bytes,
    struct buffer *scratch)
{
    struct value_limits limits = tier_limits(tier);
    struct record record;
    struct entry *entry;
    uint32_t handle;

    scratch->size = 0;
    if (record_decode(buffer_bytes(bytes), &limits, scratch, &record) != STATUS_OK)
        return 0;
    handle = keyspace_insert(keyspace, hash, key, &record.value, record.expire_ms, RECORD_CLEAN, clock_wall_ms());
    CHECK(handle != 0);
    entry = keyspace_entry(keyspace, handle);
    entry->heat = record.heat;
    entry->heat_minutes = record.heat_minutes;
    keyspace_set_probation(keyspace, entry, true);
    atomic_fetch_add_explicit(&tier->promotions, 1, memory_order_relaxed);
    return handle;
}

/* What a loader knows of a load between taking and installing it. */
struct loading {
    struct load *load;
    uint32_t ticket;
    enum status status;
    struct buffer bytes;
    struct buffer scratch;
    struct record record;
};

static void read_record(struct tier *tier, struct loading *loading)
{
    struct value_limits limits = tier_limits(tier);
    struct load *load = loading->load;

    loading->bytes.size = 0;
    loading->scratch.size = 0;
    loading->status = store_get(tier->store, load->incarnation, load->node.hash, load->node.key, &loading->bytes);
    if (loading->status == STATUS_OK)
        loading->status = record_decode(buffer_bytes(&loading->bytes), &limits, &loading->scratch, &loading->record);
    if (loading->status != STATUS_OK && loading->status != STATUS_NOT_FOUND)
        tier_note_error(tier, "a record can't be read", loading->status);
}

static void install(struct tier *tier, struct loading *loading)
{
    struct load *load = loading->load;
    struct keyspace *keyspace = load->keyspace;
    struct entry *entry;
    uint32_t handle;

    load->state = LOAD_DONE;
    if (loading->status == STATUS_NOT_FOUND) {
        load->state = LOAD_ABSENT;
        atomic_fetch_add_explicit(&tier->false_maybes, 1, memory_order_relaxed);
        return;
    }
    if (loading->status != STATUS_OK) {
        load->state = LOAD_FAILED;
        return;
    }
    handle = keyspace_insert(keyspace, load->node.hash, load->node.key, &loading->record.value, loading->record.expire_ms,
        RECORD_CLEAN, clock_wall_ms());
    CHECK(handle != 0);
    entry = keyspace_entry(keyspace, handle);
    entry->heat = loading->record.heat;
    entry->heat_minutes = loading->record.heat_minutes;
    if (load->pins > 0)
        entry->flags |= ENTRY_PINNED;
    keyspace_set_probation(keyspace, entry, true);
    atomic_fetch_add_explicit(&tier->promotions, 1, memory_order_relaxed);
}

static void finish(struct tier *tier, struct loading *loading)
{
    struct load *load = loading->load;
    struct partition *partition = load->partition;
    struct rings rings = { .count = 0 };
    bool used = false;

    partition_lock(partition);
    if (load->waits != NULL)
        note_latency(tier, clock_mono_us() - load->posted_us);
    load->in_flight--;
    if (load->state == LOAD_READING && load->keyspace != NULL) {
        if (loading->ticket == load->ticket) {
            install(tier, loading);
            used = true;
        } else {
            load->state = LOAD_DONE;    /* the ticket was voided, and somebody asked again: let him look again */
        }
        wake_waits(tier, load, &rings);
    }
    load_free_if_unused(tier, load);
    partition_unlock(partition);
    ring_all(tier, &rings);
    if (!used && loading->status == STATUS_OK)
        value_free(&loading->record.value);
    if (loading->status == STATUS_OK) {
        atomic_fetch_add_explicit(&tier->record_bytes, loading->bytes.size, memory_order_relaxed);
        atomic_fetch_add_explicit(&tier->record_count, 1, memory_order_relaxed);
    }
    tier->loads_ended++;
    tier->loads_waiting--;
    if (tier->helpers > 0) {
        mutex_lock(&tier->queue_lock);
        condition_broadcast(&tier->load_ended);
        mutex_unlock(&tier->queue_lock);
    }
}

static void take_one(struct tier *tier, struct loading *loading)
{
    struct load *load = tier->queue_first;

    tier->queue_first = load->batch_next;
    if (tier->queue_first == NULL)
        tier->queue_last = NULL;
    tier->queue_size--;
    loading->load = load;
    loading->ticket = load->batch_ticket;
}

/* A fair share of what waits, so that all loaders read in parallel, those too that are about to end what they have. */
static int take_chunk(struct tier *tier, struct loading chunk[LOADER_CHUNK_MAX])
{
    uint64_t loaders = (uint64_t)tier->loaders_wanted, share = (tier->queue_size + loaders - 1) / loaders;
    int count = 0;

    while (tier->queue_first != NULL && count < LOADER_CHUNK_MAX && (uint64_t)count < share) {
        take_one(tier, &chunk[count]);
        count++;
    }
    return count;
}

bool tier_help(struct tier *tier, uint64_t ended)
{
    struct loading one = { 0 };
    bool busy;

    mutex_lock(&tier->queue_lock);
    if (tier->queue_first != NULL) {
        take_one(tier, &one);
    } else {
        tier->helpers++;        /* before the look at loads_ended, which is counted before helpers is looked at */
        while (tier->loads_ended == ended && tier->loads_waiting > 0)
            condition_wait(&tier->load_ended, &tier->queue_lock);
        tier->helpers--;
    }
    busy = one.load != NULL || tier->loads_ended != ended;
    mutex_unlock(&tier->queue_lock);
    if (one.load != NULL) {
        read_record(tier, &one);
        finish(tier, &one);
        buffer_release(&one.bytes);
        buffer_release(&one.scratch);
    }
    return busy;
}

struct loader {
    struct tier *tier;
    int number;
};

/* How many loaders may read at a time: as many as there are, but for large records, of which LevelDB and the loader have several copies
 * each. They are known by their mean size only. */
static int loads_at_once(const struct tier *tier)
{
    uint64_t count = tier->record_count, size = count > 0 ? tier->record_bytes / count * RECORD_COPIES : 0;
    uint64_t share = (uint64_t)tier->settings.memory_max / LOADS_SHARE;

    if (tier->settings.memory_max <= 0 || size * LOADERS_MAX <= share)
        return LOADERS_MAX;
    return size >= share ? 1 : (int)(share / size);
}

static void *loader_main(void *context)
{
    struct loader *self = context;
    struct tier *tier = self->tier;
    int number = self->number;
    struct loading *chunk = mem_zalloc(LOADER_CHUNK_MAX * sizeof(*chunk));

    mem_free(self);
    tier->hooks.thread_started(tier->hooks.context, "kelvin-load");
    mutex_lock(&tier->queue_lock);
    for (;;) {
        int count;

        while ((tier->queue_first == NULL || tier->loading >= loads_at_once(tier)) && !tier->stopping && number < tier->loaders_wanted) {
            tier->loaders_idle++;
            condition_wait(&tier->queue_filled, &tier->queue_lock);
            tier->loaders_idle--;
        }
        if (tier->queue_first == NULL || number >= tier->loaders_wanted)
            break;              /* the first loader always stays until the queue is empty */
        count = take_chunk(tier, chunk);
        tier->loading++;
        mutex_unlock(&tier->queue_lock);
        for (int i = 0; i < count; i++) {
            read_record(tier, &chunk[i]);
            finish(tier, &chunk[i]);
            chunk[i].bytes.size = chunk[i].scratch.size = 0;
            buffer_shrink(&chunk[i].bytes, BUFFER_KEPT_MAX);
            buffer_shrink(&chunk[i].scratch, BUFFER_KEPT_MAX);
        }
        mutex_lock(&tier->queue_lock);
        tier->loading--;
        if (tier->queue_first != NULL && tier->loaders_idle > 0)
            condition_signal(&tier->queue_filled);
    }
    mutex_unlock(&tier->queue_lock);
    for (int i = 0; i < LOADER_CHUNK_MAX; i++) {
        buffer_release(&chunk[i].bytes);
        buffer_release(&chunk[i].scratch);
    }
    mem_free(chunk);
    if (tier->hooks.thread_ended != NULL)
        tier->hooks.thread_ended(tier->hooks.context);
    return NULL;
}

void loaders_adjust(struct tier *tier)
{
    int wanted = (int)tier->settings.load_threads;

    if (wanted < 1)
        wanted = 1;
    if (wanted > LOADERS_MAX)
        wanted = LOADERS_MAX;
    if (wanted < tier->loader_count) {
        mutex_lock(&tier->queue_lock);
        tier->loaders_wanted = wanted;
        condition_broadcast(&tier->queue_filled);
        mutex_unlock(&tier->queue_lock);
        while (tier->loader_count > wanted)
            pthread_join(tier->loaders[--tier->loader_count], NULL);
    }
    tier->loaders_wanted = wanted;
    while (tier->loader_count < wanted) {
        struct loader *loader = mem_alloc(sizeof(*loader));

        *loader = (struct loader){ tier, tier->loader_count };
        if (pthread_create(&tier->loaders[tier->loader_count], NULL, loader_main, loader) != 0) {
            CHECK(tier->loader_count > 0);
            mem_free(loader);
            break;                  /* the system gives no more threads: the writer tries again in its next round */
        }
        tier->loader_count++;
    }
}

enum status tier_load_in_place(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    struct tier_keyspace *in = keyspace->tier;
    struct buffer bytes = { 0 }, scratch = { 0 };
    struct load *load;
    enum status status;

    ASSERT_LOCKED(keyspace->partition);
    if (keyed_find(&in->graves, hash, key) != NULL || !recordmap_maybe(in->map, hash))
        return STATUS_OK;
    status = store_get(tier->store, keyspace->incarnation, hash, key, &bytes);
    atomic_fetch_add_explicit(&tier->unplanned_reads, 1, memory_order_relaxed);
    if (status == STATUS_OK && load_install(tier, keyspace, hash, key, &bytes, &scratch) == 0)
        status = STATUS_CORRUPT;
    load = (struct load *)keyed_find(&in->loads, hash, key);
    if (status == STATUS_OK && load != NULL && load->state == LOAD_READING)
        load_void(tier, load);
    if (status == STATUS_NOT_FOUND)
        status = STATUS_OK;
    if (status != STATUS_OK)
        tier_note_error(tier, "a record can't be read", status);
    buffer_release(&bytes);
    buffer_release(&scratch);
    return status;
}
