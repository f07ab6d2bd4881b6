#include "engine/prefetch.h"

#include "engine/engine.h"

void prefetch_partition(const struct engine *engine, struct bytes key, struct request_hint *hint)
{
    hint->hash = hash_bytes(&engine->partitions->seed, key);
    __builtin_prefetch(&engine->partitions->partitions[partition_index(engine->partitions, hint->hash)], 1);
}

void prefetch_bucket(const struct engine *engine, const struct client *client, const struct request_hint *hint)
{
    struct partition *partition = &engine->partitions->partitions[partition_index(engine->partitions, hint->hash)];
    struct keyspace *keyspace;

    if (!partition_try_lock(partition))
        return;
    keyspace = partition_keyspace_if(partition, client->db);
    if (keyspace != NULL)
        table_prefetch_bucket(&keyspace->table, hint->hash);
    partition_unlock(partition);
}

void prefetch_entry(const struct engine *engine, const struct client *client, const struct request_hint *hint)
{
    struct partition *partition = &engine->partitions->partitions[partition_index(engine->partitions, hint->hash)];
    struct keyspace *keyspace;

    if (!partition_try_lock(partition))
        return;
    keyspace = partition_keyspace_if(partition, client->db);
    if (keyspace != NULL)
        table_prefetch_entry(&keyspace->table, hint->hash);
    partition_unlock(partition);
}
