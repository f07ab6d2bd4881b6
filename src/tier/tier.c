#include "tier/tier.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/histogram.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/mutex.h"
#include "keyspace/heat.h"
#include "store/store_env.h"
#include "tier/demote.h"
#include "tier/purge.h"
#include "tier/tags.h"
#include "tier/tier_private.h"
#include "tier/warm.h"

/* A file that says whose directory it is: only then may a damaged store be thrown away. So it is there before anything else is, and
 * durably, and stays: a kill or a power cut at any later moment leaves a directory that is known for ours. */
static void mark_path(const char *dir, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/KELVIN", dir);
}

static bool is_marked(const char *dir)
{
    char path[PATH_MAX];

    mark_path(dir, path);
    return access(path, F_OK) == 0;
}

static enum status mark(const char *dir, struct message *message)
{
    char path[PATH_MAX];
    enum status status = STATUS_OK;
    int fd, dir_fd;

    mark_path(dir, path);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || dir_fd < 0 || fsync(dir_fd) != 0) {
        status = status_of_errno(errno);
        message_set(message, "can't create '%.150s': %s", path, strerror(errno));
    }
    if (fd >= 0)
        close(fd);
    if (dir_fd >= 0)
        close(dir_fd);
    return status;
}

static bool has_nothing(const char *dir)
{
    DIR *list = opendir(dir);
    struct dirent *entry;
    bool nothing = list != NULL;

    while (list != NULL && nothing && (entry = readdir(list)) != NULL)
        nothing = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    if (list != NULL)
        closedir(list);
    return nothing;
}

/* A directory that we create, or that is empty, is ours from the first moment. What else may be wrong with it store_open tells. */
static enum status adopt(const char *dir, struct message *message)
{
    return mkdir(dir, 0755) == 0 || (errno == EEXIST && has_nothing(dir)) ? mark(dir, message) : STATUS_OK;
}

/* What an earlier process left is swap space of the past: the working store is built anew from the image, if there is one, or empty;
 * the rest comes back by the log. It is opened first all the same, so that a store that is in use, or that a newer Kelvin wrote, is
 * not touched; whatever else is wrong with it does not matter. */
static enum status open_working(const struct store_options *options, const char *image, struct store **store, struct message *message)
{
    char path[PATH_MAX];
    enum status status = adopt(options->dir, message);

    if (status == STATUS_OK)
        status = store_open(options, store, message);
    if (status == STATUS_LOCKED || status == STATUS_VERSION)
        return status;
    if (status != STATUS_OK && !is_marked(options->dir))
        return status;              /* who knows whose files these are */
    if (status == STATUS_OK && !is_marked(options->dir) && mark(options->dir, message) != STATUS_OK)
        return STATUS_IO;
    if (status == STATUS_OK && store_is_new(*store) && image == NULL)
        return STATUS_OK;
    store_close(*store);
    *store = NULL;
    status = store_remove(options->dir, options->env);
    if (status != STATUS_OK) {
        message_set(message, "can't remove the old store '%.150s': %s", options->dir, status_name(status));
        return status;
    }
    if (image != NULL) {
        snprintf(path, sizeof(path), "%s/store", image);
        status = store_clone(path, options->dir, options->env, message);
        if (status != STATUS_OK)
            return status;
    }
    return store_open(options, store, message);
}

struct tier *tier_open(const struct tier_options *options, struct message *message)
{
    struct tier *tier = mem_zalloc(sizeof(*tier));
    struct store_options store = {
        .dir = options->dir,
        .env = options->env,
        .write_buffer_size = options->write_buffer_size,
        .block_cache_size = options->block_cache_size,
        .compression = options->compression,
        .file_size_max = options->table_size_max,
        .tables_open_max = options->tables_open_max,
        .numbers_rare = true,
    };

