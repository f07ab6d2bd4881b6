#include "tier/statistics.h"

#include <string.h>

#include "base/clock.h"
#include "base/histogram.h"
#include "keyspace/heat.h"
#include "keyspace/uses.h"
#include "tier/advise.h"
#include "tier/tier_private.h"
#include "tier/warm.h"
#include "tier/writing.h"

void statistics_init(struct statistics *statistics)
{
    mutex_init(&statistics->error_lock);
}

void statistics_release(struct statistics *statistics)
{
    mutex_release(&statistics->error_lock);
}

/* The lower end of the bucket. */
static uint64_t percentile_us(const uint64_t counts[LOAD_LATENCY_BUCKETS], uint64_t total, double percent)
{
    return histogram_bucket_min(histogram_percentile_bucket(counts, LOAD_LATENCY_BUCKETS, total, percent), LOAD_LATENCY_STEP_BITS);
}

/* Notes the statistics of the store, and of what it was opened from: another one may take its place. */
static void note_store(struct tier *tier, struct tier_stats *stats)
{
    struct segments_stats segments = { 0 };

    if (tier->store_changes)
        return;                     /* a worker must not wait until the old store's files were removed */
    mutex_lock(&tier->store_lock);
    if (tier->store != NULL) {
        stats->store_memory = store_memory(tier->store);
        segments_measure(store_segments(tier->store), &segments);
        stats->dictionaries = dictionaries_count(store_dictionaries(tier->store));
    }
    warm_stats(tier->warm, stats);
    mutex_unlock(&tier->store_lock);
    stats->segments = segments.count;
    stats->segment_bytes = segments.bytes;
    stats->segment_live_bytes = segments.live_bytes;
    stats->segment_written_bytes = segments.written_bytes;
}

static void note_rules(struct tier *tier, struct tier_stats *stats)
{
    const struct key_rules *rules = rulebook_hold(&tier->rules);

    stats->pinned_keys = key_rules_pin_count(rules);
    stats->rules = key_rules_count(rules);
    key_rules_release(rules);
}

const char *tier_state_name(enum tier_state state)
{
    static const char *const names[TIER_STATES] = { [TIER_OFF] = "off", [TIER_OK] = "ok", [TIER_FULL] = "full", [TIER_ERROR] = "error" };

    return names[state];
}

/* Records that entries or graves are over. */
static uint64_t recorded(const struct keyspace *keyspace)
{
    return keyspace->record_counts[RECORD_STALE] + keyspace->record_counts[RECORD_CLEAN] + keyspace->tier->graves.count -
           keyspace->tier->unknown_graves;
}

void tier_stats(struct tier *tier, struct tier_stats *stats)
{
    uint64_t counts[LOAD_LATENCY_BUCKETS], total, newer;

    *stats = (struct tier_stats){
        .state = tier->settings.enabled ? (enum tier_state)tier->state : TIER_OFF,
        .demotions = tier->statistics.demotions,
        .clean_demotions = tier->statistics.clean_demotions,
        .promotions = tier->statistics.promotions,
        .looks = tier->statistics.looks,
        .batches = tier->statistics.batches,
        .loads_waiting = tier->loads_waiting,
        .reads_by_ring = tier->rings.worker_count > 0,
        .ring_reads = tier->statistics.ring_reads,
        .ring_batches = tier->statistics.ring_batches,
        .false_maybes = tier->statistics.false_maybes,
        .store_bytes = tier->statistics.store_bytes,
        .graves = tier->statistics.graves,
        .unplanned_reads = tier->statistics.unplanned_reads,
        .errors = tier->statistics.errors,
        .expired_cold = tier->statistics.expired_cold,
        .evicted_cold = tier->statistics.evicted_cold,
        .resolved = tier->statistics.resolved,
    };
    note_store(tier, stats);
    note_rules(tier, stats);
    damage_count(tier, &stats->damaged_records, &newer);
    stats->collected_bytes = tier->statistics.collected_bytes;
    stats->packed_records = tier->packing.records;
    stats->packing_saved_bytes = tier->packing.saved_bytes;
    stats->packed_hits = tier->statistics.packed_hits;
    stats->packing_ratio = packing_info_ratio(&tier->packing);
    for (uint32_t i = 0; i < tier->partitions->count; i++) {
        struct partition *partition = &tier->partitions->partitions[i];

        partition_lock(partition);
        for (int space = 0; space < tier->partitions->space_count; space++) {
            struct keyspace *keyspace = partition->keyspaces[space];
            bool of_pages = space >= tier->partitions->db_count;

            if (keyspace == NULL)
                continue;
            *(of_pages ? &stats->hot_pages : &stats->hot_keys) += keyspace->table.count;
            *(of_pages ? &stats->cold_pages : &stats->cold_keys) += recordmap_count(keyspace->tier->map) - recorded(keyspace);
            stats->unknown_keys += keyspace->record_counts[RECORD_UNKNOWN] + keyspace->tier->unknown_graves;
            stats->dirty_keys += keyspace->table.count - keyspace->record_counts[RECORD_CLEAN];
            stats->hot_bytes += keyspace_live_size(keyspace);
            stats->held_bytes += keyspace_held_size(keyspace);
            stats->recordmap_bytes += recordmap_size(keyspace->tier->map);
            if (keyspace->tier->packed != NULL) {
                stats->packed_keys += keyspace->tier->packed->table.count;
                stats->packed_bytes += keyspace_held_size(keyspace->tier->packed);
            }
        }
        partition_unlock(partition);
    }
    total = histogram_load(tier->statistics.latency, LOAD_LATENCY_BUCKETS, counts);
    stats->load_p50_us = percentile_us(counts, total, 50);
    stats->load_p99_us = percentile_us(counts, total, 99);
    mutex_lock(&tier->statistics.error_lock);
    memcpy(stats->last_error, tier->statistics.last_error, sizeof(stats->last_error));
    stats->last_error_us = tier->statistics.last_error_us;
    mutex_unlock(&tier->statistics.error_lock);
}

uint64_t tier_load_latency(const struct tier *tier, uint64_t counts[LOAD_LATENCY_BUCKETS])
{
    histogram_load(tier->statistics.latency, LOAD_LATENCY_BUCKETS, counts);
    return tier->statistics.latency_us;
}

void tier_reset_stats(struct tier *tier)
{
    tier->statistics.demotions = tier->statistics.clean_demotions = tier->statistics.promotions = tier->statistics.packed_hits = tier->statistics.looks = tier->statistics.batches = tier->statistics.false_maybes = 0;
    tier->statistics.errors = tier->statistics.unplanned_reads = tier->statistics.expired_cold = tier->statistics.evicted_cold = tier->statistics.resolved = 0;
    advise_reset(tier->advise);
    histogram_clear(tier->statistics.latency, LOAD_LATENCY_BUCKETS);
    tier->statistics.latency_us = 0;
}

void tier_histogram(struct tier *tier, int db, enum tier_order order, uint64_t histogram[256])
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
                histogram[order == TIER_BY_USES ? 2 * entry->uses + !!(entry->flags & ENTRY_PROBATION) : heat_now(&settings, entry->heat, entry->heat_minutes, now)]++;
            }
        }
        partition_unlock(partition);
    }
}
