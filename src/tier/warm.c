#include "tier/warm.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/thread.h"
#include "keyspace/heat.h"
#include "tier/bulk.h"
#include "tier/hot.h"
#include "tier/record.h"
#include "tier/tier_private.h"

enum {
    CHUNK_KEYS = 1024,          /* that are looked up and read together */
    CHUNK_KEYS_PACED = 64,      /* the same with a tier-warmup-rate below PACED_RATE, so that its pauses are short */
    PACED_RATE = 20000,
    KEYS_A_LOCK = 64,           /* keys that are looked up under one hold of a partition's lock */
    READS_MAX = 4,              /* at a time: clients' loads come first */
    USES_WARM = 2,              /* uses of a key that was not on probation, at least */
    BANDS = 16,                 /* a band of heat has at least one in this many of all keys */
    UNIT_SIZE = 1024,           /* tier-warmup-rate counts a key once for each of these units of its size */
    READ_ERRORS_MAX = 100,
    BURST_US = 50000,
    PAUSE_MS = 20,
    GIVE_WAY_US = 200, GIVE_WAY_TRIES = 10,
    NICE = 10,
};

struct warm {
    struct tier *tier;
    char *image;                /* path */
    struct hot_file file;       /* the thread's until `opened`, immutable then */
    _Atomic bool opened;
    struct thread thread;
    _Atomic bool stopping;
    _Atomic int state;          /* enum tier_warmup */
    _Atomic int pending_rank;   /* keys with ranks below this are not back yet */
    _Atomic uint64_t loaded;
    _Atomic int64_t began_us, spent_us;

    /* The thread's. */
    struct tier_bulk *bulk;
    int64_t next_us, rate;      /* when to go on, and the tier-warmup-rate that says so */
    uint64_t units;             /* read since */
    uint32_t errors;
};

/* A key to bring back. */
struct wanted {
    uint64_t hash;
    uint16_t rank;
};

static void pause_us(int64_t us)
{
    struct timespec pause = { us / 1000000, us % 1000000 * 1000 };

    nanosleep(&pause, NULL);
}

/* The heat as it was: the time that the server was down does not count, as no client could touch the key. */
static void restore_heat(const struct tier *tier, struct keyspace *keyspace, struct entry *entry, uint16_t rank)
{
    struct heat_settings settings = { (uint32_t)tier->settings.lfu_log_factor, (uint32_t)tier->settings.lfu_decay_minutes };
    uint16_t minutes = heat_minutes(clock_wall_ms());
    uint8_t heat = heat_now(&settings, entry->heat, entry->heat_minutes, minutes), was = (uint8_t)rank;

    keyspace_assert_locked(keyspace);
    if (was > heat) {
        entry->heat = was;
        entry->heat_minutes = minutes;
    }
    if (rank >= 256) {
        keyspace_set_probation(keyspace, entry, false);
        if (entry->uses < USES_WARM)
            entry->uses = USES_WARM;
    }
}

/* Clients or the log have brought it back already: it gets its heat. */
static bool is_there(const struct warm *warm, struct keyspace *keyspace, const struct wanted *wanted)
{
    uint32_t handle = table_find_hash(&keyspace->table, wanted->hash);

    if (handle != 0)
        restore_heat(warm->tier, keyspace, keyspace_entry(keyspace, handle), wanted->rank);
    return handle != 0;
}

/* Adds those that are cold to the bulk. False: the keyspace is gone. */
static bool look_up_section(struct warm *warm, struct partition *partition, uint32_t incarnation, const struct wanted *wanted, size_t count)
{
    struct keyspace *keyspace;

    partition_lock(partition);
    keyspace = tier_living_keyspace(partition, incarnation);
    for (size_t i = 0; i < count && keyspace != NULL; i++) {
        keyspace_assert_locked(keyspace);
        if (is_there(warm, keyspace, &wanted[i]))
            warm->loaded++;
        else
            bulk_add(warm->bulk, keyspace, wanted[i].hash, bytes_of(NULL, 0), wanted[i].rank);
    }
    partition_unlock(partition);
    return keyspace != NULL;
}

/* For `size` bytes more. */
static bool has_room(const struct warm *warm, uint64_t size)
{
    const struct tier *tier = warm->tier;
    int64_t limit = tier->settings.memory_max;

    return limit <= 0 || tier->hooks.memory_used(tier->hooks.context) + size < (uint64_t)limit / 100 * (uint64_t)tier->settings.low_percent;
}

static void end_warm_up(struct warm *warm)
{
    warm->state = TIER_WARMUP_DONE;
}

static bool is_over(const struct warm *warm)
{
    return warm->stopping || warm->state == TIER_WARMUP_DONE;
}

/* Paused by tier-warmup no. */
static void wait_while_off(struct warm *warm)
{
    int64_t began_us = clock_mono_us();

    if (warm->tier->settings.warmup)
        return;
    warm->spent_us += began_us - warm->began_us;
    warm->began_us = 0;
    warm->state = TIER_WARMUP_OFF;
    while (!warm->tier->settings.warmup && !warm->stopping)
        pause_us(PAUSE_MS * 1000);
    warm->began_us = clock_mono_us();
    warm->state = TIER_WARMUP_RUNNING;
}

