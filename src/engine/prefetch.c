/* All requests pass one stage before any begins the next one. Where the next thing is gets read under the partition's lock, and all fetches of
 * a stage follow together: a locked instruction between two of them would wait until the first one's address is translated. That is the most of
 * a fetch's cost when the data is larger than the TLB covers.
 *
 * A key without an entry is looked up in the tier's map next, whose lines are more and farther apart than those of the table.
 *
 * A pipeline is often about one key. A request with the same key as the one before it has the same hash, and nothing more to fetch.
 */
#include "engine/prefetch.h"

#include "base/fetch_lines.h"
#include "engine/engine.h"
#include "tier/tier.h"

enum { ENTRY_SIZE = 256 };

/* Returns what is to be fetched next; NULL: nothing. The keyspace's partition is locked. */
typedef const char *find_address(const struct keyspace *keyspace, struct request_hint *hint);

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
            hint->at = find(keyspace, hint);
        partition_unlock(partition);
    }
}

static const char *find_bucket(const struct keyspace *keyspace, struct request_hint *hint)
{
    return table_bucket_at(&keyspace->table, hint->hash);
}

static const char *find_entry(const struct keyspace *keyspace, struct request_hint *hint)
{
    const char *entry = table_entry_at(&keyspace->table, hint->hash);

    hint->is_absent = entry == NULL;
    return entry != NULL ? entry : tier_row_at(keyspace, hint->hash);
}

/* Fetches at once: there is more than one line. */
static const char *fetch_record(const struct keyspace *keyspace, struct request_hint *hint)
{
    tier_prefetch(keyspace, hint->hash);
    return NULL;
}

static void begin(const struct engine *engine, struct request_hint *hint)
{
    hint->at = (const char *)partition_of(engine, hint);
    __builtin_prefetch(hint->at, 1);
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
        begin(engine, &hints[i]);
    }
}

static void fetch_all(const struct engine *engine, struct request_hint *hints, int count)
{
    int absent_count = 0;

    find_all(engine, hints, count, find_bucket);
    for (int i = 0; i < count; i++)
        __builtin_prefetch(hints[i].at);
    find_all(engine, hints, count, find_entry);
    for (int i = 0; i < count; i++) {
        if (hints[i].at == NULL)
            continue;
        if (hints[i].is_absent) {
            __builtin_prefetch(hints[i].at);
            absent_count++;
            continue;
        }
        fetch_lines(hints[i].at, hints[i].at + ENTRY_SIZE);
        hints[i].at = NULL;
    }
    if (absent_count > 0)
        find_all(engine, hints, count, fetch_record);
}

void prefetch_requests(const struct engine *engine, struct request_hint *hints, int count)
{
    hash_all(engine, hints, count);
    fetch_all(engine, hints, count);
}

void prefetch_hashed(const struct engine *engine, struct request_hint *hints, int count)
{
    for (int i = 0; i < count; i++)
        begin(engine, &hints[i]);
    fetch_all(engine, hints, count);
}
