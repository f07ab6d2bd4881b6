#include "replication/migrate_cache.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/mutex.h"

struct kept {
    char *name;
    size_t name_size;
    int64_t since_us;
    struct migrate_link link;
};

struct migrate_cache {
    struct mutex lock;
    struct kept *all[MIGRATE_CACHE_MAX];        /* the oldest first */
    int count;
};

struct migrate_cache *migrate_cache_create(void)
{
    struct migrate_cache *cache = mem_zalloc(sizeof(*cache));

    mutex_init(&cache->lock);
    return cache;
}

static struct kept *remove_at(struct migrate_cache *cache, int at) REQUIRES(cache->lock);
static struct kept *remove_at(struct migrate_cache *cache, int at)
{
    struct kept *kept = cache->all[at];

    cache->count--;
    memmove(&cache->all[at], &cache->all[at + 1], (size_t)(cache->count - at) * sizeof(cache->all[0]));
    return kept;
}

static void free_kept(struct kept *kept)
{
    mem_free(kept->name);
    mem_free(kept);
}

static void close_kept(struct kept *kept)
{
    migrate_link_close(&kept->link);
    free_kept(kept);
}

void migrate_cache_destroy(struct migrate_cache *cache)
{
    if (cache == NULL)
        return;
    for (int i = 0; i < cache->count; i++)
        close_kept(cache->all[i]);
    mutex_release(&cache->lock);
    mem_free(cache);
}

/* The newest one. NULL: there is none. */
static struct kept *take_named(struct migrate_cache *cache, struct bytes name)
{
    struct kept *kept = NULL;

    mutex_lock(&cache->lock);
    for (int i = cache->count - 1; i >= 0 && kept == NULL; i--) {
        if (bytes_equal(bytes_of(cache->all[i]->name, cache->all[i]->name_size), name))
            kept = remove_at(cache, i);
    }
    mutex_unlock(&cache->lock);
    return kept;
}

/* Bytes that come without a request belong to the end of the connection. */
static bool is_quiet(struct migrate_link *link)
{
    char byte;
    size_t got;

    return wire_read(&link->wire, &byte, 1, &got) == WIRE_OK && got == 0;
}

bool migrate_cache_take(struct migrate_cache *cache, struct bytes name, struct migrate_link *link)
{
    struct kept *kept;

    while (cache != NULL && (kept = take_named(cache, name)) != NULL) {
        if (is_quiet(&kept->link)) {
            *link = kept->link;
            free_kept(kept);
            return true;
        }
        close_kept(kept);
    }
    return false;
}

static struct kept *new_kept(struct bytes name, const struct migrate_link *link)
{
    struct kept *kept = mem_alloc(sizeof(*kept));

    kept->name = mem_alloc(name.size + 1);
    memcpy(kept->name, name.data, name.size);
    kept->name_size = name.size;
    kept->since_us = clock_mono_us();
    kept->link = *link;
    return kept;
}

void migrate_cache_keep(struct migrate_cache *cache, struct bytes name, struct migrate_link *link)
{
    struct kept *oldest = NULL;

    if (cache == NULL || !migrate_link_is_open(link) || link->from != link->to) {
        migrate_link_close(link);
        return;
    }
    mutex_lock(&cache->lock);
    if (cache->count == MIGRATE_CACHE_MAX)
        oldest = remove_at(cache, 0);
    cache->all[cache->count++] = new_kept(name, link);
    mutex_unlock(&cache->lock);
    wire_init(&link->wire);             /* its own no more */
    if (oldest != NULL)
        close_kept(oldest);
}

int migrate_cache_count(struct migrate_cache *cache)
{
    int count;

    if (cache == NULL)
        return 0;
    mutex_lock(&cache->lock);
    count = cache->count;
    mutex_unlock(&cache->lock);
    return count;
}

void migrate_cache_cron(struct migrate_cache *cache)
{
    int64_t end_us = clock_mono_us() - (int64_t)MIGRATE_CACHE_MS * 1000;
    struct kept *old[MIGRATE_CACHE_MAX];
    int count = 0;

    mutex_lock(&cache->lock);
    while (cache->count > 0 && cache->all[0]->since_us < end_us)
        old[count++] = remove_at(cache, 0);
    mutex_unlock(&cache->lock);
    for (int i = 0; i < count; i++)
        close_kept(old[i]);
}
