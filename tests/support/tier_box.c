#include "support/tier_box.h"

#include <limits.h>
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/random.h"
#include "engine/lazy_free.h"
#include "engine/memory.h"
#include "server/families.h"
#include "stats/error_stats.h"
#include "stats/latency.h"
#include "stats/slowlog.h"
#include "stats/waits.h"
#include "support/seed.h"
#include "tier/collect.h"
#include "tier/grave.h"
#include "tier/purge.h"
#include "tier/reading.h"
#include "tier/record.h"

enum { TICK_NS = 5000000, WAIT_S_MAX = 120, SETTLE_MS_MAX = 120000 };

static uint64_t hook_memory_used(void *context)
{
    struct tier_box *box = context;

    return box->memory_is_real ? memory_used(&box->engine) : segment_pool_used(box->partitions->pool);
}

static struct worker *hook_wake(void *context, struct client *client)
{
    (void)context;
    return client_enqueue(client);
}

static void hook_ring(void *context, struct worker *worker)
{
    (void)context;
    mailbox_ring(&worker->mailbox);
}

static void hook_memory_freed(void *context)
{
    struct tier_box *box = context;

    for (int i = 0; i < box->engine.worker_count; i++)
        mailbox_notify(&box->workers[i].worker.mailbox, PARKED_FOR_ANY);
    if (box->memory_freed != NULL)
        box->memory_freed(box->memory_freed_context);
}

static void hook_expired(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key, enum event event)
{
    struct tier_box *box = context;

    ASSERT_LOCKED(keyspace->partition);
    (void)key;
    box->expired_count++;
}

static void hook_free_keyspace(void *context, struct keyspace *keyspace)
{
    struct tier_box *box = context;

    lazy_free_keyspace(box->engine.lazy_free, keyspace);
}

/* All but small hashes are in their large encodings. */
static void hook_limits(void *context, struct value_limits *limits)
{
    (void)context;
    limits->hash_listpack_entries_max = 128;
    limits->hash_listpack_value_max = 64;
}

static void hook_log(void *context, const char *text)
{
    struct tier_box *box = context;

    (void)text;
    box->told_count++;
}

static void hook_event(void *context, const struct key *key, enum event event)
{
    (void)context, (void)key, (void)event;
}

static void hook_free_later(void *context, struct value value)
{
    struct tier_box *box = context;

    lazy_free_value(box->engine.lazy_free, value);
}

static bool hook_load_in_place(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    struct tier_box *box = context;

    return tier_load_in_place(box->tier, keyspace, hash, key) == STATUS_OK;
}

static void hook_unlatch(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    struct tier_box *box = context;

    tier_unlatch(box->tier, keyspace, hash, key);
}

static void hook_used(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    (void)context;
    tier_note_used(keyspace, hash, key);
}

static void ring(void *context)
{
    struct box_worker *worker = context;

    pthread_mutex_lock(&worker->lock);
    worker->ringing = true;
    pthread_cond_signal(&worker->rung);
    pthread_mutex_unlock(&worker->lock);
}

static void run_request(struct box_client *client)
{
    client->busy = engine_run(client->client.worker, &client->client, client->words, client->word_count) == RUN_PARKED;
    BOX_DEMAND(client->box, client->busy == client->client.parked, "parked or not?");
    if (!client->busy && client->answered != NULL)
        client->answered(client);
}

static void resume(struct client *client)
{
    if (client->parked)
        run_request((struct box_client *)client);
}

static void discard(struct client *base)
{
    struct box_client *client = (struct box_client *)base;

    reply_release(&base->reply);
    buffer_release(&client->text);
    buffer_release(&client->line);
    mem_free(client);
}