/* tier-warmup-rate. */
static void keep_rate(struct warm *warm)
{
    int64_t rate = warm->tier->settings.warmup_rate, now_us = clock_mono_us();

    if (warm->next_us < now_us - BURST_US || warm->rate != rate)
        warm->next_us = now_us - BURST_US;
    warm->rate = rate;
    if (rate > 0)
        warm->next_us += (int64_t)(warm->units * 1000000 / (uint64_t)rate);
    warm->units = 0;
    while (!warm->stopping && now_us < warm->next_us && warm->tier->settings.warmup_rate == rate) {
        pause_us(warm->next_us - now_us < PAUSE_MS * 1000 ? warm->next_us - now_us : PAUSE_MS * 1000);
        now_us = clock_mono_us();
    }
}

/* Clients' loads come first. */
static void give_way(struct warm *warm)
{
    for (int i = 0; i < GIVE_WAY_TRIES && warm->tier->loads_waiting > 0 && !warm->stopping; i++)
        pause_us(GIVE_WAY_US);
}

/* --- what a bulk asks --- */

static bool goes_on(void *context, uint64_t size)
{
    struct warm *warm = context;

    give_way(warm);
    if (!has_room(warm, size))
        end_warm_up(warm);
    return !is_over(warm);
}

static bool is_welcome(void *context, const struct record *record)
{
    (void)context;
    return record->expire_ms < 0 || record->expire_ms > clock_wall_ms();
}

static void installed(void *context, struct keyspace *keyspace, struct entry *entry, uint32_t rank)
{
    struct warm *warm = context;

    entry->heat = 0;
    entry->heat_minutes = heat_minutes(clock_wall_ms());
    restore_heat(warm->tier, keyspace, entry, (uint16_t)rank);
    warm->loaded++;
}

static void bring_chunk(struct warm *warm)
{
    struct bulk_steps steps = { warm, goes_on, is_welcome, installed };
    uint64_t failed = warm->bulk->failed;

    bulk_run(warm->bulk, &steps);
    failed = warm->bulk->failed - failed;
    if (failed == 0)
        return;
    warm->errors += (uint32_t)failed;
    if (warm->errors > READ_ERRORS_MAX)
        end_warm_up(warm);
    pause_us(PAUSE_MS * 1000);
}

static size_t chunk_size(const struct warm *warm)
{
    int64_t rate = warm->tier->settings.warmup_rate;

    return rate > 0 && rate < PACED_RATE ? CHUNK_KEYS_PACED : CHUNK_KEYS;
}

static void bring_all(struct warm *warm, const struct hot_section *section, const struct wanted *wanted, size_t count)
{
    struct partition *partition = &warm->tier->partitions->partitions[section->partition];

    for (size_t at = 0, end; at < count && !is_over(warm); at = end) {
        size_t chunk = chunk_size(warm), keys;

        wait_while_off(warm);
        give_way(warm);
        if (!has_room(warm, 0)) {
            end_warm_up(warm);
            return;
        }
        end = count - at < chunk ? count : at + chunk;
        keys = end - at;
        for (size_t next; at < end; at = next) {
            next = end - at < KEYS_A_LOCK ? end : at + KEYS_A_LOCK;
            if (!look_up_section(warm, partition, section->incarnation, wanted + at, next - at))
                break;                      /* flushed */
        }
        warm->units += warm->bulk->bytes / UNIT_SIZE > keys ? warm->bulk->bytes / UNIT_SIZE : keys;
        bring_chunk(warm);
        if (at < end)
            return;
        keep_rate(warm);
    }
}

static int compare_wanted(const void *left, const void *right)
{
    const struct wanted *a = left, *b = right;

    return a->hash < b->hash ? -1 : a->hash > b->hash;
}

/* Brings the keys of a section with ranks from `low` to below `high`, in the order of the hashes. */
static void bring_section(struct warm *warm, const struct hot_section *section, int low, int high)
{
    struct wanted *wanted;
    size_t count = 0, room = 0;

    for (uint32_t i = 0; i < section->group_count; i++) {
        if (section->groups[i].rank >= low && section->groups[i].rank < high)
            room += section->groups[i].count;
    }
    if (room == 0)
        return;
    wanted = mem_alloc(room * sizeof(*wanted));
    for (uint32_t i = 0; i < section->group_count; i++) {
        const struct hot_group *group = &section->groups[i];
        uint64_t *hashes;

        if (group->rank < low || group->rank >= high)
            continue;
        hashes = mem_alloc(group->count * sizeof(*hashes));
        if (hot_read(&warm->file, section, group, hashes) == STATUS_OK) {
            for (uint32_t n = 0; n < group->count; n++)
                wanted[count++] = (struct wanted){ hashes[n], group->rank };
        }
        mem_free(hashes);
    }
    qsort(wanted, count, sizeof(*wanted), compare_wanted);
    bring_all(warm, section, wanted, count);
    mem_free(wanted);
}

