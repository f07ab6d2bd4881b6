/* All requests pass one stage before any begins the next one. Where the next thing is gets read under the partition's lock, and all fetches of
 * a stage follow together: a locked instruction between two of them would wait until the first one's address is translated. That is the most of
 * a fetch's cost when the data is larger than the TLB covers.
 */
#include "engine/prefetch.h"

#include "engine/engine.h"

enum { LINE = 64, ENTRY_LINES = 4 };

typedef const char *find_address(const struct table *table, uint64_t hash);

static struct partition *partition_of(const struct engine *engine, const struct request_hint *hint)
{
    return &engine->partitions->partitions[partition_index(engine->partitions, hint->hash)];
}

static inline __attribute__((always_inline)) void find_all(const struct engine *engine, struct request_hint *hints, int count, find_address *find)
{
    for (int i = 0; i < count; i++) {
        struct request_hint *hint = &hints[i];
        struct partition *partition = partition_of(engine, hint);
        const struct keyspace *keyspace;

        hint->at = NULL;
        if (!partition_try_lock(partition))
            continue;
        keyspace = partition_keyspace_if(partition, hint->db);
        if (keyspace != NULL)
            hint->at = find(&keyspace->table, hint->hash);
        partition_unlock(partition);
    }
}

void prefetch_requests(const struct engine *engine, struct request_hint *hints, int count)
{
    for (int i = 0; i < count; i++) {
        hints[i].hash = hash_bytes(&engine->partitions->seed, hints[i].key);
        __builtin_prefetch(partition_of(engine, &hints[i]), 1);
    }
    find_all(engine, hints, count, table_bucket_at);
    for (int i = 0; i < count; i++)
        __builtin_prefetch(hints[i].at);
    find_all(engine, hints, count, table_entry_at);
    for (int line = 0; line < ENTRY_LINES; line++) {
        for (int i = 0; i < count; i++) {
            if (hints[i].at != NULL)
                __builtin_prefetch(hints[i].at + line * LINE);
        }
    }
}
