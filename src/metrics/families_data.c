/* Metrics of memory, keys and the cold tier. */
#include "metrics/families.h"

#include <stdio.h>

#include "base/histogram.h"
#include "engine/lazy_free.h"
#include "engine/memory.h"

enum {
    DATABASES_SHOWN = 64,               /* that have keys, one by one; the others are added up */
    LOAD_FIRST_BITS = 4, LOAD_LAST_BITS = 23,   /* 16 us to 8 s, in microseconds */
};

static double stat_of(const struct readings *readings, enum statistic stat)
{
    return (double)engine_stat(readings->engine, stat);
}

void families_memory(struct exposition *out, const struct readings *readings)
{
    struct engine *engine = readings->engine;
    const struct memory_stats *memory = &readings->memory;

    family_gauge(out, "kelvin_memory_used_bytes", "bytes", "Memory that the server has allocated.", (double)memory->used);
    family_gauge(out, "kelvin_memory_peak_bytes", "bytes", "The most that was allocated.", (double)memory->peak);
    family_gauge(out, "kelvin_memory_resident_bytes", "bytes", "Resident set size of the process.", (double)memory->resident);
    family_gauge(out, "kelvin_memory_max_bytes", "bytes", "maxmemory; 0: no limit.", (double)config_number(engine->config, CONFIG_MAXMEMORY));
    family_gauge(out, "kelvin_memory_counted_bytes", "bytes", "What is compared with maxmemory.",
        (double)memory_counted_or_used(&readings->room, memory->used));
    family_labelled(out, &(struct metric){ "kelvin_memory_part_bytes", METRIC_GAUGE, "bytes", "What the used memory is for." }, "part",
        (struct family_sample[]){
            { "startup", (double)memory->startup },
            { "clients", (double)memory->clients },
            { "aof_buffer", (double)memory->aof_buffer },
            { "tables", (double)memory->tables },
            { "tier", (double)memory->tier },
            { "scripts", (double)(memory->scripts + memory->functions + memory->interpreters) },
            { "dataset", (double)memory->dataset },
        }, 7);
    family_labelled(out, &(struct metric){ "kelvin_memory_allocator_bytes", METRIC_GAUGE, "bytes", "jemalloc's own numbers." }, "state",
        (struct family_sample[]){
            { "allocated", (double)memory->allocator.allocated },
            { "active", (double)memory->allocator.active },
            { "resident", (double)memory->allocator.resident },
        }, memory->has_allocator ? 3 : 0);
    family_gauge(out, "kelvin_memory_waiting_clients", NULL, "Clients that wait for memory.", (double)readings->waits.clients);
    family_gauge(out, "kelvin_memory_waiting_seconds", "seconds", "How long the one of them has waited that came first.", (double)readings->waits.longest_ms / 1000);
    family_counter(out, "kelvin_memory_throttled", NULL, "Calls that had to wait for memory.", stat_of(readings, STAT_THROTTLED));
    family_gauge(out, "kelvin_lazyfree_pending", NULL, "Objects that are still to be freed in the background.", (double)lazy_free_pending(engine->lazy_free));
}

static void write_database(struct exposition *out, const char *db, const struct database_keys *keys)
{
    struct label labels[] = { { "db", bytes_of_string(db) }, { "tier", BYTES("hot") } };

    exposition_integer(out, labels, 2, keys->hot);
    labels[1].value = BYTES("cold");
    exposition_integer(out, labels, 2, keys->cold);
}

static void write_expiring(struct exposition *out, const char *db, const struct database_keys *keys)
{
    exposition_integer(out, &(struct label){ "db", bytes_of_string(db) }, 1, keys->expiring);
}

/* Calls `write` for those that have keys. */
static void each_database(struct exposition *out, const struct readings *readings,
    void (*write)(struct exposition *out, const char *db, const struct database_keys *keys))
{
    struct database_keys others = { .hot = 0 };
    int shown = 0;
    char name[16];

    for (int db = 0; db < readings->database_count; db++) {
        const struct database_keys *keys = &readings->databases[db];

        if (keys->hot + keys->cold == 0 && db > 0)
            continue;
        if (shown++ < DATABASES_SHOWN) {
            snprintf(name, sizeof(name), "%d", db);
            write(out, name, keys);
        } else {
            others.hot += keys->hot;
            others.cold += keys->cold;
            others.expiring += keys->expiring;
        }
    }
    if (shown > DATABASES_SHOWN)
        write(out, "others", &others);
}

