#include "tier/warm.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "keyspace/heat.h"
#include "tier/grave.h"
#include "tier/hot.h"
#include "tier/load.h"
#include "tier/read.h"
#include "tier/record.h"
#include "tier/tier_private.h"

enum {
    CHUNK_KEYS = 64,            /* between two looks at everything else */
    USES_WARM = 2,              /* uses of a key that was not on probation, at least */
    BANDS = 16,                 /* a band of heat has at least one in this many of all keys */
    UNIT_SIZE = 1024,           /* tier-warmup-rate counts a key once for each of these units of its size */
    NEAR_STEPS = 8,             /* records that are stepped over before it is a seek */
    READ_TRIES = 200,
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
    pthread_t thread;
    bool running;               /* the thread is to be joined */
    _Atomic bool stopping;
    _Atomic int state;          /* enum tier_warmup */
    _Atomic int pending_rank;   /* keys with ranks below this are not back yet */
    _Atomic uint64_t loaded;
    _Atomic int64_t began_us, spent_us;

    /* The thread's. */
    struct store_iterator *iterator;
    uint32_t iterated;          /* the iterator's incarnation */
    uint64_t number;            /* the store's, from before it was opened */
    struct store_record current;    /* the record at the iterator, if `valid` */
    bool valid;
    uint64_t sought;            /* there is no record between this place and `current` */
    struct buffer scratch, bytes;   /* of a record in a segment */
    int64_t next_us, rate;      /* when to go on, and the tier-warmup-rate that says so */
    uint64_t units;             /* read since */
    uint32_t errors;
};

/* A key to bring back. */
struct wanted {
    uint64_t place;
    uint16_t rank;
    bool there;                 /* it has an entry already */
};

static void pause_us(int64_t us)
{
    struct timespec pause = { us / 1000000, us % 1000000 * 1000 };

    nanosleep(&pause, NULL);
}

static void close_iterator(struct warm *warm)
{
    store_scan_close(warm->iterator);
    warm->iterator = NULL;
    warm->valid = false;
}

/* Not one that a flush has taken out and a checkpoint keeps. */
static struct keyspace *living_keyspace(struct partition *partition, uint32_t incarnation)
{
    for (int db = 0; db < partition->all->db_count; db++) {
        if (partition->keyspaces[db] != NULL && partition->keyspaces[db]->incarnation == incarnation)
            return partition->keyspaces[db];
    }
    return NULL;
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

struct search {
    const struct tier *tier;
    struct keyspace *keyspace;
    struct wanted *wanted;
};

static void found_entry(void *context, uint64_t hash, uint32_t handle)
{
    struct search *search = context;

    if (hash >> HOT_PLACE_SHIFT != search->wanted->place)
        return;
    search->wanted->there = true;
    restore_heat(search->tier, search->keyspace, keyspace_entry(search->keyspace, handle), search->wanted->rank);
}

/* Those that clients or the log have brought back already. False: the keyspace is gone. */
static bool find_there(struct warm *warm, struct partition *partition, uint32_t incarnation, struct wanted *wanted, size_t count)
{
    struct search search = { .tier = warm->tier };

    partition_lock(partition);
    search.keyspace = living_keyspace(partition, incarnation);
    for (size_t i = 0; i < count && search.keyspace != NULL; i++) {
        struct table_cursor cursor;

        search.wanted = &wanted[i];
        if (table_seek(&search.keyspace->table, wanted[i].place << HOT_PLACE_SHIFT, &cursor))
            table_home_entries(&search.keyspace->table, &cursor, found_entry, &search);
    }
    partition_unlock(partition);
    return search.keyspace != NULL;
}

/* The iterator at the first record at or after the place. */
static enum status seek_place(struct warm *warm, uint32_t incarnation, uint64_t place)
{
    enum status status = STATUS_OK;

