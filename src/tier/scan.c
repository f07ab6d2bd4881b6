/* SCAN, DBSIZE and WHERE over both tiers: tier rules 2 and 11.
 *
 * A page's hot part is read under the partition's lock, and its iterator over the index is opened under it, too, which neither reads nor waits. So both
 * are as of one instant: a key that exists and has no entry then has its record in what the iterator shows. The index is read without the lock;
 * what it shows is compared with entries and graves as they are afterwards.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tier/due.h"
#include "tier/grave.h"
#include "tier/look_up.h"
#include "tier/reading.h"
#include "tier/record.h"
#include "tier/tier_private.h"

enum { SCAN_HASH_SHIFT = 16, SCAN_COLD_FACTOR = 4, LOCKED_KEYS_MAX = 256, KEYS_AHEAD = 8, HOT_SPARE = 16, STEPS_MAX = 8 };

/* The hot keys of one partition's step, with their hashes: index `base` + i of the page has hashes[i].hash. */
struct hot_key {
    uint64_t hash;
    size_t index;
};

struct hot_scan {
    struct keyspace *keyspace;
    struct scan_page *page;
    uint64_t from, until;           /* hashes, inclusive */
    size_t base;
    struct hot_key *keys;           /* sorted by sort_hot */
    size_t capacity;
};

static void found_hot(void *context, uint64_t hash, uint32_t handle)
{
    struct hot_scan *scan = context;
    struct entry *entry = keyspace_entry(scan->keyspace, handle);
    size_t at = scan->page->count - scan->base;

    if (hash < scan->from || hash > scan->until)
        return;
    if (at == scan->capacity) {
        scan->capacity = scan->capacity * 2 + 64;
        scan->keys = mem_realloc(scan->keys, scan->capacity * sizeof(struct hot_key));
    }
    scan->keys[at] = (struct hot_key){ hash, scan->page->count };
    scan_page_add(scan->page, entry_key(entry), entry_type(entry), entry_death_ms(entry));
}

static int by_hash(const void *a, const void *b)
{
    uint64_t x = ((const struct hot_key *)a)->hash, y = ((const struct hot_key *)b)->hash;

    return (x > y) - (x < y);
}

static uint64_t partition_last_hash(const struct partition *partition)
{
    return partition_first_hash(partition) | (partition->all->bits == 0 ? ~0ull : ~0ull >> partition->all->bits);
}

/* How many keys the page is to have when its hot part ends: not many more hot ones than there will be between its cold ones. */
static size_t hot_part(const struct keyspace *keyspace, const struct scan_page *page, size_t count)
{
    double hot = (double)keyspace->table.count, cold = (double)recordmap_count(keyspace->tier->map);
    double likely = (double)page->count + (double)count * SCAN_COLD_FACTOR * 5 / 4 * hot / (cold + 1) + HOT_SPARE;
    double least = (double)page->count + (double)count / STEPS_MAX;      /* a slot may be hot where others are cold */

    likely = likely > least ? likely : least;
    return likely < (double)count ? (size_t)likely : count;
}

/* The hot keys from `from` to `last`, until there are `count` of them. Returns the last hash covered, the end of
 * a step of 2^16 hashes: all keys of one cursor value come at once. */
static uint64_t scan_hot(struct keyspace *keyspace, uint64_t from, uint64_t last, size_t count, struct scan_page *page, struct hot_scan *hot)
{
    uint64_t step = (1ull << SCAN_HASH_SHIFT) - 1;
    struct table_cursor cursor;
    bool more = table_seek(&keyspace->table, from, &cursor);

    *hot = (struct hot_scan){ keyspace, page, from, last, page->count, NULL, 0 };
    while (more) {
        /* The bucket's range may end within a step: the rest of the step comes from the following buckets. */
        table_home_entries(&keyspace->table, &cursor, found_hot, hot);
        if (page->count >= count && cursor.last_hash < last) {
            uint64_t until = cursor.last_hash | step;

            while (cursor.last_hash < until && table_next(&keyspace->table, &cursor)) {
                hot->until = until;
                table_home_entries(&keyspace->table, &cursor, found_hot, hot);
            }
            return until < last ? until : last;
        }
        more = cursor.last_hash < last && table_next(&keyspace->table, &cursor);
    }
    return last;
}

