/* All requests pass one stage before any begins the next one. Where the next thing is gets read under the partition's lock, and all fetches of
 * a stage follow together: a locked instruction between two of them would wait until the first one's address is translated. That is the most of
 * a fetch's cost when the data is larger than the TLB covers.
 *
 * A pipeline is often about one key. A request with the same key as the one before it has the same hash, and nothing more to fetch.
 */
#include "engine/prefetch.h"

#include "engine/engine.h"

enum { LINE = 64, ENTRY_LINES = 4 };

typedef const char *find_address(const struct table *table, uint64_t hash);

static struct partition *partition_of(const struct engine *engine, const struct request_hint *hint)
{
    return &engine->partitions->partitions[partition_index(engine->partitions, hint->hash)];
}

/* Replaces the pointers at `at` by what `find` finds; NULL remains NULL. */
static inline __attribute__((always_inline)) void find_all(const struct engine *engine, struct request_hint *hints, int count, find_address *find)
{
    for (int i = 0; i < count; i++) {
        struct request_hint *hint = &hints[i];
        struct partition *partition;
        const struct keyspace *keyspace;

        if (hint->at == NULL)
            continue;
        partition = partition_of(engine, hint);
        hint->at = NULL;
        if (!partition_try_lock(partition))
            continue;
        keyspace = partition_keyspace_if(partition, hint->db);
        if (keyspace != NULL)
            hint->at = find(&keyspace->table, hint->hash);
        partition_unlock(partition);
    }
}

static void hash_all(const struct engine *engine, struct request_hint *hints, int count)
{
    for (int i = 0; i < count; i++) {
        if (i > 0 && hints[i].db == hints[i - 1].db && bytes_equal_inline(hints[i].key, hints[i - 1].key)) {
            hints[i].hash = hints[i - 1].hash;
            hints[i].at = NULL;
            continue;
        }
        hints[i].hash = key_hash(&engine->partitions->seed, hints[i].key);
        hints[i].at = (const char *)partition_of(engine, &hints[i]);
        __builtin_prefetch(hints[i].at, 1);
    }
}

void prefetch_requests(const struct engine *engine, struct request_hint *hints, int count)
{
    hash_all(engine, hints, count);
    find_all(engine, hints, count, table_bucket_at);
    for (int i = 0; i < count; i++)
        __builtin_prefetch(hints[i].at);
    find_all(engine, hints, count, table_entry_at);
    for (int i = 0; i < count; i++) {
        if (hints[i].at == NULL)
            continue;
        for (int line = 0; line < ENTRY_LINES; line++)
            __builtin_prefetch(hints[i].at + line * LINE);
    }
}
