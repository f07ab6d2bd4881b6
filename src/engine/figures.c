#include "engine/figures.h"

#include "base/clock.h"

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

static uint64_t client_memory(const struct engine *engine)
{
    uint64_t memory = 0;

    for (int i = 0; i < engine->worker_count; i++)
        memory += engine->workers[i]->clients_memory;
    return memory;
}

void memory_figures(struct engine *engine, struct memory_figures *figures)
{
    struct aof *aof = engine->aof;

    *figures = (struct memory_figures){
        .used = engine_memory_used(engine),
        .startup = engine->memory_startup,
        .resident = meter_resident(),
        .clients = client_memory(engine),
    };
    if (figures->used > engine->memory_peak)
        engine->memory_peak = figures->used;
    figures->peak = engine->memory_peak;
    if (aof != NULL)
        figures->aof_buffer = aof_stats(aof).buffer_size;
    for (int db = 0; db < engine->partitions->db_count; db++)
        figures->tables += database_table_size(engine, db);
    if (engine->tier != NULL) {
        struct tier_stats stats;

        tier_stats(engine->tier, &stats);
        figures->tier = stats.recordmap_bytes + stats.store_memory;
    }
    figures->overhead = figures->startup + figures->clients + figures->aof_buffer + figures->tables + figures->tier;
    /* What was there at the start may have been freed since. */
    if (figures->overhead > figures->used)
        figures->overhead = figures->used;
    figures->dataset = figures->used - figures->overhead;
    figures->has_allocator = meter_allocator(&figures->allocator);
}

bool database_key_count(struct engine *engine, int db, uint64_t *count)
{
    if (engine->tier != NULL)
        return tier_count_now(engine->tier, db, count);
    *count = partitions_entry_count(engine->partitions, db);
    return true;
}

struct sampling {
    const struct keyspace *keyspace;
    struct expiry_figures *figures;
    int64_t now_ms;
};

static void sample_entry(void *context, uint64_t hash, uint32_t handle)
{
    struct sampling *sampling = context;
    int64_t expire_ms = entry_expire_ms(keyspace_entry(sampling->keyspace, handle));

    (void)hash;
    if (expire_ms < 0)
        return;
    sampling->figures->sampled++;
    if (expire_ms <= sampling->now_ms)
        sampling->figures->expired++;
    else
        sampling->figures->ttl_ms += (uint64_t)(expire_ms - sampling->now_ms);
}

/* Hash order has nothing to do with expiry, so that the first buckets are as good as any. */
static void sample_keyspace(const struct keyspace *keyspace, struct sampling *sampling)
{
    struct table_cursor cursor;
    bool more = table_seek(&keyspace->table, partition_first_hash(keyspace->partition), &cursor);

    sampling->keyspace = keyspace;
    for (int i = 0; i < SAMPLE_BUCKETS && more; i++) {
        table_home_entries(&keyspace->table, &cursor, sample_entry, sampling);
        more = table_next(&keyspace->table, &cursor);
    }
}

void database_expiry(struct engine *engine, int db, struct expiry_figures *figures)
{
    struct sampling sampling = { .figures = figures, .now_ms = clock_wall_ms() };

    *figures = (struct expiry_figures){ 0 };
    for (uint32_t i = 0; i < engine->partitions->count; i++) {
        struct partition *partition = &engine->partitions->partitions[i];
        const struct keyspace *keyspace;

        partition_lock(partition);
        keyspace = partition_keyspace_if(partition, db);
        if (keyspace != NULL && keyspace->expiring_count > 0) {
            figures->count += keyspace->expiring_count;
            sample_keyspace(keyspace, &sampling);
        }
        partition_unlock(partition);
    }
}