static void open_store(struct tier_box *box, const struct tier_box_options *options)
{
    const char *temporary = getenv("TMPDIR");
    struct message message = { "" };
    struct tier_options tier = {
        .dir = box->dir,
        .write_buffer_size = options->write_buffer_size > 0 ? options->write_buffer_size : 64 * 1024,
        .loader_count = 2,
        .by_slot = options->by_slot,
        .hooks = { .context = box, .memory_used = hook_memory_used, .wake = hook_wake, .memory_freed = hook_memory_freed, .expired = hook_expired,
            .log = hook_log, .free_keyspace = hook_free_keyspace, .ring = hook_ring, .limits = hook_limits },
    };

    snprintf(box->root, sizeof(box->root), "%s/tier-XXXXXX", temporary != NULL ? temporary : "/tmp");
    CHECK(mkdtemp(box->root) != NULL);
    snprintf(box->dir, sizeof(box->dir), "%s/store", box->root);
    box->disk = faulty_disk_create();
    box->env = tier.env = store_env_create(faulty_disk_table(box->disk));
    box->tier = tier_open(&tier, &message);
    BOX_DEMAND(box, box->tier != NULL, "%s", message.text);
    if (box->seed % 2 == 0)
        box->tier->map_file_min = 1;        /* even small maps have files of their own */
}

static void start_workers(struct tier_box *box, int count)
{
    struct engine *engine = &box->engine;

    engine->worker_count = count;
    engine->workers = mem_zalloc((size_t)count * sizeof(*engine->workers));
    for (int i = 0; i < count; i++) {
        struct box_worker *worker = &box->workers[i];

        worker_init(&worker->worker, engine, i);
        pthread_mutex_init(&worker->lock, NULL);
        pthread_cond_init(&worker->rung, NULL);
        worker->box = box;
        worker->worker.mailbox.ring = ring;
        worker->worker.mailbox.ring_context = worker;
        worker->worker.host.resume = resume;
        worker->worker.host.discard = discard;
        random_init(&worker->worker.turn.random, box->seed + (uint64_t)i);
        engine->workers[i] = &worker->worker;
    }
}

void tier_box_create(struct tier_box *box, const struct tier_box_options *options)
{
    struct engine *engine = &box->engine;
    struct tier_settings *settings;

    memset(box, 0, sizeof(*box));
    box->seed = options->seed;
    open_store(box, options);
    engine->config = config_create();
    engine->meter = meter_create();
    engine->tier = box->tier;
    engine->partitions = box->partitions = partitions_create(options->partition_count > 0 ? (uint32_t)options->partition_count : 4,
        options->db_count > 0 ? options->db_count : 2, tier_seed(box->tier));
    engine->commands = command_table_create(families_of_commands());
    engine->lazy_free = lazy_free_create();
    CHECK(lazy_free_start(engine->lazy_free, engine->meter, &engine->waiting) == 0);
    engine->jobs = job_pool_create(engine, 2);
    CHECK(job_pool_start(engine->jobs) == 0);
    engine->stats.slowlog = slowlog_create();
    engine->stats.latency = latency_create();
    engine->stats.errors = error_stats_create();
    engine->stats.waits = waits_create();
    engine->hooks = (struct key_hooks){ box, hook_event, hook_free_later, hook_load_in_place, hook_unlatch, hook_used };
    engine->debug.active_expire = true;
    engine->state = ENGINE_READY;
    start_workers(box, options->worker_count > 0 ? options->worker_count : 1);
    settings = tier_settings(box->tier);
    settings->high_percent = 90;
    settings->low_percent = 80;
    settings->batch_size = 256 * 1024;
    settings->lfu_log_factor = 10;
    settings->lfu_decay_minutes = 0;     /* a heat is what a test set it to, whenever the minute turns */
    CHECK(tier_start(box->tier, box->partitions) == 0);
    for (int i = 0; i < engine->worker_count; i++)
        CHECK((worker_open_reader(&box->workers[i].worker, !options->reads_by_ring) >= 0) == options->reads_by_ring);
}

static int remove_entry(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
    (void)stat, (void)type, (void)ftw;
    return remove(path);
}

