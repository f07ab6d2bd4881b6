#include "tier/read_pool.h"

#include "base/mem.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "tier/reading.h"
#include "tier/tier_private.h"

enum {
    CHUNK_MAX = 16,                 /* groups that a thread takes at a time */
    BUFFER_KEPT_MAX = 64 * 1024,
    RECORD_COPIES = 3,              /* of a record while it is read: block, string, buffer or value */
    READS_SHARE = 16,               /* of maxmemory, for all reads under way */
};

struct read_pool {
    read_pool_run *run;
    struct mutex lock;              /* leaf */
    struct condition filled, ended;
    struct reading *first, *last;   /* lock: the queue, of groups */
    uint64_t queue_size;            /* lock */
    int idle_count, reading_count;  /* lock: threads that wait, and threads that read */
    bool is_stopping;               /* lock */
    _Atomic int waiter_count;       /* in read_pool_wait */
    _Atomic int wanted_count;       /* threads with a higher number end by themselves */
    struct thread threads[READ_POOL_MAX];
    int thread_count;               /* the writer's, after tier_start: it starts and joins them */
};

struct read_pool *read_pool_create(read_pool_run *run)
{
    struct read_pool *pool = mem_zalloc(sizeof(*pool));

    pool->run = run;
    mutex_init(&pool->lock);
    condition_init(&pool->filled);
    condition_init(&pool->ended);
    return pool;
}

void read_pool_destroy(struct read_pool *pool)
{
    condition_release(&pool->filled);
    condition_release(&pool->ended);
    mutex_release(&pool->lock);
    mem_free(pool);
}

/* A thread that is woken wakes two more, as long as there are groups: the submitting worker pays for one, and all run soon. */
static void wake_for(struct read_pool *pool, uint64_t queue_size, int idle_count, int most)
{
    for (int i = 0; i < most && i < idle_count && (uint64_t)i < queue_size; i++)
        condition_signal(&pool->filled);
}

void read_pool_submit(struct tier *tier, struct reading *first, struct reading *last, uint64_t count)
{
    struct read_pool *pool = tier->read_pool;
    int idle_count;

    mutex_lock(&pool->lock);
    if (pool->first != NULL)
        pool->last->next_group = first;
    else
        pool->first = first;
    pool->last = last;
    pool->queue_size += count;
    idle_count = pool->idle_count;
    mutex_unlock(&pool->lock);
    wake_for(pool, count, idle_count, 1);
}

/* The waiter counts itself before it looks at `left`, and it is counted down before the waiters are looked at. */
void read_pool_note_end(struct read_pool *pool, _Atomic unsigned *left)
{
    if (atomic_fetch_sub(left, 1) > 1 || pool->waiter_count == 0)
        return;
    mutex_lock(&pool->lock);
    condition_broadcast(&pool->ended);
    mutex_unlock(&pool->lock);
}

void read_pool_wait(struct read_pool *pool, const _Atomic unsigned *left)
{
    mutex_lock(&pool->lock);
    pool->waiter_count++;
    while (*left > 0)
        condition_wait(&pool->ended, &pool->lock);
    pool->waiter_count--;
    mutex_unlock(&pool->lock);
}

/* A fair share of the queue, so that all threads read in parallel, those too that are about to finish what they have. Reads that hit the page
 * cache do not wait for each other: there a few threads are faster than many that have to be woken. */
static int take_chunk(struct read_pool *pool, bool is_cached, struct reading *chunk[CHUNK_MAX]) REQUIRES(pool->lock);
static int take_chunk(struct read_pool *pool, bool is_cached, struct reading *chunk[CHUNK_MAX])
{
    uint64_t wanted = is_cached ? 1 : (uint64_t)pool->wanted_count, share = (pool->queue_size + wanted - 1) / wanted;
    int count = 0;

    while (pool->first != NULL && count < CHUNK_MAX && (uint64_t)count < share) {
        chunk[count++] = pool->first;
        pool->first = pool->first->next_group;
    }
    pool->queue_size -= (uint64_t)count;
    return count;
}

/* --- threads --- */

struct pool_thread {
    struct tier *tier;
    int number;
};

/* How many threads may read at a time: all, but for large records fewer, as a thread has several copies of each. The size is
 * known as the mean of all records only. */
