/* The keys with waiters, in a table for each partition, and the queue of each. All under the partition's lock. */
#include "engine/blocking_private.h"

#include "base/mem.h"

enum { BUCKETS_MIN = 4 };

static uint32_t bucket_of(const struct waited_table *table, int db, uint64_t hash)
{
    return (uint32_t)(hash ^ (uint64_t)db * 0x9e3779b97f4a7c15ull) & (table->capacity - 1);
}

struct waited *waited_find(const struct waited_table *table, int db, uint64_t hash, struct bytes key)
{
    struct waited *waited;

    if (table->count == 0)
        return NULL;
    for (waited = table->buckets[bucket_of(table, db, hash)]; waited != NULL; waited = waited->next) {
        if (waited->hash == hash && waited->db == db && bytes_equal(waited->key, key))
            return waited;
    }
    return NULL;
}

static void waited_resize(struct waited_table *table, uint32_t capacity)
{
    struct waited_table old = *table;

    table->capacity = capacity;
    table->buckets = mem_zalloc(capacity * sizeof(*table->buckets));
    for (uint32_t i = 0; i < old.capacity; i++) {
        while (old.buckets[i] != NULL) {
            struct waited *waited = old.buckets[i], **bucket = &table->buckets[bucket_of(table, waited->db, waited->hash)];

            old.buckets[i] = waited->next;
            waited->next = *bucket;
            *bucket = waited;
        }
    }
    mem_free(old.buckets);
}

static struct waited *waited_add(struct waited_table *table, int db, uint64_t hash, struct bytes key)
{
    struct waited *waited = mem_zalloc(sizeof(*waited) + key.size), **bucket;

    if (table->count >= table->capacity)
        waited_resize(table, table->capacity > 0 ? table->capacity * 2 : BUCKETS_MIN);
    memcpy(waited + 1, key.data, key.size);
    waited->key = bytes_of(waited + 1, key.size);
    waited->hash = hash;
    waited->db = db;
    bucket = &table->buckets[bucket_of(table, db, hash)];
    waited->next = *bucket;
    *bucket = waited;
    table->count++;
    return waited;
}

static void waited_remove(struct waited_table *table, struct waited *waited)
{
    struct waited **at = &table->buckets[bucket_of(table, waited->db, waited->hash)];

    while (*at != waited)
        at = &(*at)->next;
    *at = waited->next;
    mem_free(waited);
    table->count--;
    if (table->count == 0) {
        mem_free(table->buckets);
        table->buckets = NULL;
        table->capacity = 0;
    }
}

/* A key that is named twice is waited for once: the waiter is then the last in the queue already. */
void queue_join(struct blocking *blocking, struct waiter *waiter, struct place *place, uint64_t hash, struct bytes key)
{
    struct partition *partition = partition_of(blocking, hash);
    struct waited_table *table = &blocking->tables[partition->index];
    struct waited *waited = waited_find(table, waiter->db, hash, key);

    ASSERT_LOCKED(partition);
    if (waited == NULL) {
        waited = waited_add(table, waiter->db, hash, key);
        blocking->key_count++;
        interest_count(&blocking->engine->interest, 1);
    }
    if (waited->last != NULL && waited->last->waiter == waiter)
        return;
    *place = (struct place){ .prev = waited->last, .waited = waited, .waiter = waiter };
    if (waited->last != NULL)
        waited->last->next = place;
    else
        waited->first = place;
    waited->last = place;
    waiter->place_count++;
    if (waiter->wakes_on_removal && waited->removal_waiter_count++ == 0)
        blocking->removal_key_count++;
}

void queue_leave(struct blocking *blocking, struct place *place)
{
    struct waited *waited = place->waited;
    struct partition *partition = partition_of(blocking, waited->hash);

    partition_lock(partition);
    if (place->prev != NULL)
        place->prev->next = place->next;
    else
        waited->first = place->next;
    if (place->next != NULL)
        place->next->prev = place->prev;
    else
        waited->last = place->prev;
    if (place->waiter->wakes_on_removal && --waited->removal_waiter_count == 0)
        blocking->removal_key_count--;
    if (waited->first == NULL) {
        waited_remove(&blocking->tables[partition->index], waited);
        blocking->key_count--;
        interest_count(&blocking->engine->interest, -1);
    }
    partition_unlock(partition);
}