void tier_box_destroy(struct tier_box *box)
{
    struct engine *engine = &box->engine;

    for (int i = 0; i < engine->worker_count; i++) {
        tier_box_turn(&box->workers[i], BOX_NO_WAIT);      /* what was dead but still queued */
        BOX_DEMAND(box, box->workers[i].worker.clients == NULL, "a client is left");
    }
    BOX_DEMAND(box, engine->clients.parked == 0, "%lld clients count as blocked", (long long)engine->clients.parked);
    for (int i = 0; i < engine->worker_count; i++)
        worker_close_reader(&box->workers[i].worker);
    job_pool_destroy(engine->jobs);
    tier_stop(box->tier);
    for (int i = 0; i < engine->worker_count; i++) {
        worker_release(&box->workers[i].worker);
        pthread_mutex_destroy(&box->workers[i].lock);
        pthread_cond_destroy(&box->workers[i].rung);
    }
    lazy_free_destroy(engine->lazy_free);
    tier_close(box->tier);
    partitions_destroy(box->partitions);
    store_env_destroy(box->env);
    faulty_disk_destroy(box->disk);
    command_table_destroy(engine->commands);
    slowlog_destroy(engine->stats.slowlog);
    latency_destroy(engine->stats.latency);
    error_stats_destroy(engine->stats.errors);
    waits_destroy(engine->stats.waits);
    meter_release(engine->meter);
    config_destroy(engine->config);
    mem_free(engine->workers);
    CHECK(nftw(box->root, remove_entry, 8, FTW_DEPTH | FTW_PHYS) == 0);
}

struct box_client *tier_box_open_client(struct tier_box *box, int worker)
{
    struct box_client *client = mem_zalloc(sizeof(*client));

    client->box = box;
    client->client.id = ++box->engine.clients.last_id;
    client->client.authenticated = true;
    client->client.address = "";
    client->client.fd = -1;
    reply_init(&client->client.reply, 2);
    worker_add_client(&box->workers[worker].worker, &client->client);
    return client;
}

void tier_box_close_client(struct box_client *client)
{
    if (worker_remove_client(client->client.worker, &client->client))
        discard(&client->client);
}

bool tier_box_ask(struct box_client *client, const struct bytes *words, int count)
{
    size_t at = 0;

    CHECK(!client->busy && count <= TIER_BOX_WORDS);
    client->client.reply.out.size = client->text.size = 0;
    for (int i = 0; i < count; i++)
        buffer_append_bytes(&client->text, words[i]);
    for (int i = 0; i < count; at += words[i++].size)
        client->words[i] = bytes_of(client->text.data + at, words[i].size);
    client->word_count = count;
    run_request(client);
    return !client->busy;
}

void tier_box_turn(struct box_worker *worker, enum box_wait wait)
{
    struct timespec until;
    int error = 0;

    worker_end_turn(&worker->worker);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += wait == BOX_WAIT ? WAIT_S_MAX : 0;
    until.tv_nsec += TICK_NS;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&worker->lock);
    while (wait != BOX_NO_WAIT && !worker->ringing && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&worker->rung, &worker->lock, &until);
    worker->ringing = false;
    pthread_mutex_unlock(&worker->lock);
    BOX_DEMAND(worker->box, error != ETIMEDOUT || wait == BOX_TICK, "the worker is not rung: a wake-up was lost");
    worker_begin_turn(&worker->worker);
    worker_read_mail(&worker->worker);
}

bool tier_box_begin(struct box_client *client, const char *line)
{
    struct bytes words[TIER_BOX_WORDS];
    int count = 0;

    for (const char *at = line; at != NULL; count++) {
        const char *end = strchr(at, ' ');

        CHECK(count < TIER_BOX_WORDS);
        words[count] = end == NULL ? bytes_of_string(at) : bytes_of(at, (size_t)(end - at));
        at = end == NULL ? NULL : end + 1;
    }
    return tier_box_ask(client, words, count);
}

