#include "engine/data_stats.h"

#include <string.h>

#include "base/clock.h"
#include "engine/memory.h"
#include "engine/scripts.h"

enum { SAMPLE_BUCKETS = 8 };        /* of each partition */

uint64_t database_table_size(struct engine *engine, int db)
{
    uint64_t size = 0;

    for (uint32_t i = 0; i < engine->partitions->count; i++) {
        struct partition *partition = &engine->partitions->partitions[i];
        const struct keyspace *keyspace;

        partition_lock(partition);
        keyspace = partition_keyspace_if(partition, db);
        if (keyspace != NULL)
            size += table_size(&keyspace->table);
        partition_unlock(partition);
    }
    return size;
}

static void add_scripts(const struct engine *engine, struct memory_stats *stats)
{
    struct registry_stats registry;

    registry_stats(engine->scripts, &registry);
    stats->scripts = registry.source_bytes;
    stats->functions = registry.library_bytes;
    stats->interpreters = scripts_memory(engine);
}

static void add_tier(const struct engine *engine, struct memory_stats *stats)
{
    struct tier_stats tier;

    tier_stats(engine->tier, &tier);
    stats->tier = tier.recordmap_bytes + tier.store_memory;
    stats->demotion = tier.state == TIER_OK ? DEMOTION_ON : tier.state == TIER_FULL ? DEMOTION_FULL : tier.state == TIER_ERROR ? DEMOTION_FAILS : DEMOTION_OFF;
    stats->warming_up = tier.warmup == TIER_WARMUP_RUNNING;
    stats->hot_keys = tier.hot_keys;
    stats->cold_keys = tier.cold_keys;
}

void memory_stats(struct engine *engine, struct memory_stats *stats)
{
    struct aof *aof = engine->aof;

    *stats = (struct memory_stats){
        .used = memory_used(engine),
        .startup = engine->memory.startup,
        .resident = meter_resident(),
        .clients = client_memory_used(engine),
    };
    if (stats->used > engine->memory.peak)
        engine->memory.peak = stats->used;
    stats->peak = engine->memory.peak;
    if (aof != NULL)
        stats->aof_buffer = aof_stats(aof).buffer_size;
    for (int db = 0; db < engine->partitions->db_count; db++)
        stats->tables += database_table_size(engine, db);
    if (engine->tier != NULL)
        add_tier(engine, stats);
    add_scripts(engine, stats);
    stats->overhead = stats->startup + stats->clients + stats->aof_buffer + stats->tables + stats->tier + stats->scripts + stats->functions +
        stats->interpreters;
    /* Memory that was there at the start may have been freed since. */
    if (stats->overhead > stats->used)
        stats->overhead = stats->used;
    stats->dataset = stats->used - stats->overhead;
    stats->has_allocator = meter_allocator(&stats->allocator);
}

bool database_key_count(struct engine *engine, int db, uint64_t *count)
{
    if (engine->tier != NULL)
        return tier_count_now(engine->tier, NULL, db, count);
    *count = partitions_entry_count(engine->partitions, db);
    return true;
}

static void add_keys(const struct keyspace *keyspace, struct database_keys *keys)
{
    uint64_t all = tier_keyspace_count(keyspace);

    keys->hot += keyspace->table.count;
    keys->cold += all > keyspace->table.count ? all - keyspace->table.count : 0;
    keys->expiring += keyspace->expiring_count;
}

void database_keys(struct engine *engine, struct database_keys *keys)
{
    int db_count = engine->partitions->db_count;

    memset(keys, 0, (size_t)db_count * sizeof(*keys));
    for (uint32_t i = 0; i < engine->partitions->count; i++) {
        struct partition *partition = &engine->partitions->partitions[i];

        partition_lock(partition);
        for (int db = 0; db < db_count; db++) {
            const struct keyspace *keyspace = partition_keyspace_if(partition, db);

            if (keyspace != NULL)
                add_keys(keyspace, &keys[db]);
        }
        partition_unlock(partition);
    }
}

struct sampling {
    const struct keyspace *keyspace;
    struct expiry_stats *stats;
    int64_t now_ms;
};

static void sample_entry(void *context, uint64_t hash, uint32_t handle)
{
    struct sampling *sampling = context;
    int64_t expire_ms = entry_expire_ms(keyspace_entry(sampling->keyspace, handle));

    (void)hash;
    if (expire_ms < 0)
        return;
    sampling->stats->sampled++;
    if (expire_ms <= sampling->now_ms)
        sampling->stats->expired++;
    else
        sampling->stats->ttl_ms += (uint64_t)(expire_ms - sampling->now_ms);
}

/* Hash order has nothing to do with expiry, so that the first buckets are as good as any. */
static void sample_keyspace(const struct keyspace *keyspace, struct sampling *sampling)
{
    struct table_cursor cursor;
    bool more = table_seek(&keyspace->table, partition_first_hash(keyspace->partition), &cursor);

    sampling->keyspace = keyspace;
    for (int i = 0; i < SAMPLE_BUCKETS && more; more = table_next(&keyspace->table, &cursor)) {
        if (table_bucket_is_unused(cursor.bucket))
            continue;
        table_home_entries(&keyspace->table, &cursor, sample_entry, sampling);
        i++;
    }
}

void database_expiry(struct engine *engine, int db, struct expiry_stats *stats)
{
    struct sampling sampling = { .stats = stats, .now_ms = clock_wall_ms() };

    *stats = (struct expiry_stats){ 0 };
    for (uint32_t i = 0; i < engine->partitions->count; i++) {
        struct partition *partition = &engine->partitions->partitions[i];
        const struct keyspace *keyspace;

        partition_lock(partition);
        keyspace = partition_keyspace_if(partition, db);
        if (keyspace != NULL && keyspace->expiring_count > 0) {
            stats->count += keyspace->expiring_count;
            sample_keyspace(keyspace, &sampling);
        }
        partition_unlock(partition);
    }
}