    tier->env = options->env == NULL ? store_env_create() : NULL;
    if (tier->env != NULL)
        store.env = tier->env;
    if (options->hooks.thread_started != NULL)
        store_env_on_thread(store.env, options->hooks.thread_started, options->hooks.context);
    if (open_working(&store, options->image, &tier->store, message) != STATUS_OK) {
        if (tier->env != NULL)
            store_env_destroy(tier->env);
        mem_free(tier);
        return NULL;
    }
    tier->hooks = options->hooks;
    tier->dir = mem_string(bytes_of_string(options->dir));
    tier->images = options->images != NULL ? mem_string(bytes_of_string(options->images)) : NULL;
    tier->tuned = (struct store_tuning){ options->write_buffer_size, options->block_cache_size, options->compression };
    tier->settings.load_threads = options->loader_count;
    tier->settings.write_buffer_size = (int64_t)options->write_buffer_size;
    tier->settings.block_cache_size = (int64_t)options->block_cache_size;
    tier->settings.compression = options->compression;
    tier->settings.enabled = true;
    tier->settings.warmup = true;
    tier->state = TIER_OK;
    tier->purge = purge_create();
    mutex_init(&tier->queue_lock);
    condition_init(&tier->queue_filled);
    condition_init(&tier->load_ended);
    mutex_init(&tier->writer_lock);
    condition_init(&tier->writer_asked);
    condition_init(&tier->writer_answered);
    mutex_init(&tier->error_lock);
    mutex_init(&tier->counting_lock);
    mutex_init(&tier->handed_lock);
    mutex_init(&tier->image_turn);
    return tier;
}

struct hash_seed tier_seed(const struct tier *tier) { return store_seed(tier->store); }
struct tier_settings *tier_settings(struct tier *tier) { return &tier->settings; }
enum status tier_restore(struct tier *tier, const char *image, uint64_t number)
{
    struct partitions *partitions = tier->partitions;
    enum status status;

    if (store_number(tier->store) != number)
        return STATUS_CORRUPT;
    status = tags_load(tier, partitions, image);
    if (status != STATUS_OK) {
        tier->hooks.log(tier->hooks.context, "The image's tags are missing or damaged: they are read from the store.");
        status = tags_rebuild(tier, partitions);
    }
    if (status == STATUS_OK)
        status = purge_find(tier);      /* what was flushed, but not purged yet, at the cut */
    return status;
}

void tier_set_expiry(struct tier *tier, bool on) { tier->expire_cold = on; }

/* Records of it are yet to be purged, or belong to a running checkpoint. */
static bool incarnation_is_taken(void *context, uint32_t incarnation)
{
    struct tier *tier = context;
    bool taken = purge_has(tier->purge, incarnation);

    for (uint32_t i = 0; i < tier->partitions->count && !taken; i++) {
        for (struct keyspace *keyspace = tier->partitions->partitions[i].flushed; keyspace != NULL; keyspace = keyspace->next_flushed)
            taken = taken || keyspace->incarnation == incarnation;
    }
    return taken;
}

void tier_start(struct tier *tier, struct partitions *partitions)
{
    tier->partitions = partitions;
    partitions->watch = (struct keyspace_watch){
        .context = tier,
        .record_of_new = grave_record_of_new,
        .removed = grave_removed,
        .keyspace_created = grave_keyspace_created,
        .changing = checkpoint_changing,
        .incarnation_is_taken = incarnation_is_taken,
    };
    loaders_adjust(tier);
    CHECK(pthread_create(&tier->writer, NULL, writer_main, tier) == 0);
    tier->writer_running = true;
}

void tier_stop(struct tier *tier)
{
    if (!tier->writer_running)
        return;
    warm_stop(tier->warm);
    tier->stopping = true;
    mutex_lock(&tier->writer_lock);
    condition_broadcast(&tier->writer_asked);
    mutex_unlock(&tier->writer_lock);
    mutex_lock(&tier->queue_lock);
    condition_broadcast(&tier->queue_filled);
    mutex_unlock(&tier->queue_lock);
    pthread_join(tier->writer, NULL);
    for (int i = 0; i < tier->loader_count; i++)
        pthread_join(tier->loaders[i], NULL);
    tier->loader_count = 0;
    tier->writer_running = false;
}