const char *tier_box_reply(struct box_client *client)
{
    const struct buffer *out = &client->client.reply.out;

    CHECK(!client->busy);
    client->line.size = 0;
    for (size_t i = 0; i < out->size; i++) {
        if (out->data[i] != '\r')
            buffer_append_u8(&client->line, (uint8_t)out->data[i]);
    }
    buffer_append_u8(&client->line, 0);
    return client->line.data;
}

const char *tier_box_await(struct box_client *client)
{
    while (client->busy)
        tier_box_turn((struct box_worker *)client->client.worker, BOX_WAIT);
    return tier_box_reply(client);
}

const char *tier_box_say(struct box_client *client, const char *line)
{
    tier_box_turn((struct box_worker *)client->client.worker, BOX_NO_WAIT);
    tier_box_begin(client, line);
    return tier_box_await(client);
}

void tier_box_hold_writer(struct tier_box *box)
{
    mutex_lock(&box->tier->counting.lock);
    box->writer_held = true;
}

void tier_box_release_writer(struct tier_box *box)
{
    box->writer_held = false;
    mutex_unlock(&box->tier->counting.lock);
}

static bool is_settled(struct tier_box *box)
{
    struct tier_stats stats;
    size_t purges, requests;

    mutex_lock(&box->tier->requests.lock);
    requests = box->tier->requests.demotions != NULL;
    mutex_unlock(&box->tier->requests.lock);
    purges = purge_count(box->tier->purge);
    tier_stats(box->tier, &stats);
    return purges + requests + stats.unknown_keys + stats.graves + stats.loads_waiting + box->tier->drop_lists + box->tier->holds_big == 0 && stats.state == TIER_OK;
}

void tier_box_settle(struct tier_box *box)
{
    int64_t began_us = clock_mono_us();
    bool settled = false;

    while (!settled) {
        struct timespec moment = { 0, 200000 };

        BOX_DEMAND(box, clock_mono_us() - began_us < SETTLE_MS_MAX * 1000ll, "the writer does not finish: %s", box->tier->statistics.last_error);
        tier_nudge(box->tier);
        tier_box_hold_writer(box);
        settled = is_settled(box);
        tier_box_release_writer(box);
        nanosleep(&moment, NULL);
    }
}

/* A clean entry's record says what the entry says. */
static void verify_clean(struct tier_box *box, const struct keyspace *keyspace, const struct entry *entry, const struct store_record *at)
{
    struct value_limits limits = tier_limits(box->tier);
    struct read_buffers buffers = { 0 };
    struct read_record read;
    struct reading reading;
    struct record record;
    struct value value = entry_value(entry);
    uint8_t wanted[20], found[20];

    partition_assert_locked(keyspace->partition);
    BOX_DEMAND(box, reading_begin(box->tier, keyspace, at->hash, at->key, &reading), "a record without a place");
    reading_now(box->tier, &reading, &buffers, &read);
    BOX_DEMAND(box, read.status == STATUS_OK, "a record that can't be read");
    reading_end(&reading);
    BOX_DEMAND(box, record_decode(read.bytes, store_dictionaries(box->tier->store), &limits, read.scratch, &record) == STATUS_OK,
        "a record that can't be decoded");
    value_digest(&value, wanted);
    value_digest(&record.value, found);
    BOX_DEMAND(box, memcmp(wanted, found, 20) == 0 && record.expire_ms == entry_expire_ms(entry), "a clean entry differs from its record");
    value_free(&record.value);
    read_buffers_release(&buffers);
}

struct tally {
    uint64_t records, shadowed, with_record;
    uint64_t flagged[4], pinned, writing;
};

static void tally_entries(const struct keyspace *keyspace, struct tally *tally)
{
    const struct heap *heap = &keyspace->heap;

    for (uint32_t segment = 0; segment < heap->segment_count; segment++) {
        uint32_t unit = 1;
        struct entry *entry;

        if (heap->segments[segment] == NULL)
            continue;
        while ((entry = heap_walk(heap, segment, &unit)) != NULL) {
            unit += entry_block_size(entry) / ENTRY_UNIT;
            tally->flagged[entry_record(entry)]++;
            tally->pinned += !!(entry->flags & ENTRY_PINNED);
            tally->writing += !!(entry->flags & ENTRY_WRITING);
        }
    }
}

