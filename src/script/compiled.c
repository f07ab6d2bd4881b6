#include "script/compiled.h"

#include <lua5.1/lauxlib.h>
#include <lua5.1/lua.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"

enum { BUCKETS_MAX = 4096 };

/* A SHA1 is random enough to be its own hash. */
static struct compiled **bucket_of(const struct compiled_cache *cache, const char *sha)
{
    uint64_t word;

    memcpy(&word, sha, sizeof(word));
    word *= 0x9e3779b97f4a7c15;         /* hex digits are in a few bits of each byte */
    return &cache->buckets[word >> 32 & (cache->bucket_count - 1)];
}

static void list_remove(struct compiled_cache *cache, struct compiled *compiled)
{
    *(compiled->newer != NULL ? &compiled->newer->older : &cache->newest) = compiled->older;
    *(compiled->older != NULL ? &compiled->older->newer : &cache->oldest) = compiled->newer;
}

static void list_add(struct compiled_cache *cache, struct compiled *compiled)
{
    compiled->newer = NULL;
    compiled->older = cache->newest;
    *(cache->newest != NULL ? &cache->newest->newer : &cache->oldest) = compiled;
    cache->newest = compiled;
}

static void drop(struct compiled_cache *cache, struct compiled *compiled)
{
    struct compiled **at = bucket_of(cache, compiled->sha);

    while (*at != compiled)
        at = &(*at)->next;
    *at = compiled->next;
    list_remove(cache, compiled);
    luaL_unref(cache->lua, LUA_REGISTRYINDEX, compiled->reference);
    mem_free(compiled);
    cache->count--;
}

static void trim_cache(struct compiled_cache *cache, size_t count_max)
{
    struct compiled *at = cache->oldest;

    while (at != NULL && cache->count > count_max) {
        struct compiled *newer = at->newer;

        if (!at->in_use)
            drop(cache, at);
        at = newer;
    }
}

void compiled_init(struct compiled_cache *cache, lua_State *lua, size_t count_max)
{
    *cache = (struct compiled_cache){ .lua = lua, .bucket_count = 1, .count_max = count_max };
    while (cache->bucket_count < count_max && cache->bucket_count < BUCKETS_MAX)
        cache->bucket_count *= 2;
    cache->buckets = mem_zalloc(cache->bucket_count * sizeof(cache->buckets[0]));
}

void compiled_release(struct compiled_cache *cache)
{
    trim_cache(cache, 0);
    mem_free(cache->buckets);
    cache->buckets = NULL;
}

void compiled_set_limit(struct compiled_cache *cache, size_t count_max)
{
    cache->count_max = count_max > 0 ? count_max : 1;
    trim_cache(cache, cache->count_max);
}

struct compiled *compiled_find(struct compiled_cache *cache, const char *sha)
{
    struct compiled *compiled = *bucket_of(cache, sha);

    while (compiled != NULL && memcmp(compiled->sha, sha, SCRIPT_SHA_SIZE) != 0)
        compiled = compiled->next;
    if (compiled != NULL && compiled != cache->newest) {
        list_remove(cache, compiled);
        list_add(cache, compiled);
    }
    return compiled;
}

struct compiled *compiled_add(struct compiled_cache *cache, const char *sha, int reference)
{
    struct compiled *compiled = mem_zalloc(sizeof(*compiled));
    struct compiled **bucket = bucket_of(cache, sha);

    trim_cache(cache, cache->count_max - 1);
    memcpy(compiled->sha, sha, SCRIPT_SHA_SIZE);
    compiled->reference = reference;
    compiled->next = *bucket;
    *bucket = compiled;
    list_add(cache, compiled);
    cache->count++;
    return compiled;
}

void compiled_clear(struct compiled_cache *cache)
{
    trim_cache(cache, 0);
}

size_t compiled_memory(const struct compiled_cache *cache)
{
    return cache->count * mem_class(sizeof(struct compiled)) + cache->bucket_count * sizeof(cache->buckets[0]);
}
