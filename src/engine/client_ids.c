#include "engine/client_ids.h"

#include "base/mem.h"
#include "base/mutex.h"
#include "engine/worker.h"

enum { CAPACITY_MIN = 64 };

struct client_ids {
    struct mutex lock;
    struct client **buckets;        /* lock: chains of client->next_id */
    uint32_t capacity, count;       /* lock: the former is a power of two */
};

struct client_ids *client_ids_create(void)
{
    struct client_ids *ids = mem_zalloc(sizeof(*ids));

    mutex_init(&ids->lock);
    ids->capacity = CAPACITY_MIN;
    ids->buckets = mem_zalloc(ids->capacity * sizeof(struct client *));
    return ids;
}

void client_ids_destroy(struct client_ids *ids)
{
    if (ids == NULL)
        return;
    mutex_release(&ids->lock);
    mem_free(ids->buckets);
    mem_free(ids);
}

/* IDs are consecutive numbers, so their lowest bits spread them well. */
static struct client **bucket_of(const struct client_ids *ids, uint64_t id)
{
    return &ids->buckets[id & (ids->capacity - 1)];
}

static void link_client(struct client_ids *ids, struct client *client)
{
    struct client **bucket = bucket_of(ids, client->id);

    client->next_id = *bucket;
    *bucket = client;
}

static void grow_table(struct client_ids *ids)
{
    struct client **old = ids->buckets;
    uint32_t capacity = ids->capacity;

    ids->capacity *= 2;
    ids->buckets = mem_zalloc(ids->capacity * sizeof(struct client *));
    for (uint32_t i = 0; i < capacity; i++) {
        struct client *next;

        for (struct client *client = old[i]; client != NULL; client = next) {
            next = client->next_id;
            link_client(ids, client);
        }
    }
    mem_free(old);
}

void client_ids_add(struct client_ids *ids, struct client *client)
{
    mutex_lock(&ids->lock);
    if (ids->count++ == ids->capacity)
        grow_table(ids);
    link_client(ids, client);
    mutex_unlock(&ids->lock);
}

void client_ids_remove(struct client_ids *ids, const struct client *client)
{
    struct client **link;

    mutex_lock(&ids->lock);
    link = bucket_of(ids, client->id);
    while (*link != NULL && *link != client)
        link = &(*link)->next_id;
    if (*link != NULL) {
        *link = client->next_id;
        ids->count--;
    }
    mutex_unlock(&ids->lock);
}

static struct client *find_client(struct client_ids *ids, uint64_t id)
{
    struct client *client = *bucket_of(ids, id);

    while (client != NULL && client->id != id)
        client = client->next_id;
    return client;
}

int client_ids_worker(struct client_ids *ids, uint64_t id)
{
    const struct client *client;
    int index = -1;

    mutex_lock(&ids->lock);
    client = find_client(ids, id);
    if (client != NULL)
        index = client->worker->index;
    mutex_unlock(&ids->lock);
    return index;
}

struct client *client_ids_find(struct client_ids *ids, const struct worker *worker, uint64_t id)
{
    struct client *client;

    mutex_lock(&ids->lock);
    client = find_client(ids, id);
    if (client != NULL && client->worker != worker)
        client = NULL;
    mutex_unlock(&ids->lock);
    return client;
}