struct wanted_expiry {
    uint32_t incarnation;
    struct bytes key;
    bool found;
};

static void find_expiry(void *context, int64_t expire_ms, uint32_t incarnation, uint64_t hash, struct bytes key)
{
    struct wanted_expiry *wanted = context;

    (void)expire_ms;
    (void)hash;
    wanted->found = wanted->found || (incarnation == wanted->incarnation && bytes_equal(key, wanted->key));
}

/* A record that expires, and is the newest of its key, has an expiry key with its time. */
static void verify_expiry(struct tier_box *box, const struct keyspace *keyspace, const struct store_record *at)
{
    struct wanted_expiry wanted = { keyspace->incarnation, at->key, false };
    struct buffer from = { 0 };
    struct read_buffers buffers = { 0 };
    struct read_record read;
    struct reading reading;
    enum value_type type;
    int64_t gone_ms = -1;

    partition_assert_locked(keyspace->partition);
    if (!reading_begin(box->tier, keyspace, at->hash, at->key, &reading))
        return;
    reading_now(box->tier, &reading, &buffers, &read);
    if (read.status == STATUS_OK)
        (void)record_peek(read.bytes, &gone_ms, &type);
    reading_end(&reading);
    if (gone_ms >= 0) {
        store_expiry_seek(&from, gone_ms);
        BOX_DEMAND(box, store_expired(box->tier->store, &from, gone_ms, INT_MAX, find_expiry, &wanted) == STATUS_OK, "no expiry keys");
        BOX_DEMAND(box, wanted.found, "a record that expires has no expiry key");
    }
    buffer_release(&from);
    read_buffers_release(&buffers);
}

/* The slot that the hash is in, of a recount. */
static struct slot_counts *recounted(struct slot_counts *slots, const struct keyspace *keyspace, uint64_t hash)
{
    return &slots[keyspace_slot(keyspace, hash) - keyspace->slots];
}

static void recount_entry(const struct keyspace *keyspace, const struct entry *entry, struct slot_counts *slots)
{
    struct slot_counts *counts = recounted(slots, keyspace, keyspace_hash(keyspace, entry_key(entry)));

    counts->entries++;
    counts->unknown += entry_record(entry) == RECORD_UNKNOWN;
    counts->shadowed += entry_record(entry) >= RECORD_STALE;
}

/* Compares the counts by slot with those of all that is there. `slots` has the records already. */
static void verify_slots(struct tier_box *box, const struct keyspace *keyspace, struct slot_counts *slots)
{
    const struct heap *heap = &keyspace->heap;
    const struct keyed *graves = &keyspace->tier->graves;

    for (uint32_t segment = 0; segment < heap->segment_count; segment++) {
        uint32_t unit = 1;
        struct entry *entry;

        while (heap->segments[segment] != NULL && (entry = heap_walk(heap, segment, &unit)) != NULL) {
            unit += entry_block_size(entry) / ENTRY_UNIT;
            recount_entry(keyspace, entry, slots);
        }
    }
    for (size_t i = 0; i < graves->slot_count; i++) {
        for (struct keyed_node *node = graves->slots[i]; node != NULL; node = node->next) {
            struct slot_counts *counts = recounted(slots, keyspace, node->hash);

            *(((struct grave *)node)->unknown ? &counts->unknown : &counts->shadowed) += 1;
        }
    }
    for (uint32_t i = 0; i < partition_slot_count(box->partitions); i++)
        BOX_DEMAND(box, memcmp(&slots[i], &keyspace->slots[i], sizeof(slots[i])) == 0, "slot %u of partition %u: %u %u %u %u instead of %u %u %u %u", i,
            keyspace->partition->index, keyspace->slots[i].entries, keyspace->slots[i].records, keyspace->slots[i].shadowed,
            keyspace->slots[i].unknown, slots[i].entries, slots[i].records, slots[i].shadowed, slots[i].unknown);
}