    if (warm->iterator != NULL && (warm->iterated != incarnation || warm->number != store_number(warm->tier->store)))
        close_iterator(warm);
    if (place < warm->sought)
        warm->valid = false;
    warm->sought = place;
    if (warm->valid && warm->current.hash >> HOT_PLACE_SHIFT > place)
        return STATUS_OK;
    for (int i = 0; warm->valid && warm->current.hash >> HOT_PLACE_SHIFT < place && i < NEAR_STEPS; i++) {
        status = store_next(warm->iterator, &warm->current);
        warm->valid = status == STATUS_OK;
    }
    if (status == STATUS_NOT_FOUND || (warm->valid && warm->current.hash >> HOT_PLACE_SHIFT >= place))
        return status;
    if (warm->iterator == NULL) {
        warm->number = store_number(warm->tier->store);
        warm->iterator = store_scan(warm->tier->store, incarnation, place << HOT_PLACE_SHIFT);
        warm->iterated = incarnation;
    } else {
        store_seek(warm->iterator, place << HOT_PLACE_SHIFT);
    }
    status = store_next(warm->iterator, &warm->current);
    warm->valid = status == STATUS_OK;
    return status;
}

enum placing { PLACED, NEEDLESS, OUTDATED };

/* Whether the record that was read is still the key's. LevelDB's records are as old as the iterator. */
static bool is_outdated(const struct warm *warm, const struct keyspace *keyspace, uint64_t place)
{
    uint64_t present;

    if (place == 0)
        return store_number(warm->tier->store) != warm->number;
    return !recordmap_find(keyspace->tier->map, warm->current.hash, warm->current.key, &present) || present != place;
}

/* Under the lock: the record is what the store holds, and the key is in no other state than cold. `place`: where it was read. */
static enum placing place_record(struct warm *warm, struct partition *partition, uint32_t incarnation, const struct record *record,
    uint64_t place, uint16_t rank)
{
    struct tier *tier = warm->tier;
    struct keyspace *keyspace = living_keyspace(partition, incarnation);
    uint64_t hash = warm->current.hash;
    struct entry *entry;

    if (keyspace == NULL || (record->expire_ms >= 0 && record->expire_ms <= clock_wall_ms()) || keyspace_find(keyspace, hash, warm->current.key) != 0 ||
        grave_find(keyspace, hash, warm->current.key) != NULL)
        return NEEDLESS;
    if (load_find(keyspace, hash, warm->current.key) != NULL)
        return NEEDLESS;
    keyspace_assert_locked(keyspace);
    if (!reading_is_possible(keyspace, hash, warm->current.key))
        return NEEDLESS;
    if (is_outdated(warm, keyspace, place))
        return OUTDATED;
    keyspace_assert_locked(keyspace);
    entry = load_install(tier, keyspace, hash, warm->current.key, record);
    entry->heat = 0;
    entry->heat_minutes = heat_minutes(clock_wall_ms());
    restore_heat(tier, keyspace, entry, rank);
    return PLACED;
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

/* The record at the iterator; `*place` is where it was. STATUS_NOT_FOUND: it is gone. */
static enum status read_current(struct warm *warm, struct partition *partition, uint32_t incarnation, struct bytes *record, uint64_t *place)
{
    struct reading_place reading = { 0, NULL };
    struct keyspace *keyspace;
    bool is_there = false;
    enum status status;

    *place = 0;
    *record = warm->current.record;
    if (record->size > 0)
        return STATUS_OK;
    partition_lock(partition);
    keyspace = living_keyspace(partition, incarnation);
    if (keyspace != NULL) {
        keyspace_assert_locked(keyspace);
        is_there = reading_begin(warm->tier, keyspace, warm->current.hash, warm->current.key, &reading);
    }
    partition_unlock(partition);
    if (!is_there)
        return STATUS_NOT_FOUND;
    warm->bytes.size = 0;
    status = reading_record(warm->tier, &reading, incarnation, warm->current.hash, warm->current.key, &warm->bytes);
    reading_end(&reading);
    *place = reading.place;
    *record = buffer_bytes(&warm->bytes);
    return status;
}

static enum status step_over(struct warm *warm)
{
    enum status status = store_next(warm->iterator, &warm->current);

    warm->valid = status == STATUS_OK;
    return status;
}

/* STATUS_LOCKED: the store has changed since it was read. */
static enum status bring_key(struct warm *warm, struct partition *partition, uint32_t incarnation, const struct wanted *wanted)
{
    struct value_limits limits = tier_limits(warm->tier);
    enum status status = seek_place(warm, incarnation, wanted->place);

    while (status == STATUS_OK && warm->current.hash >> HOT_PLACE_SHIFT == wanted->place) {
        enum placing placing;
        struct record record;
        struct bytes bytes;
        uint64_t place;

        status = read_current(warm, partition, incarnation, &bytes, &place);
        if (status == STATUS_NOT_FOUND) {
            status = step_over(warm);
            continue;
        }
        if (status == STATUS_OK && !has_room(warm, bytes.size)) {
            end_warm_up(warm);
            return STATUS_OK;
        }
        warm->scratch.size = 0;
        if (status == STATUS_OK)
            status = record_decode(bytes, &limits, &warm->scratch, &record);
        if (status != STATUS_OK)
            return status;
        partition_lock(partition);
        placing = place_record(warm, partition, incarnation, &record, place, wanted->rank);
        partition_unlock(partition);
        if (placing != PLACED)
            value_free(&record.value);
        if (placing == OUTDATED)
            return STATUS_LOCKED;
        warm->loaded++;
        warm->units += bytes.size / UNIT_SIZE;
        status = step_over(warm);
    }
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
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
    close_iterator(warm);
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
        close_iterator(warm);       /* the store may want to be reopened meanwhile */
        pause_us(warm->next_us - now_us < PAUSE_MS * 1000 ? warm->next_us - now_us : PAUSE_MS * 1000);
        now_us = clock_mono_us();
    }
}

/* Clients' loads come first. */
static void give_way(struct warm *warm)
{
    for (int i = 0; i < GIVE_WAY_TRIES && warm->tier->loads.waiting > 0 && !warm->stopping; i++)
        pause_us(GIVE_WAY_US);
}

static void bring_chunk(struct warm *warm, struct partition *partition, uint32_t incarnation, struct wanted *wanted, size_t count)
{
    for (size_t i = 0; i < count && !is_over(warm); i++) {
        enum status status = STATUS_OK;

        warm->units++;
        for (int tries = 0; !wanted[i].there && tries < READ_TRIES && !warm->stopping; tries++) {
            status = bring_key(warm, partition, incarnation, &wanted[i]);
            if (status != STATUS_LOCKED)
                break;
            if (tries > READ_TRIES / 2)
                pause_us(GIVE_WAY_US);
        }
        warm->loaded += wanted[i].there;
        if (status == STATUS_OK)
            continue;
        close_iterator(warm);
        if (status == STATUS_LOCKED)
            continue;                   /* the store changes all the time: it is loaded when a client asks for it */
        tier_note_error(warm->tier, "a record can't be read for the warm-up", status);
        if (++warm->errors > READ_ERRORS_MAX)
            end_warm_up(warm);
        pause_us(PAUSE_MS * 1000);
    }
}

static void bring_all(struct warm *warm, const struct hot_section *section, struct wanted *wanted, size_t count)
{
    struct partition *partition = &warm->tier->partitions->partitions[section->partition];

    for (size_t at = 0; at < count && !is_over(warm); at += CHUNK_KEYS) {
        size_t part = count - at < CHUNK_KEYS ? count - at : CHUNK_KEYS;

        wait_while_off(warm);
        give_way(warm);
        if (!has_room(warm, 0)) {
            end_warm_up(warm);
            return;
        }
        if (!find_there(warm, partition, section->incarnation, wanted + at, part))
            return;                     /* flushed */
        bring_chunk(warm, partition, section->incarnation, wanted + at, part);
        keep_rate(warm);
    }
}

static int compare_wanted(const void *left, const void *right)
{
    const struct wanted *a = left, *b = right;

    return a->place < b->place ? -1 : a->place > b->place;
}

/* What a section has with ranks from `low` to below `high`, in the order of the hashes. */
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
        uint64_t *places;

