/* Statistics of the data as a whole, for INFO and MEMORY. Any thread; the functions lock one partition after another, each for a short time. */
#ifndef KELVIN_ENGINE_DATA_STATS_H
#define KELVIN_ENGINE_DATA_STATS_H

#include "engine/engine.h"

/* Bytes. used = overhead + dataset, and overhead = startup + clients + aof_buffer + tables + tier. */
struct memory_stats {
    uint64_t used, peak, startup, resident;
    uint64_t clients;           /* their buffers */
    uint64_t aof_buffer;
    uint64_t tables;            /* from hashes to entries */
    uint64_t tier;              /* the record map, and what the store holds in RAM */
    uint64_t scripts, functions;    /* sources of EVAL; libraries */
    uint64_t interpreters;
    uint64_t overhead, dataset;
    enum { DEMOTION_OFF, DEMOTION_ON, DEMOTION_FULL, DEMOTION_FAILS } demotion;       /* whether the store takes keys, and why not */
    bool warming_up;            /* keys that were hot before the restart are being loaded */
    uint64_t hot_keys, cold_keys;
    bool has_allocator;         /* jemalloc reports: */
    struct meter_allocator allocator;
};
void memory_stats(struct engine *engine, struct memory_stats *stats);

/* Bytes of a database's tables. */
uint64_t database_table_size(struct engine *engine, int db);

/* Keys of both tiers. False: a key that was overwritten while it may be cold, and was not looked up in the store yet, may have been
 * counted twice. */
bool database_key_count(struct engine *engine, int db, uint64_t *count);

/* Keys of all databases at once: `keys` has one for each database. Each partition is locked once, so they are not of one instant; and see
 * tier_keyspace_count. */
struct database_keys {
    uint64_t hot, cold;
    uint64_t expiring;          /* of the hot ones: those with a time to live */
};
void database_keys(struct engine *engine, struct database_keys *keys);

/* Keys in RAM that expire: their number, and a sample of them. */
struct expiry_stats {
    uint64_t count;
    uint64_t sampled;
    uint64_t expired;           /* of the sample: past their time, not removed yet */
    uint64_t ttl_ms;            /* of the sample: sum of what is left to live */
};
void database_expiry(struct engine *engine, int db, struct expiry_stats *stats);

#endif