/* Drops the keys after `until`: the cold part ended earlier. The hot keys are sorted, and stay so. */
static void page_cut(struct hot_scan *hot, uint64_t until)
{
    size_t count = hot->page->count - hot->base, kept = 0;

    while (kept < count && hot->keys[kept].hash <= until)
        kept++;
    hot->page->count = hot->base + kept;
}

/* Sorts the page's hot keys by their hashes, for looking up and for cutting. */
static void sort_hot(struct hot_scan *hot)
{
    size_t count = hot->page->count - hot->base;
    struct scan_key *sorted;

    if (count == 0)
        return;
    qsort(hot->keys, count, sizeof(struct hot_key), by_hash);
    sorted = mem_alloc(count * sizeof(struct scan_key));
    for (size_t i = 0; i < count; i++)
        sorted[i] = hot->page->keys[hot->keys[i].index];
    memcpy(&hot->page->keys[hot->base], sorted, count * sizeof(struct scan_key));
    mem_free(sorted);
}

static bool page_has(const struct hot_scan *hot, size_t count, uint64_t hash, struct bytes key)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (hot->keys[middle].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < count && hot->keys[low].hash == hash; low++) {
        if (bytes_equal(scan_page_key(hot->page, hot->base + low), key))
            return true;
    }
    return false;
}

static void note_lsn(struct scan_page *page, const struct partition *partition)
{
    ASSERT_LOCKED(partition);
    if (partition->last_lsn > page->lsn)
        page->lsn = partition->last_lsn;
}

/* The expiry of cold keys, if they may have expired. */
static void read_due(struct tier *tier, struct partition *partition, uint32_t incarnation, struct scan_page *cold, const uint64_t *hashes)
{
    struct due due;

    due_find(tier, clock_wall_ms(), &due);
    for (size_t i = 0; i < cold->count; i++) {
        struct listed_key listed = { .partition = partition, .incarnation = incarnation, .hash = hashes[i] };

        if (!due_may_have(&due, hashes[i]))
            continue;
        look_up_key(tier, &listed, scan_page_key(cold, i));
        if (listed.status == STATUS_OK)
            cold->keys[i].expire_ms = listed.gone_ms;
    }
    due_release(&due);
}

