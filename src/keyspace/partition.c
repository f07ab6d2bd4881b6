#include "keyspace/partition.h"

#include <stdatomic.h>

#include "base/mem.h"

struct partitions *partitions_create(uint32_t count, int db_count, struct key_seed seed)
{
    struct partitions *all = mem_zalloc(sizeof(*all));

    CHECK(count > 0 && (count & (count - 1)) == 0);
    all->count = count;
    all->bits = (uint8_t)__builtin_ctz(count);
    all->db_count = db_count;
    all->space_count = 2 * db_count;
    all->seed = seed;
    all->pool = segment_pool_create();
    owners_init(&all->owners, count);
    all->partitions = mem_alloc_aligned(64, count * sizeof(struct partition));
    all->incarnations = mem_zalloc((size_t)db_count * sizeof(*all->incarnations));
    for (int db = 0; db < db_count; db++)
        all->incarnations[db] = ++all->incarnation_last;
    for (uint32_t i = 0; i < count; i++) {
        struct partition *partition = &all->partitions[i];

        *partition = (struct partition){ .index = i, .all = all };
        futex_lock_init(&partition->lock);
        partition->keyspaces = mem_zalloc((size_t)all->space_count * sizeof(struct keyspace *));
    }
    return all;
}

void partitions_destroy(struct partitions *all)
{
    for (uint32_t i = 0; i < all->count; i++) {
        for (int space = 0; space < all->space_count; space++)
            keyspace_destroy(all->partitions[i].keyspaces[space]);
        mem_free(all->partitions[i].keyspaces);
    }
    owners_release(&all->owners);
    mem_free(all->partitions);
    mem_free(all->incarnations);
    segment_pool_destroy(all->pool);
    mem_free(all);
}

void partitions_set_seed(struct partitions *all, struct hash_seed seed)
{
    for (uint32_t i = 0; i < all->count; i++) {
        for (int db = 0; db < all->db_count; db++)              /* the hashes of pages do not depend on it */
            CHECK(all->partitions[i].keyspaces[db] == NULL || all->partitions[i].keyspaces[db]->table.count == 0);
    }
    all->seed.sip = seed;
}

void partition_lock_wait(struct partition *partition)
{
    futex_lock_wait(&partition->lock);
    atomic_store_explicit(&partition->wait_count, atomic_load_explicit(&partition->wait_count, memory_order_relaxed) + 1, memory_order_relaxed);
}

uint64_t partitions_wait_count(const struct partitions *all)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < all->count; i++)
        count += atomic_load_explicit(&all->partitions[i].wait_count, memory_order_relaxed);
    return count;
}

void partitions_reset_wait_count(struct partitions *all)
{
    for (uint32_t i = 0; i < all->count; i++) {
        partition_lock(&all->partitions[i]);
        atomic_store_explicit(&all->partitions[i].wait_count, 0, memory_order_relaxed);
        partition_unlock(&all->partitions[i]);
    }
}

void partitions_lock_all(struct partitions *all)
{
    for (uint32_t i = 0; i < all->count; i++)
        partition_lock(&all->partitions[i]);
}

void partitions_unlock_all(struct partitions *all)
{
    for (uint32_t i = all->count; i-- > 0;)
        partition_unlock(&all->partitions[i]);
}

uint32_t partitions_incarnation(const struct partitions *all, int space)
{
    return space < all->db_count ? all->incarnations[space] : all->incarnations[space - all->db_count] | INCARNATION_PAGES;
}

int partitions_space_of(const struct partitions *all, uint32_t incarnation)
{
    for (int space = 0; space < all->space_count; space++) {
        if (partitions_incarnation(all, space) == incarnation)
            return space;
    }
    return -1;
}

struct keyspace *partition_create_keyspace(struct partition *partition, int space)
{
    struct keyspace_watch *watch = &partition->all->watch;
    struct keyspace *keyspace = keyspace_create(partition, space % partition->all->db_count, partitions_incarnation(partition->all, space));