/* The lowest rank of the band that ends below `high`. */
static int band_low(const uint64_t counts[HOT_RANKS], uint64_t total, int high)
{
    uint64_t sum = 0;

    for (int rank = high - 1; rank > 0; rank--) {
        sum += counts[rank];
        if (sum >= total / BANDS + 1)
            return rank;
    }
    return 0;
}

static void report_end(const struct warm *warm, const char *how)
{
    char text[160];

    snprintf(text, sizeof(text), "Warm-up %s: %llu of %llu keys that were hot are back after %.1f seconds", how,
        (unsigned long long)warm->loaded, (unsigned long long)warm->file.key_count,
        (double)(warm->spent_us + clock_mono_us() - warm->began_us) / 1e6);
    if (warm->tier->hooks.notice != NULL)
        warm->tier->hooks.notice(warm->tier->hooks.context, text);
}

static void finish_warm_up(struct warm *warm)
{
    report_end(warm, warm->pending_rank == 0 ? "done" : "ended, memory is at its mark");
    warm->spent_us += clock_mono_us() - warm->began_us;
    warm->began_us = 0;
    warm->pending_rank = 0;
    warm->state = TIER_WARMUP_DONE;
}

static bool open_file(struct warm *warm)
{
    struct tier *tier = warm->tier;
    enum status status = hot_open(warm->image, tier->partitions->count, &warm->file);
    char text[300];

    if (status == STATUS_OK) {
        warm->pending_rank = HOT_RANKS;
        warm->opened = true;
        return true;
    }
    if (status != STATUS_NOT_FOUND) {
        snprintf(text, sizeof(text), "No warm-up: '%.200s/hot' can't be used (%s)", warm->image, status_name(status));
        tier->hooks.log(tier->hooks.context, text);
    }
    warm->began_us = 0;
    warm->state = TIER_WARMUP_IDLE;
    return false;
}

static void warm_up(struct warm *warm)
{
    uint64_t counts[HOT_RANKS] = { 0 };

    for (size_t i = 0; i < warm->file.section_count; i++) {
        for (uint32_t n = 0; n < warm->file.sections[i].group_count; n++)
            counts[warm->file.sections[i].groups[n].rank] += warm->file.sections[i].groups[n].count;
    }
    warm->bulk = tier_bulk_create(warm->tier, READS_MAX);
    wait_while_off(warm);
    for (int high = HOT_RANKS, low; high > 0 && !is_over(warm); high = low) {
        low = band_low(counts, warm->file.key_count, high);
        for (size_t i = 0; i < warm->file.section_count && !is_over(warm); i++)
            bring_section(warm, &warm->file.sections[i], low, high);
        if (!is_over(warm))
            warm->pending_rank = low;
    }
    tier_bulk_destroy(warm->bulk);
    if (!warm->stopping)
        finish_warm_up(warm);
}

static void warm_main(void *context)
{
    struct warm *warm = context;

    setpriority(PRIO_PROCESS, 0, NICE);         /* of this thread alone, in Linux */
    if (open_file(warm))
        warm_up(warm);
}

void tier_warm_up(struct tier *tier, const char *image)
{
    struct warm *warm = mem_zalloc(sizeof(*warm));
    struct message message;
    int error;

    CHECK(tier->warm == NULL);
    warm->tier = tier;
    warm->image = mem_string(bytes_of_string(image));
    warm->file.fd = -1;
    warm->state = TIER_WARMUP_RUNNING;
    warm->began_us = clock_mono_us();
    tier->warm = warm;
    error = thread_start(&warm->thread, "kelvin-warm", tier->hooks.meter, warm_main, warm);
    if (error == 0)
        return;
    warm->state = TIER_WARMUP_IDLE;
    message_set(&message, "The keys that were hot are not brought back: no thread: %s", strerror(error));
    tier->hooks.log(tier->hooks.context, message.text);
}

void tier_await_warm_up_file(struct tier *tier)
{
    const struct warm *warm = tier->warm;

    while (!warm->opened && warm->state == TIER_WARMUP_RUNNING && !warm->stopping)
        pause_us(1000);
}

void warm_stop(struct warm *warm)
{
    if (warm == NULL)
        return;
    warm->stopping = true;
    thread_join(&warm->thread);
}

void warm_destroy(struct warm *warm)
{
    if (warm == NULL)
        return;
    warm_stop(warm);
    hot_close(&warm->file);
    mem_free(warm->image);
    mem_free(warm);
}

struct hot_pending warm_pending(const struct warm *warm)
{
    return warm != NULL ? (struct hot_pending){ &warm->file, &warm->pending_rank } : (struct hot_pending){ NULL, NULL };
}

void warm_stats(const struct warm *warm, struct tier_stats *stats)
{
    int64_t began_us;

    stats->warmup = TIER_WARMUP_IDLE;
    if (warm == NULL)
        return;
    began_us = warm->began_us;
    stats->warmup = (enum tier_warmup)warm->state;
    stats->warmup_keys = warm->opened ? warm->file.key_count : 0;
    stats->warmup_loaded = warm->loaded;
    stats->warmup_us = warm->spent_us + (began_us != 0 ? clock_mono_us() - began_us : 0);
}