/* Adds the cold keys in from..until after the hot ones. Closes the iterator. Returns the last hash covered. */
static uint64_t scan_cold(struct tier *tier, struct store_iterator *iterator, struct partition *partition, uint32_t incarnation, uint64_t until,
    size_t count, struct hot_scan *hot)
{
    struct scan_page cold = { 0 };
    struct store_record record;
    uint64_t step = (1ull << SCAN_HASH_SHIFT) - 1, cut = until, *hashes = NULL;
    struct scan_page *page = hot->page;
    struct keyspace *keyspace;
    size_t hot_count;

    while ((page->status = store_next(iterator, &record)) == STATUS_OK && record.hash <= cut) {
        if (cold.count / SCAN_COLD_FACTOR >= count && cut == until)
            cut = record.hash | step;
        if (cold.count % 64 == 0)
            hashes = mem_realloc(hashes, (cold.count + 64) * sizeof(*hashes));
        hashes[cold.count] = record.hash;
        scan_page_add(&cold, record.key, VALUE_STRING, -1);       /* the record map has its type */
    }
    if (page->status == STATUS_NOT_FOUND)
        page->status = STATUS_OK;
    store_scan_close(iterator);
    read_due(tier, partition, incarnation, &cold, hashes);
    if (cut > until)
        cut = until;
    sort_hot(hot);
    if (cut < until)
        page_cut(hot, cut);
    hot_count = page->count - hot->base;
    partition_lock(partition);
    keyspace = tier_keyspace_of(partition, incarnation);
    for (size_t i = 0; keyspace != NULL && i < cold.count; i++) {
        struct scan_key *cold_key = &cold.keys[i];
        uint64_t place = 0;
        struct bytes key = scan_page_key(&cold, i);
        uint32_t handle = keyspace_find(keyspace, hashes[i], key);

        if (i % LOCKED_KEYS_MAX == LOCKED_KEYS_MAX - 1) {       /* let other threads have the lock */
            partition_unlock(partition);
            partition_lock(partition);
            keyspace = tier_keyspace_of(partition, incarnation);
            if (keyspace == NULL)
                break;
            handle = keyspace_find(keyspace, hashes[i], key);
        }
        keyspace_assert_locked(keyspace);
        if (i + KEYS_AHEAD < cold.count)
            tier_prefetch(keyspace, hashes[i + KEYS_AHEAD]);
        if (grave_find(keyspace, hashes[i], key) != NULL && handle == 0)
            continue;
        /* Deleted before this scan began, and the record was deleted only after the iterator was opened: its tag is gone, too. */
        if (handle == 0 && !reading_find(keyspace, hashes[i], key, &place))
            continue;
        if (handle == 0)
            cold_key->type = (enum value_type)place_kind(place);
        if (page_has(hot, hot_count, hashes[i], key))
            continue;
        /* The key was loaded or set again after the hot part was read: it exists. */
        if (handle != 0) {
            struct entry *entry = keyspace_entry(keyspace, handle);

            cold_key->type = entry_type(entry);
            cold_key->expire_ms = entry_death_ms(entry);
        }
        scan_page_add(page, key, cold_key->type, cold_key->expire_ms);
    }
    note_lsn(page, partition);
    partition_unlock(partition);
    mem_free(hashes);
    scan_page_release(&cold);
    return cut;
}

static bool keyspace_has_cold(const struct keyspace *keyspace)
{
    return keyspace->tier != NULL && recordmap_count(keyspace->tier->map) >
        keyspace->record_counts[RECORD_STALE] + keyspace->record_counts[RECORD_CLEAN] +
            (keyspace->tier->graves.count - keyspace->tier->unknown_graves);
}

enum { EVERY_SLOT = -1 };

/* The same for one slot. */
static bool slot_has_cold(const struct keyspace *keyspace, int slot)
{
    const struct slot_counts *counts;

    if (slot == EVERY_SLOT)
        return keyspace_has_cold(keyspace);
    counts = keyspace_slot(keyspace, slot_first_hash((uint16_t)slot));
    return counts->records > counts->shadowed;
}

bool tier_slot_has_cold(struct partitions *partitions, int db, uint16_t slot)
{
    struct partition *partition = &partitions->partitions[partition_index(partitions, slot_first_hash(slot))];
    bool has;

    partition_lock(partition);
    has = partition->keyspaces[db] != NULL && slot_has_cold(partition->keyspaces[db], slot);
    partition_unlock(partition);
    return has;
}

bool tier_has_cold(struct tier *tier, int db)
{
    bool has = false;

    for (uint32_t i = 0; i < tier->partitions->count && !has; i++) {
        struct partition *partition = &tier->partitions->partitions[i];

        partition_lock(partition);
        has = partition->keyspaces[db] != NULL && keyspace_has_cold(partition->keyspaces[db]);
        partition_unlock(partition);
    }
    return has;
}