static void verify_keyspace(struct tier_box *box, struct keyspace *keyspace)
{
    struct slot_counts *slots = mem_zalloc(partition_slot_count(box->partitions) * sizeof(*slots));
    struct tier_keyspace *part = keyspace->tier;
    uint64_t first = partition_first_hash(keyspace->partition);
    struct store_iterator *iterator = store_scan(box->tier->store, keyspace->incarnation, first);
    struct store_record record;
    struct tally tally = { 0 };
    enum status status;
    uint64_t place;

    keyspace_verify(keyspace);
    while ((status = store_next(iterator, &record)) == STATUS_OK &&
           partition_index(box->partitions, record.hash) == keyspace->partition->index) {
        uint32_t handle = keyspace_find(keyspace, record.hash, record.key);
        struct grave *grave = (struct grave *)keyed_find(&part->graves, record.hash, record.key);

        tally.records++;
        if (keyspace->slots != NULL)
            recounted(slots, keyspace, record.hash)->records++;
        BOX_DEMAND(box, recordmap_maybe(part->map, record.hash), "a record without a tag");
        BOX_DEMAND(box, record.hash == keyspace_hash(keyspace, record.key), "a record under another hash");
        if (handle != 0) {
            enum record_state state = entry_record(keyspace_entry(keyspace, handle));

            BOX_DEMAND(box, state != RECORD_NONE || (grave != NULL && grave->applying), "an entry does not know of its record");
            if (state == RECORD_CLEAN)
                verify_clean(box, keyspace, keyspace_entry(keyspace, handle), &record);
            if (state == RECORD_CLEAN)
                verify_expiry(box, keyspace, &record);
            tally.with_record += state == RECORD_STALE || state == RECORD_CLEAN;
        }
        if (grave == NULL && (handle == 0 || entry_record(keyspace_entry(keyspace, handle)) != RECORD_STALE))
            BOX_DEMAND(box, recordmap_find(part->map, record.hash, record.key, &place) && place != PLACE_NOWHERE, "a record that is needed is nowhere");
        tally.shadowed += handle != 0 || grave != NULL;
        if (handle == 0 && grave == NULL)
            verify_expiry(box, keyspace, &record);
    }
    BOX_DEMAND(box, status == STATUS_OK || status == STATUS_NOT_FOUND, "%s", status_name(status));
    store_scan_close(iterator);
    BOX_DEMAND(box, recordmap_count(part->map) == tally.records, "%llu tags, %llu records",
        (unsigned long long)recordmap_count(part->map), (unsigned long long)tally.records);
    tally_entries(keyspace, &tally);
    for (int i = 0; i < 4; i++)
        BOX_DEMAND(box, keyspace->record_counts[i] == tally.flagged[i], "state %d", i);
    BOX_DEMAND(box, tally.with_record == tally.flagged[RECORD_STALE] + tally.flagged[RECORD_CLEAN], "records are missing");
    BOX_DEMAND(box, part->loads.count > 0 || tally.pinned == 0, "%llu are pinned without a load", (unsigned long long)tally.pinned);
    BOX_DEMAND(box, tally.writing == 0, "%llu say that they are being written", (unsigned long long)tally.writing);
    if (keyspace->slots != NULL)
        verify_slots(box, keyspace, slots);
    mem_free(slots);
}

