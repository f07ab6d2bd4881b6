#include "tier/loader.h"

#include "base/mem.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "tier/load.h"
#include "tier/tier_private.h"

enum {
    LOADER_CHUNK_MAX = 16,
    BUFFER_KEPT_MAX = 64 * 1024,
    RECORD_COPIES = 3,              /* of a record while it is read: block, string, buffer or value */
    LOADS_SHARE = 16,               /* of maxmemory, for all loads under way */
};

struct loaders {
    struct mutex lock;              /* leaf; for the queue */
    struct condition filled;
    struct load_batch queue;        /* lock */
    uint64_t queue_size;            /* lock */
    int idle_count, reading_count;  /* lock: loaders that wait, and loaders that read */
    struct condition load_ended;    /* with lock; for threads that wait in tier_loads_help */
    _Atomic int helper_count;       /* threads that wait there */
    _Atomic int wanted_count;       /* loaders with a higher number end by themselves */
    struct thread threads[LOADERS_MAX];
    int thread_count;               /* the writer's, after tier_start: it starts and joins them */
};

struct loaders *loaders_create(void)
{
    struct loaders *loaders = mem_zalloc(sizeof(*loaders));

    mutex_init(&loaders->lock);
    condition_init(&loaders->filled);
    condition_init(&loaders->load_ended);
    return loaders;
}

void loaders_destroy(struct loaders *loaders)
{
    condition_release(&loaders->filled);
    condition_release(&loaders->load_ended);
    mutex_release(&loaders->lock);
    mem_free(loaders);
}

/* A thread that is woken wakes two more, as long as there are loads: the submitting worker pays for one, and all run soon. */
static void wake_for(struct loaders *loaders, uint64_t queue_size, int idle_count, int most)
{
    for (int i = 0; i < most && i < idle_count && (uint64_t)i < queue_size; i++)
        condition_signal(&loaders->filled);
}

void loaders_submit(struct tier *tier, struct load_batch *batch)
{
    struct loaders *loaders = tier->loaders;
    uint64_t count = 0;
    int idle_count;

    for (const struct load *load = batch->first; load != NULL; load = load->batch_next)
        count++;
    if (count == 0)
        return;
    mutex_lock(&loaders->lock);
    if (loaders->queue.last != NULL)
        loaders->queue.last->batch_next = batch->first;
    else
        loaders->queue.first = batch->first;
    loaders->queue.last = batch->last;
    loaders->queue_size += count;
    idle_count = loaders->idle_count;
    mutex_unlock(&loaders->lock);
    wake_for(loaders, count, idle_count, 1);
    batch->first = batch->last = NULL;
}

struct taken {
    struct load *load;
    uint32_t ticket;
};

static struct taken take_one(struct loaders *loaders) REQUIRES(loaders->lock);
static struct taken take_one(struct loaders *loaders)
{
    struct load *load = load_batch_take(&loaders->queue);

    loaders->queue_size--;
    return (struct taken){ load, load->batch_ticket };
}

/* A fair share of the queue, so that all loaders read in parallel, those too that are about to finish what they have. Reads that hit the page
 * cache do not wait for each other: there a few loaders are faster than many that have to be woken. */
static int take_chunk(struct loaders *loaders, bool is_cached, struct taken chunk[LOADER_CHUNK_MAX]) REQUIRES(loaders->lock);
static int take_chunk(struct loaders *loaders, bool is_cached, struct taken chunk[LOADER_CHUNK_MAX])
{
    uint64_t wanted = is_cached ? 1 : (uint64_t)loaders->wanted_count, share = (loaders->queue_size + wanted - 1) / wanted;
    int count = 0;

    while (loaders->queue.first != NULL && count < LOADER_CHUNK_MAX && (uint64_t)count < share) {
        chunk[count++] = take_one(loaders);
    }
    return count;
}

void loaders_note_end(struct tier *tier)
{
    struct loaders *loaders = tier->loaders;

    if (loaders->helper_count == 0)
        return;
    mutex_lock(&loaders->lock);
    condition_broadcast(&loaders->load_ended);
    mutex_unlock(&loaders->lock);
}

/* Reads and installs one load. No lock is held. */
static void do_load(struct tier *tier, struct loading *loading, struct taken taken)
{
    loading->load = taken.load;
    loading->ticket = taken.ticket;
    load_read(tier, loading);
    load_finish(tier, loading, NULL);
    loaders_note_end(tier);
}

bool tier_loads_help(struct tier *tier, uint64_t ended)
{
    struct loaders *loaders = tier->loaders;
    struct taken taken = { NULL, 0 };
    bool is_progress;

    mutex_lock(&loaders->lock);
    if (loaders->queue.first != NULL) {
        taken = take_one(loaders);
    } else {
        loaders->helper_count++;    /* before loads.ended is read; load_finish counts that before helper_count is read */
        while (tier->loads.ended == ended && tier->loads.waiting > 0)
            condition_wait(&loaders->load_ended, &loaders->lock);
        loaders->helper_count--;
    }
    is_progress = taken.load != NULL || tier->loads.ended != ended;
    mutex_unlock(&loaders->lock);
    if (taken.load != NULL) {
        struct loading one = { 0 };

        do_load(tier, &one, taken);
        loading_release(&one);
    }
    return is_progress;
}