void families_keys(struct exposition *out, const struct readings *readings)
{
    exposition_begin(out, &(struct metric){ "kelvin_keys", METRIC_GAUGE, NULL, "Keys, by database and by where they are." });
    each_database(out, readings, write_database);
    exposition_begin(out, &(struct metric){ "kelvin_keys_expiring", METRIC_GAUGE, NULL, "Hot keys with a time to live." });
    each_database(out, readings, write_expiring);
    family_counter(out, "kelvin_keys_expired", NULL, "Keys that were removed because their time was up.",
        stat_of(readings, STAT_EXPIRED_KEYS) + (double)readings->tier.expired_cold);
    family_counter(out, "kelvin_fields_expired", NULL, "Fields of hashes that were removed because their time was up.", stat_of(readings, STAT_EXPIRED_FIELDS));
    family_counter(out, "kelvin_keys_evicted", NULL, "Keys that were deleted because there is no memory, or no room on the disk.",
        stat_of(readings, STAT_EVICTED_KEYS) + (double)readings->tier.evicted_cold);
    family_counter(out, "kelvin_keyspace_hits", NULL, "Look-ups of reading commands that found the key.", stat_of(readings, STAT_KEYSPACE_HITS));
    family_counter(out, "kelvin_keyspace_misses", NULL, "Look-ups of reading commands that did not.", stat_of(readings, STAT_KEYSPACE_MISSES));
}

static void write_state(struct exposition *out, const struct readings *readings)
{
    struct family_sample states[TIER_STATES];

    for (int state = 0; state < TIER_STATES; state++)
        states[state] = (struct family_sample){ tier_state_name((enum tier_state)state), (int)readings->tier.state == state };
    family_labelled(out, &(struct metric){ "kelvin_tier_state", METRIC_GAUGE, NULL, "1 for the state that the cold tier is in." }, "state", states, TIER_STATES);
}

static void write_loads(struct exposition *out, const struct engine *engine)
{
    uint64_t counts[LOAD_LATENCY_BUCKETS] = { 0 }, sum_us = 0;

    if (engine->tier != NULL)
        sum_us = tier_load_latency(engine->tier, counts);
    exposition_begin(out, &(struct metric){ "kelvin_load_duration_seconds", METRIC_HISTOGRAM, "seconds",
        "How long loads of cold keys took that a client has waited for." });
    exposition_histogram(out, NULL, 0, &(struct exposition_histogram){
        .counts = counts, .bucket_count = LOAD_LATENCY_BUCKETS, .step_bits = LOAD_LATENCY_STEP_BITS, .per_unit = 1e6,
        .first = LOAD_FIRST_BITS, .last = LOAD_LAST_BITS, .sum = (double)sum_us / 1e6,
    });
}