/* Adds the keys of one partition, or of one slot of it, from `from` on, up to about `count`. Returns the last hash covered. */
static uint64_t scan_step(struct tier *tier, struct partition *partition, int slot, const struct reader *reader, int db, uint64_t from,
    size_t count, struct scan_page *page)
{
    uint64_t last = slot == EVERY_SLOT ? partition_last_hash(partition) : slot_last_hash((uint16_t)slot);
    uint64_t until = last;
    struct store_iterator *iterator = NULL;
    struct keyspace *keyspace;
    struct hot_scan hot = { 0 };
    uint32_t incarnation = 0;
    bool cold = false;

    if (!partition_lock_for(partition, reader)) {
        page->status = STATUS_LOCKED;
        return from;
    }
    keyspace = partition_keyspace_if(partition, db);
    if (keyspace != NULL) {
        cold = tier != NULL && slot_has_cold(keyspace, slot);
        until = scan_hot(keyspace, from, last, cold ? hot_part(keyspace, page, count) : count, page, &hot);
        incarnation = keyspace->incarnation;
    }
    if (cold)
        iterator = store_scan(tier->store, incarnation, from);
    note_lsn(page, partition);
    partition_unlock(partition);
    if (iterator != NULL)
        until = scan_cold(tier, iterator, partition, incarnation, until, count, &hot);
    mem_free(hot.keys);
    return until;
}

void tier_scan(struct tier *tier, struct partitions *partitions, const struct reader *reader, int db, uint64_t cursor, size_t count,
    struct scan_page *page)
{
    uint64_t from = cursor << SCAN_HASH_SHIFT;

    page->status = STATUS_OK;
    if (count == 0)
        count = 1;
    for (;;) {
        struct partition *partition = &partitions->partitions[partition_index(partitions, from)];
        uint64_t until = scan_step(tier, partition, EVERY_SLOT, reader, db, from, count, page);

        page->cursor = (until + 1) >> SCAN_HASH_SHIFT;
        from = until + 1;
        if (from == 0 || page->count >= count || page->status != STATUS_OK)
            break;
    }
}

void tier_slot_list(struct tier *tier, struct partitions *partitions, const struct reader *reader, int db, uint16_t slot, size_t count,
    struct scan_page *page)
{
    struct partition *partition = &partitions->partitions[partition_index(partitions, slot_first_hash(slot))];
    uint64_t last = slot_last_hash(slot), until = slot_first_hash(slot) - 1;

    page->status = STATUS_OK;
    while (until != last && page->count < count && page->status == STATUS_OK)
        until = scan_step(tier, partition, slot, reader, db, until + 1, count, page);
    if (page->count > count)
        page->count = count;
}

uint64_t tier_slot_page(struct tier *tier, struct partitions *partitions, const struct reader *reader, int db, uint16_t slot, uint64_t from, size_t count,
    struct scan_page *page)
{
    struct partition *partition = &partitions->partitions[partition_index(partitions, slot_first_hash(slot))];

    page->status = STATUS_OK;
    return scan_step(tier, partition, slot, reader, db, from, count, page);
}

enum tier_place tier_where(struct tier *tier, int db, struct bytes key)
{
    uint64_t hash = key_hash(&tier->partitions->seed, key);
    struct partition *partition = &tier->partitions->partitions[partition_index(tier->partitions, hash)];
    struct keyspace *keyspace;
    struct listed_key listed = { .partition = partition, .hash = hash, .status = STATUS_NOT_FOUND };
    enum tier_place place = TIER_NOWHERE;
    int64_t expire_ms = -1;
    uint32_t handle;

    partition_lock(partition);
    keyspace = partition_keyspace_if(partition, db);
    if (keyspace != NULL && (handle = keyspace_find(keyspace, hash, key)) != 0) {
        expire_ms = entry_death_ms(keyspace_entry(keyspace, handle));
        place = TIER_HOT;
    } else if (keyspace != NULL && grave_find(keyspace, hash, key) == NULL) {
        keyspace_assert_locked(keyspace);
        listed.incarnation = reading_is_possible(keyspace, hash, key) ? keyspace->incarnation : 0;
    }
    partition_unlock(partition);
    if (listed.incarnation != 0)
        look_up_key(tier, &listed, key);
    if (listed.status == STATUS_OK)
        expire_ms = listed.gone_ms;
    if (listed.status != STATUS_NOT_FOUND)
        place = listed.status == STATUS_OK ? TIER_COLD : TIER_UNREADABLE;
    if (expire_ms >= 0 && expire_ms <= clock_wall_ms())
        return TIER_NOWHERE;
    return place;
}
