#include "script/registry.h"

#include <string.h>

#include "base/mem.h"
#include "base/mutex.h"

enum { BUCKETS_MIN = 64 };

struct registry {
    struct mutex lock;
    /* Under the lock. */
    struct source **buckets;        /* by the first digits of their names; each list may have several */
    uint32_t bucket_count;          /* a power of two */
    uint64_t source_count, source_bytes, dropped_count;
    struct source *oldest, *newest; /* those that may be dropped */
    uint64_t eval_count, eval_bytes;
    struct library_set *libraries;
    /* Atomic. */
    _Atomic uint64_t version, flushes, library_last;
};

struct registry *registry_create(void)
{
    struct registry *registry = mem_zalloc(sizeof(*registry));

    mutex_init(&registry->lock);
    registry->bucket_count = BUCKETS_MIN;
    registry->buckets = mem_zalloc(BUCKETS_MIN * sizeof(registry->buckets[0]));
    registry->libraries = library_set_empty();
    return registry;
}

/* The name is a hash already. Each digit of it has four bits. */
static struct source **bucket_of(const struct registry *registry, const char *sha)
{
    uint32_t hash = 0;

    for (int i = 0; i < 8; i++)
        hash = hash << 4 | ((uint32_t)(sha[i] <= '9' ? sha[i] : sha[i] - 'a' + 10) & 15);
    return &registry->buckets[hash & (registry->bucket_count - 1)];
}

static struct source *find_source(const struct registry *registry, const char *sha)
{
    struct source *source = *bucket_of(registry, sha);

    while (source != NULL && memcmp(source->script.sha, sha, SCRIPT_SHA_SIZE) != 0)
        source = source->next;
    return source;
}

static void grow_sources(struct registry *registry)
{
    struct source **old = registry->buckets;
    uint32_t old_count = registry->bucket_count;

    registry->bucket_count *= 2;
    registry->buckets = mem_zalloc(registry->bucket_count * sizeof(old[0]));
    for (uint32_t i = 0; i < old_count; i++) {
        while (old[i] != NULL) {
            struct source *source = old[i], **bucket = bucket_of(registry, source->script.sha);

            old[i] = source->next;
            source->next = *bucket;
            *bucket = source;
        }
    }
    mem_free(old);
}

/* The list of those that may be dropped. */

static void list_append(struct registry *registry, struct source *source)
{
    source->may_be_dropped = true;
    source->newer = NULL;
    source->older = registry->newest;
    if (registry->newest != NULL)
        registry->newest->newer = source;
    else
        registry->oldest = source;
    registry->newest = source;
    registry->eval_count++;
    registry->eval_bytes += source_size(source);
}

static void list_remove(struct registry *registry, struct source *source)
{
    source->may_be_dropped = false;
    if (source->older != NULL)
        source->older->newer = source->newer;
    else
        registry->oldest = source->newer;
    if (source->newer != NULL)
        source->newer->older = source->older;
    else
        registry->newest = source->older;
    registry->eval_count--;
    registry->eval_bytes -= source_size(source);
}

/* Takes it out of the table; the registry's hold is the caller's then. */
static void remove_source(struct registry *registry, struct source *source)
{
    struct source **at = bucket_of(registry, source->script.sha);

    while (*at != source)
        at = &(*at)->next;
    *at = source->next;
    if (source->may_be_dropped)
        list_remove(registry, source);
    registry->source_count--;
    registry->source_bytes -= source_size(source);
    source->retired = true;
}

static bool has_too_many(const struct registry *registry)
{
    return registry->eval_count > REGISTRY_EVAL_SOURCES_MAX ||
           (registry->eval_bytes > REGISTRY_EVAL_SIZE_MAX && registry->eval_count > 1);
}

/* The oldest one that was not used since the last look; each look clears the mark. `spared` is the one that was just added. */
static struct source *choose_victim(struct registry *registry, const struct source *spared)
{
    for (uint64_t looks = 2 * registry->eval_count; ; looks--) {
        struct source *source = registry->oldest;

        if (source != spared && (!atomic_exchange_explicit(&source->used, false, memory_order_relaxed) || looks == 0))
            return source;
        list_remove(registry, source);
        list_append(registry, source);
    }
}

