#include "keyspace/segment_pool.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/mutex.h"

enum { CHUNK_SEGMENTS = 256, WARM_MAX = 64 };

struct chunk {
    struct chunk *next;
    void *mapping;
    size_t mapping_size;
};

struct segment_pool {
    struct mutex lock;
    struct chunk *chunks;
    void **cold;                /* free segments without memory */
    size_t cold_count, cold_capacity;
    void *warm[WARM_MAX];       /* free segments that still have memory */
    size_t warm_count;
    _Atomic int64_t used;
};

struct segment_pool *segment_pool_create(void)
{
    struct segment_pool *pool = mem_zalloc(sizeof(*pool));

    mutex_init(&pool->lock);
    return pool;
}

void segment_pool_destroy(struct segment_pool *pool)
{
    while (pool->chunks != NULL) {
        struct chunk *chunk = pool->chunks;

        pool->chunks = chunk->next;
        munmap(chunk->mapping, chunk->mapping_size);
        mem_free(chunk);
    }
    mem_free(pool->cold);
    mutex_release(&pool->lock);
    mem_free(pool);
}

static void pool_push_cold(struct segment_pool *pool, void *segment)
{
    if (pool->cold_count == pool->cold_capacity) {
        pool->cold_capacity = pool->cold_capacity * 2 + CHUNK_SEGMENTS;
        pool->cold = mem_realloc(pool->cold, pool->cold_capacity * sizeof(void *));
    }
    pool->cold[pool->cold_count++] = segment;
}

static bool pool_map_chunk(struct segment_pool *pool)
{
    size_t size = (size_t)(CHUNK_SEGMENTS + 1) * SEGMENT_SIZE;      /* one segment more, for alignment */
    char *mapping = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct chunk *chunk;
    uintptr_t first;

    if (mapping == MAP_FAILED)
        return false;
    chunk = mem_alloc(sizeof(*chunk));
    *chunk = (struct chunk){ pool->chunks, mapping, size };
    pool->chunks = chunk;
    first = ((uintptr_t)mapping + SEGMENT_SIZE - 1) & ~(uintptr_t)(SEGMENT_SIZE - 1);
    for (int i = CHUNK_SEGMENTS - 1; i >= 0; i--)       /* the lowest address is used first */
        pool_push_cold(pool, (char *)first + (size_t)i * SEGMENT_SIZE);
    return true;
}

void *segment_pool_take(struct segment_pool *pool)
{
    void *segment = NULL;

    mutex_lock(&pool->lock);
    if (pool->warm_count > 0)
        segment = pool->warm[--pool->warm_count];
    else if (pool->cold_count > 0 || pool_map_chunk(pool))
        segment = pool->cold[--pool->cold_count];
    mutex_unlock(&pool->lock);
    return segment;
}

void segment_pool_give(struct segment_pool *pool, void *segment)
{
    mutex_lock(&pool->lock);
    if (pool->warm_count < WARM_MAX) {
        pool->warm[pool->warm_count++] = segment;
    } else {
        CHECK(madvise(segment, SEGMENT_SIZE, MADV_DONTNEED) == 0);
        pool_push_cold(pool, segment);
    }
    mutex_unlock(&pool->lock);
}

void segment_pool_report(struct segment_pool *pool, int64_t used_change)
{
    atomic_fetch_add_explicit(&pool->used, used_change, memory_order_relaxed);
}

uint64_t segment_pool_used(const struct segment_pool *pool)
{
    int64_t used = atomic_load_explicit(&pool->used, memory_order_relaxed);

    return used > 0 ? (uint64_t)used : 0;
}