static void void_loads(struct tier *tier, struct tier_keyspace *in)
{
    struct keyed_node *node;
    size_t slot = 0;

    while ((node = keyed_any(&in->loads, &slot)) != NULL) {
        struct load *load = (struct load *)node;

        keyed_remove(&in->loads, node);
        load->keyspace = NULL;
        load_void(tier, load);
        load_free_if_unused(tier, load);
        slot = 0;
    }
}

void loads_void_all(struct tier *tier, struct keyspace *keyspace)
{
    ASSERT_LOCKED(keyspace->partition);
    void_loads(tier, keyspace->tier);
}

static void release_keyspace(struct tier *tier, struct tier_keyspace *in)
{
    struct keyed_node *node;
    size_t slot = 0, slots = in->graves.slot_count;

    while ((node = keyed_any(&in->graves, &slot)) != NULL) {
        grave_free(in, tier, (struct grave *)node);
        if (in->graves.slot_count != slots) {       /* else from here on: all before is empty, and there may be many */
            slots = in->graves.slot_count;
            slot = 0;
        }
    }
    void_loads(tier, in);
    count_forget(in);
    keyed_release(&in->graves);
    keyed_release(&in->loads);
    recordmap_destroy(in->map);
    mem_free(in);
}

/* Takes the object that is being encoded away from an entry that is about to be freed. */
static void orphan_latched(struct tier *tier, struct keyspace *keyspace)
{
    struct value nothing = { .type = VALUE_STRING, .encoding = STRING_INT, .integer = 0 };
    uint32_t handle = keyspace_find(keyspace, tier->latch.hash, tier->latch.key);

    CHECK(handle != 0 && keyspace_entry(keyspace, handle)->flags & ENTRY_LATCHED);
    keyspace_set_value(keyspace, tier->latch.hash, handle, &nothing);
    tier->latch.keyspace = NULL;
    tier->latch.orphaned = true;
}

void tier_unlatch(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    uint32_t handle = keyspace_find(keyspace, hash, key);
    struct value value;

    ASSERT_LOCKED(keyspace->partition);
    CHECK(handle != 0 && tier->latch.keyspace == keyspace);
    value = entry_value(keyspace_entry(keyspace, handle));
    value = value_copy(&value);
    handle = keyspace_set_value(keyspace, hash, handle, &value);
    keyspace_entry(keyspace, handle)->flags &= (uint8_t)~ENTRY_LATCHED;
    tier->latch.keyspace = NULL;
    tier->latch.orphaned = true;
}

uint64_t tier_record_size(struct tier *tier)
{
    uint64_t count = tier->record_count;

    return count > 0 ? tier->record_bytes / count : 0;
}

void tier_forget(struct tier *tier, struct keyspace *keyspace)
{
    ASSERT_LOCKED(keyspace->partition);
    if (tier->latch.keyspace == keyspace)
        orphan_latched(tier, keyspace);
    /* Each record has a tag, from before its put is queued until its delete was applied (tier rule 1). */
    if (recordmap_count(keyspace->tier->map) > 0)
        purge_add(tier->purge, keyspace->incarnation);
    release_keyspace(tier, keyspace->tier);
    keyspace->tier = NULL;
}

/* What a checkpoint that did not come to its end had kept for the store. */
static void release_unsealed(struct tier *tier)
{
    while (tier->handed_first != NULL) {
        struct handed *next = tier->handed_first->next;

        buffer_release(&tier->handed_first->record);
        mem_free(tier->handed_first);
        tier->handed_first = next;
    }
    tier->handed_last = NULL;
    for (uint32_t i = 0; tier->partitions != NULL && i < tier->partitions->count; i++) {
        struct partition *partition = &tier->partitions->partitions[i];

        while (partition->flushed != NULL) {
            struct keyspace *keyspace = partition->flushed;

            partition->flushed = keyspace->next_flushed;
            release_keyspace(tier, keyspace->tier);
            keyspace->tier = NULL;
            keyspace_destroy(keyspace);
        }
    }
}