/* Every place is in a segment, and each segment counts as live what the maps say. */
static void verify_places(struct tier_box *box, const struct keyspace *keyspace, uint64_t *weight)
{
    struct segments *segments = store_segments(box->tier->store);
    struct recordmap_walk walk;
    struct recordmap_record record;

    recordmap_walk_begin(&walk, keyspace->tier->map, 0);
    while (recordmap_walk_next(&walk, &record)) {
        struct segment *segment;

        if (!place_is_in_segment(record.place))
            continue;
        segment = segments_pin(segments, record.place);
        BOX_DEMAND(box, segment != NULL, "a place without a segment");
        segments_unpin(segment);
        *weight += place_weight(record.place);
    }
}

/* Of databases that were flushed nothing is left. */
static void verify_purged(struct tier_box *box)
{
    for (uint32_t incarnation = 1; incarnation <= box->partitions->incarnation_last; incarnation++) {
        struct store_iterator *iterator;
        struct store_record record;
        bool live = false;

        for (int db = 0; db < box->partitions->db_count; db++)
            live = live || box->partitions->incarnations[db] == incarnation;
        for (uint32_t kind = 0; !live && kind <= INCARNATION_PAGES; kind += INCARNATION_PAGES) {
            iterator = store_scan(box->tier->store, incarnation | kind, 0);
            BOX_DEMAND(box, store_next(iterator, &record) == STATUS_NOT_FOUND, "a flushed record is still there");
            store_scan_close(iterator);
        }
    }
}

struct tier_stats tier_box_stats(struct tier_box *box)
{
    struct tier_stats stats;

    tier_stats(box->tier, &stats);
    return stats;
}

/* Returns the bytes that the records in memory are counted with. */
static uint64_t verify_packed(const struct keyspace *packed)
{
    if (packed == NULL)
        return 0;
    keyspace_verify(packed);
    return packed->heap.live_bytes + packed->table.count * (TABLE_BUCKET_SLOTS / 2);
}

void tier_box_verify(struct tier_box *box)
{
    uint64_t weight = 0, packed = 0;

    tier_box_hold_writer(box);
    for (uint32_t i = 0; i < box->partitions->count; i++) {
        struct partition *partition = &box->partitions->partitions[i];

        partition_lock(partition);
        for (int space = 0; space < box->partitions->space_count; space++) {
            if (partition->keyspaces[space] == NULL)
                continue;
            verify_keyspace(box, partition->keyspaces[space]);
            verify_places(box, partition->keyspaces[space], &weight);
            packed += verify_packed(partition->keyspaces[space]->tier->packed);
        }
        partition_unlock(partition);
    }
    BOX_DEMAND(box, packed_bytes(box->tier) == packed, "packed records: %llu bytes instead of %llu", (unsigned long long)packed_bytes(box->tier), (unsigned long long)packed);
    if (purge_count(box->tier->purge) == 0)
        verify_purged(box);
    if (collect_is_idle(box->tier))
        BOX_DEMAND(box, segments_live_weight(store_segments(box->tier->store)) == weight, "live records: %llu instead of %llu",
            (unsigned long long)segments_live_weight(store_segments(box->tier->store)), (unsigned long long)weight);
    tier_box_release_writer(box);
}

struct keyspace *tier_box_keyspace(struct tier_box *box, int db, struct bytes key, uint64_t *hash)
{
    *hash = key_hash(&box->partitions->seed, key);
    return box->partitions->partitions[partition_index(box->partitions, *hash)].keyspaces[db];
}

struct entry *tier_box_entry(struct tier_box *box, int db, const char *key)
{
    uint64_t hash;
    struct keyspace *keyspace = tier_box_keyspace(box, db, bytes_of_string(key), &hash);
    uint32_t handle = keyspace != NULL ? keyspace_find(keyspace, hash, bytes_of_string(key)) : 0;

    return handle != 0 ? keyspace_entry(keyspace, handle) : NULL;
}

void tier_box_end(struct tier_box *box, struct box_client *client)
{
    if (box->writer_held)
        tier_box_release_writer(box);
    tier_box_close_client(client);
    tier_box_turn(&box->workers[0], BOX_NO_WAIT);
    tier_box_settle(box);
    tier_box_verify(box);
    tier_box_destroy(box);
}