static int reading_max(struct tier *tier)
{
    uint64_t size = tier_record_size(tier) * RECORD_COPIES;
    uint64_t share = (uint64_t)tier->settings.memory_max / READS_SHARE;

    if (tier->settings.memory_max <= 0 || size * READ_POOL_MAX <= share)
        return READ_POOL_MAX;
    return size >= share ? 1 : (int)(share / size);
}

/* Waits until there is something to read. Returns how many groups were taken; 0: the thread ends. */
static int wait_for_chunk(struct tier *tier, struct read_pool *pool, int number, struct reading *chunk[CHUNK_MAX])
    REQUIRES(pool->lock);
static int wait_for_chunk(struct tier *tier, struct read_pool *pool, int number, struct reading *chunk[CHUNK_MAX])
{
    while ((pool->first == NULL || pool->reading_count >= reading_max(tier)) && !pool->is_stopping && number < pool->wanted_count) {
        pool->idle_count++;
        condition_wait(&pool->filled, &pool->lock);
        pool->idle_count--;
    }
    if (pool->first == NULL || number >= pool->wanted_count)
        return 0;                   /* the first thread always stays until the queue is empty */
    return take_chunk(pool, access_is_hitting(&tier->access), chunk);
}

static void pool_main(void *context)
{
    struct pool_thread *self = context;
    struct tier *tier = self->tier;
    struct read_pool *pool = tier->read_pool;
    int number = self->number, count;
    struct reading *chunk[CHUNK_MAX];
    struct read_buffers buffers = { 0 };

    mem_free(self);
    mutex_lock(&pool->lock);
    while ((count = wait_for_chunk(tier, pool, number, chunk)) > 0) {
        uint64_t queue_size = pool->queue_size;
        int idle_count = pool->idle_count;

        pool->reading_count++;
        mutex_unlock(&pool->lock);
        wake_for(pool, queue_size, idle_count, access_is_hitting(&tier->access) ? 0 : 2);
        for (int i = 0; i < count; i++) {
            pool->run(tier, chunk[i], &buffers);
            read_buffers_shrink(&buffers, BUFFER_KEPT_MAX);
        }
        mutex_lock(&pool->lock);
        pool->reading_count--;
        if (pool->first != NULL && pool->idle_count > 0)
            condition_signal(&pool->filled);
    }
    mutex_unlock(&pool->lock);
    read_buffers_release(&buffers);
}

bool read_pool_adjust(struct tier *tier)
{
    struct read_pool *pool = tier->read_pool;
    int wanted = (int)tier->settings.load_threads;

    if (wanted == pool->thread_count)
        return true;
    if (wanted < 1)
        wanted = 1;
    if (wanted > READ_POOL_MAX)
        wanted = READ_POOL_MAX;
    if (wanted < pool->thread_count) {
        mutex_lock(&pool->lock);
        pool->wanted_count = wanted;
        condition_broadcast(&pool->filled);
        mutex_unlock(&pool->lock);
        while (pool->thread_count > wanted)
            thread_join(&pool->threads[--pool->thread_count]);
    }
    pool->wanted_count = wanted;
    while (pool->thread_count < wanted) {
        struct pool_thread *thread = mem_alloc(sizeof(*thread));

        *thread = (struct pool_thread){ tier, pool->thread_count };
        if (thread_start(&pool->threads[pool->thread_count], "kelvin-load", tier->hooks.meter, pool_main, thread) != 0) {
            mem_free(thread);
            break;                  /* the system gives no more threads: the writer tries again in its next round */
        }
        pool->thread_count++;
    }
    return pool->thread_count > 0;
}

void read_pool_stop(struct tier *tier)
{
    struct read_pool *pool = tier->read_pool;

    mutex_lock(&pool->lock);
    pool->is_stopping = true;
    condition_broadcast(&pool->filled);
    mutex_unlock(&pool->lock);
    while (pool->thread_count > 0)
        thread_join(&pool->threads[--pool->thread_count]);
}

int read_pool_idle(struct tier *tier)
{
    int count;

    mutex_lock(&tier->read_pool->lock);
    count = tier->read_pool->idle_count;
    mutex_unlock(&tier->read_pool->lock);
    return count;
}

uint64_t read_pool_queued(struct tier *tier)
{
    uint64_t count;

    mutex_lock(&tier->read_pool->lock);
    count = tier->read_pool->queue_size;
    mutex_unlock(&tier->read_pool->lock);
    return count;
}