void tier_close(struct tier *tier)
{
    if (tier == NULL)
        return;
    tier_stop(tier);
    warm_destroy(tier->warm);
    release_unsealed(tier);
    for (uint32_t i = 0; tier->partitions != NULL && i < tier->partitions->count; i++) {
        for (int db = 0; db < tier->partitions->db_count; db++) {
            struct keyspace *keyspace = tier->partitions->partitions[i].keyspaces[db];

            if (keyspace != NULL && keyspace->tier != NULL)
                release_keyspace(tier, keyspace->tier);
            if (keyspace != NULL)
                keyspace->tier = NULL;
        }
    }
    store_close(tier->store);
    if (tier->env != NULL)
        store_env_destroy(tier->env);
    mutex_release(&tier->queue_lock);
    condition_release(&tier->queue_filled);
    condition_release(&tier->load_ended);
    mutex_release(&tier->writer_lock);
    condition_release(&tier->writer_asked);
    condition_release(&tier->writer_answered);
    mutex_release(&tier->error_lock);
    mutex_release(&tier->counting_lock);
    mutex_release(&tier->handed_lock);
    mutex_release(&tier->image_turn);
    if (tier->hurried != NULL)
        unknowns_release(tier->hurried);
    mem_free(tier->hurried);
    purge_destroy(tier->purge);
    mem_free(tier->dir);
    mem_free(tier->images);
    buffer_release(&tier->expiry.from);
    mem_free(tier);
}

enum tier_move tier_demote(struct tier *tier, int db, struct bytes key)
{
    enum tier_move result;

    tier_demote_many(tier, db, &key, 1, &result);
    return result;
}

void tier_demote_many(struct tier *tier, int db, const struct bytes *keys, size_t count, enum tier_move *results)
{
    struct demote_request *requests = mem_zalloc((count + 1) * sizeof(*requests));

    for (size_t i = 0; i < count; i++) {
        requests[i].db = db;
        requests[i].hash = hash_bytes(&tier->partitions->seed, keys[i]);
        requests[i].key = keys[i];
    }
    mutex_lock(&tier->writer_lock);
    for (size_t i = 0; i < count; i++) {
        requests[i].next = tier->requests;
        tier->requests = &requests[i];
    }
    condition_signal(&tier->writer_asked);
    for (size_t i = 0; i < count; i++) {
        while (!requests[i].done)
            condition_wait(&tier->writer_answered, &tier->writer_lock);
        results[i] = requests[i].result;
    }
    mutex_unlock(&tier->writer_lock);
    mem_free(requests);
}

void tier_nudge(struct tier *tier)
{
    mutex_lock(&tier->writer_lock);
    if (!tier->nudged) {
        tier->nudged = true;
        condition_signal(&tier->writer_asked);
    }
    mutex_unlock(&tier->writer_lock);
}

bool tier_is_blocked(struct tier *tier)
{
    return tier->state != TIER_OK || !tier->settings.enabled;
}

uint64_t tier_demoted_bytes(const struct tier *tier)
{
    return tier->demoted_bytes;
}

bool tier_is_demoting(const struct tier *tier)
{
    return tier->demoting;
}

/* The lower end of the bucket. */
static uint64_t percentile_us(const uint64_t counts[LOAD_LATENCY_BUCKETS], uint64_t total, double percent)
{
    return histogram_bucket_min(histogram_percentile_bucket(counts, LOAD_LATENCY_BUCKETS, total, percent), LOAD_LATENCY_STEP_BITS);
}

