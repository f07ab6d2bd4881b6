#include "base/meter.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/mutex.h"

enum { THREADS_MAX = 512 };        /* 128 loops, 64 loaders, 64 for jobs of units, and some others */

/* From jemalloc, if it is linked. */
extern int mallctl(const char *name, void *old, size_t *old_size, void *new, size_t new_size) __attribute__((weak));

extern void malloc_stats_print(void (*write)(void *, const char *), void *context, const char *options)
    __attribute__((weak));

struct slot {
    pthread_t thread;
    int joined;             /* nesting depth: the main thread runs a loop, too */
    uint64_t *_Atomic allocated, *_Atomic freed;        /* jemalloc's counters for this thread, in the thread's own memory */
};

struct meter {
    _Atomic int references;
    struct mutex lock;               /* for joining and leaving */
    struct slot slots[THREADS_MAX];
    _Atomic int count;
    _Atomic int64_t settled;            /* what threads that have left had in use, and what was in use before */
};

const uint64_t meter_nothing_allocated;

const uint64_t *meter_own_allocated(void)
{
    uint64_t *allocated = NULL;
    size_t size = sizeof(allocated);

    if (mallctl == NULL || mallctl("thread.allocatedp", &allocated, &size, NULL, 0) != 0)
        return &meter_nothing_allocated;
    return allocated;
}

struct meter *meter_create(void)
{
    struct meter *meter = mem_zalloc(sizeof(*meter));

    meter->references = 1;
    mutex_init(&meter->lock);
    return meter;
}

struct meter *meter_hold(struct meter *meter)
{
    atomic_fetch_add(&meter->references, 1);
    return meter;
}

void meter_release(struct meter *meter)
{
    if (atomic_fetch_sub(&meter->references, 1) > 1)
        return;
    mutex_release(&meter->lock);
    mem_free(meter);
}

static uint64_t read_counter(uint64_t *counter)
{
    return counter == NULL ? 0 : __atomic_load_n(counter, __ATOMIC_RELAXED);
}

void meter_join(struct meter *meter)
{
    uint64_t *allocated = NULL, *freed = NULL;
    size_t size = sizeof(allocated);
    int at;

    if (mallctl == NULL)
        return;
    if (mallctl("thread.allocatedp", &allocated, &size, NULL, 0) != 0 ||
        mallctl("thread.deallocatedp", &freed, &size, NULL, 0) != 0)
        return;
    mutex_lock(&meter->lock);
    for (at = 0; at < meter->count; at++) {
        if (meter->slots[at].allocated == allocated) {
            meter->slots[at].joined++;
            mutex_unlock(&meter->lock);
            return;
        }
    }
    for (at = 0; at < meter->count && meter->slots[at].allocated != NULL; at++)
        ;
    CHECK(at < THREADS_MAX);
    meter->slots[at].joined = 1;
    meter->slots[at].thread = pthread_self();
    meter->slots[at].freed = freed;
    meter->slots[at].allocated = allocated;
    if (at == meter->count)
        meter->count++;
    mutex_unlock(&meter->lock);
}

void meter_leave(struct meter *meter)
{
    mutex_lock(&meter->lock);
    for (int i = 0; i < meter->count; i++) {
        struct slot *slot = &meter->slots[i];

        if (slot->allocated == NULL || !pthread_equal(slot->thread, pthread_self()) || --slot->joined > 0)
            continue;
        meter->settled += (int64_t)(read_counter(slot->allocated) - read_counter(slot->freed));
        slot->allocated = NULL;
        slot->freed = NULL;
    }
    mutex_unlock(&meter->lock);
}

uint64_t meter_used(const struct meter *meter)
{
    int64_t used = meter->settled;

    if (mallctl == NULL) {
        struct mallinfo2 info = mallinfo2();

        return info.uordblks + info.hblkhd;
    }
    for (int i = 0; i < meter->count; i++)
        used += (int64_t)(read_counter(meter->slots[i].allocated) - read_counter(meter->slots[i].freed));
    return used > 0 ? (uint64_t)used : 0;
}

static uint64_t allocator_statistic(const char *name)
{
    size_t value = 0, size = sizeof(value);

    return mallctl(name, &value, &size, NULL, 0) == 0 ? value : 0;
}

static bool refresh_statistics(void)
{
    uint64_t epoch = 1;
    size_t size = sizeof(epoch);

    return mallctl != NULL && mallctl("epoch", &epoch, &size, &epoch, size) == 0;
}

bool meter_allocator(struct meter_allocator *out)
{
    if (!refresh_statistics())
        return false;
    *out = (struct meter_allocator){
        .allocated = allocator_statistic("stats.allocated"),
        .active = allocator_statistic("stats.active"),
        .resident = allocator_statistic("stats.resident"),
        .retained = allocator_statistic("stats.retained"),
        .metadata = allocator_statistic("stats.metadata"),
    };
    return true;
}

uint64_t meter_resident(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;

    if (file == NULL)
        return 0;
    if (fscanf(file, "%*u %lu", &pages) != 1)
        pages = 0;
    fclose(file);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* 4096: all arenas. */
uint64_t meter_freed_pages(void)
{
    return refresh_statistics() ? allocator_statistic("stats.arenas.4096.pdirty") * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

void meter_purge(void)
{
    if (mallctl != NULL)
        mallctl("arena.4096.purge", NULL, NULL, NULL, 0);
}

void meter_give_back(uint64_t most)
{
    if (meter_freed_pages() > most)
        meter_purge();
}

void meter_name(char name[64])
{
    const char *version = NULL;
    size_t size = sizeof(version);

    if (mallctl == NULL || mallctl("version", &version, &size, NULL, 0) != 0)
        snprintf(name, 64, "libc");
    else
        snprintf(name, 64, "jemalloc-%.*s", (int)strcspn(version, "-"), version);
}

static void append_text(void *context, const char *text)
{
    buffer_append_string(context, text);
}

void meter_report(struct buffer *out)
{
    if (malloc_stats_print != NULL)
        malloc_stats_print(append_text, out, NULL);
    else
        buffer_append_string(out, "This build uses the C library's allocator, which has no statistics to show.\n");
}