/* --- threads --- */

struct loader {
    struct tier *tier;
    int number;
};

/* How many loaders may read at a time: all, but for large records fewer, as LevelDB and the loader have several copies of each. The size is
 * known as the mean of all records only. */
static int reading_max(struct tier *tier)
{
    uint64_t size = tier_record_size(tier) * RECORD_COPIES;
    uint64_t share = (uint64_t)tier->settings.memory_max / LOADS_SHARE;

    if (tier->settings.memory_max <= 0 || size * LOADERS_MAX <= share)
        return LOADERS_MAX;
    return size >= share ? 1 : (int)(share / size);
}

/* Waits until there is something to read. Returns how many loads were taken; 0: the loader ends. */
static int wait_for_chunk(struct tier *tier, struct loaders *loaders, int number, struct taken chunk[LOADER_CHUNK_MAX])
    REQUIRES(loaders->lock);
static int wait_for_chunk(struct tier *tier, struct loaders *loaders, int number, struct taken chunk[LOADER_CHUNK_MAX])
{
    while ((loaders->queue.first == NULL || loaders->reading_count >= reading_max(tier)) && !tier->stopping && number < loaders->wanted_count) {
        loaders->idle_count++;
        condition_wait(&loaders->filled, &loaders->lock);
        loaders->idle_count--;
    }
    if (loaders->queue.first == NULL || number >= loaders->wanted_count)
        return 0;                   /* the first loader always stays until the queue is empty */
    return take_chunk(loaders, access_is_hitting(&tier->access), chunk);
}

static void loader_main(void *context)
{
    struct loader *self = context;
    struct tier *tier = self->tier;
    struct loaders *loaders = tier->loaders;
    int number = self->number, count;
    struct taken chunk[LOADER_CHUNK_MAX];
    struct loading loading = { 0 };         /* its buffers are kept between loads */

    mem_free(self);
    mutex_lock(&loaders->lock);
    while ((count = wait_for_chunk(tier, loaders, number, chunk)) > 0) {
        uint64_t queue_size = loaders->queue_size;
        int idle_count = loaders->idle_count;

        loaders->reading_count++;
        mutex_unlock(&loaders->lock);
        wake_for(loaders, queue_size, idle_count, access_is_hitting(&tier->access) ? 0 : 2);
        for (int i = 0; i < count; i++) {
            do_load(tier, &loading, chunk[i]);
            loading_shrink(&loading, BUFFER_KEPT_MAX);
        }
        mutex_lock(&loaders->lock);
        loaders->reading_count--;
        if (loaders->queue.first != NULL && loaders->idle_count > 0)
            condition_signal(&loaders->filled);
    }
    mutex_unlock(&loaders->lock);
    loading_release(&loading);
}

bool loaders_adjust(struct tier *tier)
{
    struct loaders *loaders = tier->loaders;
    int wanted = (int)tier->settings.load_threads;

    if (wanted == loaders->thread_count)
        return true;
    if (wanted < 1)
        wanted = 1;
    if (wanted > LOADERS_MAX)
        wanted = LOADERS_MAX;
    if (wanted < loaders->thread_count) {
        mutex_lock(&loaders->lock);
        loaders->wanted_count = wanted;
        condition_broadcast(&loaders->filled);
        mutex_unlock(&loaders->lock);
        while (loaders->thread_count > wanted)
            thread_join(&loaders->threads[--loaders->thread_count]);
    }
    loaders->wanted_count = wanted;
    while (loaders->thread_count < wanted) {
        struct loader *loader = mem_alloc(sizeof(*loader));

        *loader = (struct loader){ tier, loaders->thread_count };
        if (thread_start(&loaders->threads[loaders->thread_count], "kelvin-load", tier->hooks.meter, loader_main, loader) != 0) {
            mem_free(loader);
            break;                  /* the system gives no more threads: the writer tries again in its next round */
        }
        loaders->thread_count++;
    }
    return loaders->thread_count > 0;
}

void loaders_stop(struct tier *tier)
{
    struct loaders *loaders = tier->loaders;

    mutex_lock(&loaders->lock);
    condition_broadcast(&loaders->filled);
    mutex_unlock(&loaders->lock);
    while (loaders->thread_count > 0)
        thread_join(&loaders->threads[--loaders->thread_count]);
}

int loaders_idle(struct tier *tier)
{
    int count;

    mutex_lock(&tier->loaders->lock);
    count = tier->loaders->idle_count;
    mutex_unlock(&tier->loaders->lock);
    return count;
}

uint64_t loaders_queued(struct tier *tier)
{
    uint64_t count;

    mutex_lock(&tier->loaders->lock);
    count = tier->loaders->queue_size;
    mutex_unlock(&tier->loaders->lock);
    return count;
}