void tier_stats(struct tier *tier, struct tier_stats *stats)
{
    uint64_t counts[LOAD_LATENCY_BUCKETS], total, records = 0, recorded = 0;

    *stats = (struct tier_stats){
        .state = tier->settings.enabled ? (enum tier_state)tier->state : TIER_OFF,
        .demotions = tier->demotions,
        .clean_demotions = tier->clean_demotions,
        .promotions = tier->promotions,
        .batches = tier->batches,
        .loads_waiting = tier->loads_waiting,
        .false_maybes = tier->false_maybes,
        .store_bytes = tier->store_bytes,
        .store_memory = store_memory(tier->store),
        .graves = tier->graves,
        .unplanned_reads = tier->unplanned_reads,
        .errors = tier->errors,
        .expired_cold = tier->expired_cold,
        .resolved = tier->resolved,
    };
    warm_stats(tier->warm, stats);
    for (uint32_t i = 0; i < tier->partitions->count; i++) {
        struct partition *partition = &tier->partitions->partitions[i];

        partition_lock(partition);
        for (int db = 0; db < tier->partitions->db_count; db++) {
            struct keyspace *keyspace = partition->keyspaces[db];

            if (keyspace == NULL)
                continue;
            stats->hot_keys += keyspace->table.count;
            stats->unknown_keys += keyspace->record_counts[RECORD_UNKNOWN] + keyspace->tier->unknown_graves;
            stats->dirty_keys += keyspace->table.count - keyspace->record_counts[RECORD_CLEAN];
            stats->hot_bytes += keyspace_live_size(keyspace);
            stats->held_bytes += keyspace_held_size(keyspace);
            stats->recordmap_bytes += recordmap_size(keyspace->tier->map);
            records += recordmap_count(keyspace->tier->map);
            recorded += keyspace->record_counts[RECORD_STALE] + keyspace->record_counts[RECORD_CLEAN] +
                        keyspace->tier->graves.count - keyspace->tier->unknown_graves;
        }
        partition_unlock(partition);
    }
    stats->cold_keys = records - recorded;
    total = histogram_load(tier->latency, LOAD_LATENCY_BUCKETS, counts);
    stats->load_p50_us = percentile_us(counts, total, 50);
    stats->load_p99_us = percentile_us(counts, total, 99);
    mutex_lock(&tier->error_lock);
    memcpy(stats->last_error, tier->last_error, sizeof(stats->last_error));
    mutex_unlock(&tier->error_lock);
}

void tier_reset_stats(struct tier *tier)
{
    tier->demotions = tier->clean_demotions = tier->promotions = tier->batches = tier->false_maybes = 0;
    tier->errors = tier->unplanned_reads = tier->expired_cold = tier->resolved = 0;
    histogram_clear(tier->latency, LOAD_LATENCY_BUCKETS);
}

void tier_heat_histogram(struct tier *tier, int db, uint64_t histogram[256])
{
    struct heat_settings settings = { (uint32_t)tier->settings.lfu_log_factor, (uint32_t)tier->settings.lfu_decay_minutes };
    uint16_t now = heat_minutes(clock_wall_ms());

    memset(histogram, 0, 256 * sizeof(histogram[0]));
    for (uint32_t i = 0; i < tier->partitions->count; i++) {
        struct partition *partition = &tier->partitions->partitions[i];
        struct keyspace *keyspace;

        partition_lock(partition);
        keyspace = partition_keyspace_if(partition, db);
        for (uint32_t segment = 0; keyspace != NULL && segment < keyspace->heap.segment_count; segment++) {
            uint32_t unit = 1;
            struct entry *entry;

            if (keyspace->heap.segments[segment] == NULL)
                continue;
            while ((entry = heap_walk(&keyspace->heap, segment, &unit)) != NULL) {
                unit += entry_block_size(entry) / ENTRY_UNIT;
                histogram[heat_now(&settings, entry->heat, entry->heat_minutes, now)]++;
            }
        }
        partition_unlock(partition);
    }
}