static void drop_some(struct registry *registry, const struct source *spared)
{
    while (has_too_many(registry)) {
        struct source *source = choose_victim(registry, spared);

        remove_source(registry, source);
        source_release(source);
        registry->dropped_count++;
    }
}

struct source *registry_find_source(struct registry *registry, const char *sha)
{
    struct source *source;

    mutex_lock(&registry->lock);
    source = find_source(registry, sha);
    if (source != NULL)
        source_hold(source);
    mutex_unlock(&registry->lock);
    return source;
}

struct source *registry_keep_source(struct registry *registry, const char *sha)
{
    struct source *source;

    mutex_lock(&registry->lock);
    source = find_source(registry, sha);
    if (source != NULL) {
        source_hold(source);
        if (source->may_be_dropped)
            list_remove(registry, source);
    }
    mutex_unlock(&registry->lock);
    return source;
}

static void insert(struct registry *registry, struct source *source, enum source_origin origin)
{
    struct source **bucket;

    if (registry->source_count >= registry->bucket_count)
        grow_sources(registry);
    bucket = bucket_of(registry, source->script.sha);
    source->next = *bucket;
    *bucket = source;
    registry->source_count++;
    registry->source_bytes += source_size(source);
    if (origin == SOURCE_OF_EVAL)
        list_append(registry, source);
    drop_some(registry, source);
}

struct source *registry_add_source(struct registry *registry, struct source *source, enum source_origin origin)
{
    struct source *known;

    mutex_lock(&registry->lock);
    known = find_source(registry, source->script.sha);
    if (known == NULL) {
        source_hold(source);                /* the registry's hold */
        insert(registry, source, origin);
    } else {
        source_hold(known);
        if (origin == SOURCE_OF_LOAD && known->may_be_dropped)
            list_remove(registry, known);
    }
    mutex_unlock(&registry->lock);
    if (known == NULL)
        return source;
    source_release(source);
    return known;
}

void registry_flush_sources(struct registry *registry)
{
    struct source *all = NULL;

    mutex_lock(&registry->lock);
    for (uint32_t i = 0; i < registry->bucket_count; i++) {
        while (registry->buckets[i] != NULL) {
            struct source *source = registry->buckets[i];

            remove_source(registry, source);
            source->next = all;
            all = source;
        }
    }
    mem_free(registry->buckets);
    registry->bucket_count = BUCKETS_MIN;
    registry->buckets = mem_zalloc(BUCKETS_MIN * sizeof(registry->buckets[0]));
    atomic_fetch_add(&registry->flushes, 1);
    mutex_unlock(&registry->lock);
    while (all != NULL) {
        struct source *next = all->next;

        source_release(all);
        all = next;
    }
}

uint64_t registry_flushes(const struct registry *registry)
{
    return registry->flushes;
}

struct library_set *registry_libraries(struct registry *registry)
{
    struct library_set *set;

    mutex_lock(&registry->lock);
    set = library_set_hold(registry->libraries);
    mutex_unlock(&registry->lock);
    return set;
}

uint64_t registry_version(const struct registry *registry)
{
    return registry->version;
}

void registry_publish(struct registry *registry, struct library_set *set)
{
    struct library_set *old;

    mutex_lock(&registry->lock);
    old = registry->libraries;
    registry->libraries = set;
    atomic_fetch_add(&registry->version, 1);
    mutex_unlock(&registry->lock);
    library_set_release(old);
}

uint64_t registry_next_library(struct registry *registry)
{
    return atomic_fetch_add(&registry->library_last, 1) + 1;
}

void registry_stats(struct registry *registry, struct registry_stats *stats)
{
    mutex_lock(&registry->lock);
    *stats = (struct registry_stats){
        .source_count = registry->source_count,
        .source_bytes = registry->source_bytes + mem_size(registry->buckets),
        .kept_bytes = registry->source_bytes - registry->eval_bytes,
        .dropped_count = registry->dropped_count,
        .library_count = (uint64_t)registry->libraries->count,
        .function_count = (uint64_t)registry->libraries->function_count,
        .library_bytes = registry->libraries->size,
    };
    mutex_unlock(&registry->lock);
}

void registry_destroy(struct registry *registry)
{
    if (registry == NULL)
        return;
    registry_flush_sources(registry);
    mem_free(registry->buckets);
    library_set_release(registry->libraries);
    mutex_release(&registry->lock);
    mem_free(registry);
}