static void write_traffic(struct exposition *out, const struct readings *readings)
{
    const struct tier_stats *tier = &readings->tier;

    family_labelled(out, &(struct metric){ "kelvin_tier_hits", METRIC_COUNTER, NULL, "Keys that calls needed, by where they were." }, "tier",
        (struct family_sample[]){ { "hot", stat_of(readings, STAT_HOT_HITS) }, { "cold", stat_of(readings, STAT_COLD_HITS) } }, 2);
    family_counter(out, "kelvin_tier_misses", NULL, "Keys that calls needed and that do not exist.", stat_of(readings, STAT_TIER_MISSES));
    family_counter(out, "kelvin_tier_blind_writes", NULL, "Keys that were overwritten without reading their records.", stat_of(readings, STAT_BLIND_WRITES));
    family_labelled(out, &(struct metric){ "kelvin_tier_demotions", METRIC_COUNTER, NULL, "Keys that were demoted, by whether a record was written." }, "record",
        (struct family_sample[]){ { "written", (double)tier->demotions }, { "kept", (double)tier->clean_demotions } }, 2);
    family_counter(out, "kelvin_tier_promotions", NULL, "Keys that were loaded from the store.", (double)tier->promotions);
    family_counter(out, "kelvin_tier_looks", NULL, "Reads of the store for calls that only look at a key, which stays cold.", (double)tier->looks);
    family_counter(out, "kelvin_tier_ring_reads", NULL, "Reads of the store by workers, on io_uring.", (double)tier->ring_reads);
    family_counter(out, "kelvin_tier_batches", NULL, "Batches that were written to the store.", (double)tier->batches);
    family_gauge(out, "kelvin_tier_loads_waiting", NULL, "Loads that have not ended.", (double)tier->loads_waiting);
    write_loads(out, readings->engine);
    family_counter(out, "kelvin_tier_false_maybes", NULL, "Loads that found no record.", (double)tier->false_maybes);
    family_counter(out, "kelvin_tier_unplanned_reads", NULL, "Loads in the middle of a call.", (double)tier->unplanned_reads);
    family_counter(out, "kelvin_tier_expired_cold", NULL, "Cold keys that were removed because their time was up.", (double)tier->expired_cold);
    family_counter(out, "kelvin_tier_errors", NULL, "Reads and writes of the store that have failed.", (double)tier->errors);
    family_gauge(out, "kelvin_tier_damaged_records", NULL, "Records that keys have and that can't be read, as far as it is known.", (double)tier->damaged_records);
}

void families_tier(struct exposition *out, const struct readings *readings)
{
    const struct tier_stats *tier = &readings->tier;

    write_state(out, readings);
    write_traffic(out, readings);
    family_gauge(out, "kelvin_tier_dirty_keys", NULL, "Hot keys whose record is missing or older.", (double)tier->dirty_keys);
    family_gauge(out, "kelvin_tier_unknown_keys", NULL, "Keys that were overwritten, and whose record was not looked for yet.", (double)tier->unknown_keys);
    family_gauge(out, "kelvin_tier_pinned_keys", NULL, "Keys that TIER PIN keeps in RAM.", (double)tier->pinned_keys);
    family_gauge(out, "kelvin_tier_graves", NULL, "Deleted keys whose record is still in the store.", (double)tier->graves);
    family_gauge(out, "kelvin_tier_hot_bytes", "bytes", "Memory that hot keys need: entries and tables.", (double)tier->hot_bytes);
    family_gauge(out, "kelvin_tier_recordmap_bytes", "bytes", "Memory of the record map.", (double)tier->recordmap_bytes);
    family_gauge(out, "kelvin_tier_store_memory_bytes", "bytes", "Memory of the store: write buffers, cache.", (double)tier->store_memory);
    family_gauge(out, "kelvin_tier_store_bytes", "bytes", "Size of the store on the disk, images included.", (double)tier->store_bytes);
    family_gauge(out, "kelvin_tier_store_max_bytes", "bytes", "tier-max-size; 0: no limit.",
        (double)config_number(readings->engine->config, CONFIG_TIER_MAX_SIZE));
    family_gauge(out, "kelvin_tier_segments", NULL, "Files with records.", (double)tier->segments);
    family_gauge(out, "kelvin_tier_segment_bytes", "bytes", "Their size.", (double)tier->segment_bytes);
    family_gauge(out, "kelvin_tier_segment_live_bytes", "bytes", "What of it is records that keys have, about.", (double)tier->segment_live_bytes);
    family_counter(out, "kelvin_tier_segment_written_bytes", "bytes", "Bytes that were written to segments.", (double)tier->segment_written_bytes);
    family_counter(out, "kelvin_tier_collected_bytes", "bytes", "Bytes of records that garbage collection has moved.", (double)tier->collected_bytes);
    family_gauge(out, "kelvin_tier_warmup_keys", NULL, "Keys that were hot before the start.", (double)tier->warmup_keys);
    family_gauge(out, "kelvin_tier_warmup_loaded_keys", NULL, "How many of them are hot again.", (double)tier->warmup_loaded);
}