        if (group->rank < low || group->rank >= high)
            continue;
        places = mem_alloc(group->count * sizeof(*places));
        if (hot_read(&warm->file, section, group, places) == STATUS_OK) {
            for (uint32_t n = 0; n < group->count; n++)
                wanted[count++] = (struct wanted){ places[n], group->rank, false };
        }
        mem_free(places);
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

static void report(const struct warm *warm, const char *how)
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
    report(warm, warm->pending_rank == 0 ? "done" : "ended, memory is at its mark");
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
    wait_while_off(warm);
    for (int high = HOT_RANKS, low; high > 0 && !is_over(warm); high = low) {
        low = band_low(counts, warm->file.key_count, high);
        for (size_t i = 0; i < warm->file.section_count && !is_over(warm); i++)
            bring_section(warm, &warm->file.sections[i], low, high);
        if (!is_over(warm))
            warm->pending_rank = low;
    }
    close_iterator(warm);
    buffer_release(&warm->scratch);
    buffer_release(&warm->bytes);
    if (!warm->stopping)
        finish_warm_up(warm);
}

static void *warm_main(void *context)
{
    struct warm *warm = context;
    const struct tier_hooks *hooks = &warm->tier->hooks;

    hooks->thread_started(hooks->context, "kelvin-warm");
    setpriority(PRIO_PROCESS, 0, NICE);         /* of this thread alone, in Linux */
    if (open_file(warm))
        warm_up(warm);
    if (hooks->thread_ended != NULL)
        hooks->thread_ended(hooks->context);
    return NULL;
}