    keyspace->expire_cursor = keyspace->demote_cursor = keyspace->resolve_cursor = partition_first_hash(partition);
    partition->keyspaces[space] = keyspace;
    if (watch->keyspace_created != NULL)
        watch->keyspace_created(watch->context, keyspace);
    return keyspace;
}

static bool incarnation_is_taken(const struct partitions *all, uint32_t incarnation)
{
    for (int db = 0; db < all->db_count; db++) {
        if (atomic_load_explicit(&all->incarnations[db], memory_order_relaxed) == incarnation)
            return true;
    }
    return all->watch.incarnation_is_taken != NULL && all->watch.incarnation_is_taken(all->watch.context, incarnation);
}

uint32_t partitions_next_incarnation(struct partitions *all)
{
    if (all->incarnation_last < INCARNATION_MAX)
        return ++all->incarnation_last;
    do
        all->incarnation_reused = all->incarnation_reused < INCARNATION_MAX ? all->incarnation_reused + 1 : 1;
    while (incarnation_is_taken(all, all->incarnation_reused));
    return all->incarnation_reused;
}

bool partitions_flush(struct partitions *all, int db, struct keyspace **old)
{
    bool any = false;

    for (uint32_t i = 0; i < 2 * all->count; i++) {
        struct partition *partition = &all->partitions[i % all->count];
        struct keyspace **keyspace = &partition->keyspaces[i < all->count ? db : partitions_page_space(all, db)];

        ASSERT_LOCKED(partition);
        old[i] = *keyspace;
        *keyspace = NULL;
        any = any || old[i] != NULL;
    }
    if (any)
        all->incarnations[db] = partitions_next_incarnation(all);
    return any;
}

static void swap_keyspaces(struct keyspace **keyspaces, int space_a, int space_b, int a, int b)
{
    struct keyspace *keyspace = keyspaces[space_a];

    keyspaces[space_a] = keyspaces[space_b];
    keyspaces[space_b] = keyspace;
    if (keyspaces[space_a] != NULL)
        keyspaces[space_a]->db = a;
    if (keyspaces[space_b] != NULL)
        keyspaces[space_b]->db = b;
}

void partitions_swap(struct partitions *all, int a, int b)
{
    uint32_t incarnation = all->incarnations[a];

    all->incarnations[a] = all->incarnations[b];
    all->incarnations[b] = incarnation;
    for (uint32_t i = 0; i < all->count; i++) {
        struct partition *partition = &all->partitions[i];

        ASSERT_LOCKED(partition);
        swap_keyspaces(partition->keyspaces, a, b, a, b);
        swap_keyspaces(partition->keyspaces, partitions_page_space(all, a), partitions_page_space(all, b), a, b);
    }
}

uint64_t partitions_entry_count(struct partitions *all, int db)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < all->count; i++) {
        partition_lock(&all->partitions[i]);
        if (all->partitions[i].keyspaces[db] != NULL)
            count += all->partitions[i].keyspaces[db]->table.count;
        partition_unlock(&all->partitions[i]);
    }
    return count;
}

uint64_t partitions_expiring_count(struct partitions *all, int db)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < all->count; i++) {
        partition_lock(&all->partitions[i]);
        if (all->partitions[i].keyspaces[db] != NULL)
            count += all->partitions[i].keyspaces[db]->expiring_count;
        partition_unlock(&all->partitions[i]);
    }
    return count;
}

uint64_t partitions_last_lsn(struct partitions *all)
{
    uint64_t lsn = 0;

    for (uint32_t i = 0; i < all->count; i++) {
        partition_lock(&all->partitions[i]);
        if (all->partitions[i].last_lsn > lsn)
            lsn = all->partitions[i].last_lsn;
        partition_unlock(&all->partitions[i]);
    }
    return lsn;
}

enum { BIG_EFFORT = 256, BIG_SIZE = 64 * 1024 };

bool entry_is_big(const struct entry *entry)
{
    struct value value = entry_value(entry);

    if (entry_is_inline(entry) || !value_is_object(&value))
        return false;
    return value_free_effort(&value) > BIG_EFFORT || value_memory(&value, 1) > BIG_SIZE;
}