void tier_warm_up(struct tier *tier, const char *image)
{
    struct warm *warm = mem_zalloc(sizeof(*warm));

    CHECK(tier->warm == NULL);
    warm->tier = tier;
    warm->image = mem_string(bytes_of_string(image));
    warm->file.fd = -1;
    warm->state = TIER_WARMUP_RUNNING;
    warm->began_us = clock_mono_us();
    warm->running = true;
    tier->warm = warm;
    CHECK(pthread_create(&warm->thread, NULL, warm_main, warm) == 0);
}

void tier_await_warm_up_file(struct tier *tier)
{
    const struct warm *warm = tier->warm;

    while (!warm->opened && warm->state == TIER_WARMUP_RUNNING && !warm->stopping)
        pause_us(1000);
}

void warm_stop(struct warm *warm)
{
    if (warm == NULL || !warm->running)
        return;
    warm->stopping = true;
    pthread_join(warm->thread, NULL);
    warm->running = false;
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

void warm_list_pending(struct warm *warm, uint32_t incarnation, uint32_t partition, struct hot_list *list)
{
    int pending_rank = warm != NULL ? warm->pending_rank : 0;

    for (size_t i = 0; pending_rank > 0 && i < warm->file.section_count; i++) {
        const struct hot_section *section = &warm->file.sections[i];

        if (section->incarnation != incarnation || section->partition != partition)
            continue;
        for (uint32_t n = 0; n < section->group_count; n++) {
            const struct hot_group *group = &section->groups[n];
            uint64_t *places;

            if (group->rank >= pending_rank)
                continue;
            places = mem_alloc(group->count * sizeof(*places));
            if (hot_read(&warm->file, section, group, places) == STATUS_OK) {
                for (uint32_t at = 0; at < group->count; at++)
                    hot_list_add(list, places[at], group->rank);
            }
            mem_free(places);
        }
    }
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
