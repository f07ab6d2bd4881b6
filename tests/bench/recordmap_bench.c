/* Memory and speed of the record map: 64 maps that grow together, as the partitions of a server do.
 *
 * Prints bytes per tag (as the maps count them, and as growth of the process's RSS) at sizes from 10 to 2 * 10^5 tags
 * per map, and again after half and more of them were removed; then nanoseconds per operation at 1.56 * 10^5 tags on
 * random keys (so mostly outside the caches), false maybes of 20 million absent keys, and the longest steps of one map
 * of 3 million, compared with the longest lookup, which moves nothing: that much is noise of the machine.
 *
 * jemalloc keeps freed pages for 10 seconds, which is longer than this runs.
 * MALLOC_CONF=dirty_decay_ms:0,muzzy_decay_ms:0 shows what remains in the end.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "tier/recordmap.h"

enum {
    MAPS = 64,
    TIMED = 156250,             /* tags per map for the timings: 10 million in all */
    PROBES = 20000000,
    OPERATIONS = 1000000,
    BATCH = 16,                 /* as in a pipeline that prefetches */
    PARTITION_SHIFT = 58,
};

/* A bijection (the finisher of splitmix64), so different numbers are different hashes. */
static uint64_t hash_of(uint64_t number)
{
    uint64_t z = number * 0x9e3779b97f4a7c15ull;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static size_t rss_of_process(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;

    CHECK(file != NULL && fscanf(file, "%*u %lu", &pages) == 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static struct recordmap *map_of(struct recordmap **maps, uint64_t hash)
{
    return maps[hash >> PARTITION_SHIFT];
}

static size_t maps_size(struct recordmap **maps)
{
    size_t size = 0;

    for (int i = 0; i < MAPS; i++)
        size += recordmap_size(maps[i]);
    return size;
}

static void maps_create(struct recordmap **maps)
{
    for (int i = 0; i < MAPS; i++)
        maps[i] = recordmap_create((uint8_t)(i * 256 / MAPS));
}

static void maps_destroy(struct recordmap **maps)
{
    for (int i = 0; i < MAPS; i++)
        recordmap_destroy(maps[i]);
}

static void measure_memory(void)
{
    static const int sizes[] = { 10, 100, 1000, 10000, 14142, 20000, 28284, 40000, 56568, 80000, 113137, 156250, 160000,
        200000 };
    int count = sizeof(sizes) / sizeof(sizes[0]);
    struct recordmap *maps[MAPS];
    size_t rss_before = rss_of_process();
    uint64_t added = 0;
    double size_sum = 0, rss_sum = 0;
    int summed = 0;

    maps_create(maps);
    printf("64 maps growing together\n%10s %12s %12s\n", "tags/map", "bytes/tag", "RSS/tag");
    for (int i = 0; i < count; i++) {
        uint64_t until = (uint64_t)sizes[i] * MAPS;
        double size, rss;

        for (; added < until; added++) {
            uint64_t hash = hash_of(added);

            recordmap_add(map_of(maps, hash), hash);
        }
        size = (double)maps_size(maps) / (double)until;
        rss = (double)(rss_of_process() - rss_before) / (double)until;
        printf("%10d %12.3f %12.3f\n", sizes[i], size, rss);
        if (sizes[i] >= 10000) {
            size_sum += size;
            rss_sum += rss;
            summed++;
        }
    }
    printf("mean from 10^4 on: %.3f bytes, %.3f RSS\n", size_sum / summed, rss_sum / summed);
    for (int i = count - 1; i >= 3; i -= 4) {
        uint64_t until = (uint64_t)sizes[i] * MAPS / 2;

        for (; added > until; added--)
            recordmap_remove(map_of(maps, hash_of(added - 1)), hash_of(added - 1));
        printf("removed down to %lu a map: %.3f bytes/tag, %.3f RSS/tag\n", (unsigned long)(until / MAPS),
            (double)maps_size(maps) / (double)until, (double)(rss_of_process() - rss_before) / (double)until);
    }
    maps_destroy(maps);
}

static void print_ns(const char *name, int64_t start_ns, uint64_t count)
{
    printf("%-28s %6.1f ns\n", name, (double)(clock_mono_ns() - start_ns) / (double)count);
}

/* The number of keys, from number `first` on, of which the map says maybe. */
static uint64_t maybes(struct recordmap **maps, uint64_t first, uint64_t count)
{
    uint64_t found = 0;

    for (uint64_t i = first; i < first + count; i++)
        found += recordmap_maybe(map_of(maps, hash_of(i)), hash_of(i));
    return found;
}

static uint64_t maybes_prefetched(struct recordmap **maps, uint64_t first, uint64_t count)
{
    uint64_t found = 0;

    for (uint64_t i = first; i < first + count; i += BATCH) {
        for (uint64_t j = i; j < i + BATCH; j++)
            recordmap_prefetch(map_of(maps, hash_of(j)), hash_of(j));
        found += maybes(maps, i, BATCH);
    }
    return found;
}

static void measure_speed(void)
{
    struct recordmap *maps[MAPS];
    uint64_t total = (uint64_t)TIMED * MAPS;
    uint64_t tags_size = 0;
    uint8_t *tags;
    int64_t start_ns;

    maps_create(maps);
    start_ns = clock_mono_ns();
    for (uint64_t i = 0; i < total; i++)
        recordmap_add(map_of(maps, hash_of(i)), hash_of(i));
    print_ns("add, growing from nothing", start_ns, total);
    start_ns = clock_mono_ns();
    CHECK(maybes(maps, total / 3, OPERATIONS) == OPERATIONS);
    print_ns("maybe, present", start_ns, OPERATIONS);
    start_ns = clock_mono_ns();
    CHECK(maybes(maps, total, OPERATIONS) < OPERATIONS / 1000);
    print_ns("maybe, absent", start_ns, OPERATIONS);
    start_ns = clock_mono_ns();
    CHECK(maybes_prefetched(maps, total / 2, OPERATIONS) == OPERATIONS);
    print_ns("maybe, present, prefetched", start_ns, OPERATIONS);
    start_ns = clock_mono_ns();
    CHECK(maybes_prefetched(maps, total + OPERATIONS, OPERATIONS) < OPERATIONS / 1000);
    print_ns("maybe, absent, prefetched", start_ns, OPERATIONS);
    start_ns = clock_mono_ns();
    for (uint64_t i = 0; i < OPERATIONS; i++)
        recordmap_remove(map_of(maps, hash_of(i)), hash_of(i));
    print_ns("remove", start_ns, OPERATIONS);
    start_ns = clock_mono_ns();
    for (uint64_t i = 0; i < OPERATIONS; i++)
        recordmap_add(map_of(maps, hash_of(i)), hash_of(i));
    print_ns("add, at size", start_ns, OPERATIONS);

    start_ns = clock_mono_ns();
    uint64_t wrong = maybes(maps, total + 2 * OPERATIONS, PROBES);
    printf("false maybes: %lu of %d at %lu tags in %d maps = %.2e (%.1f ns each)\n", (unsigned long)wrong, PROBES,
        (unsigned long)total, MAPS, (double)wrong / PROBES, (double)(clock_mono_ns() - start_ns) / PROBES);

    for (int i = 0; i < MAPS; i++)
        tags_size += recordmap_count(maps[i]) * RECORDMAP_TAG_SIZE;
    tags = mem_alloc(tags_size);
    start_ns = clock_mono_ns();
    tags_size = 0;
    for (int i = 0; i < MAPS; i++) {
        recordmap_save(maps[i], tags + tags_size);
        tags_size += recordmap_count(maps[i]) * RECORDMAP_TAG_SIZE;
    }
    print_ns("save, a tag", start_ns, total);
    start_ns = clock_mono_ns();
    tags_size = 0;
    for (int i = 0; i < MAPS; i++) {
        struct recordmap *map = recordmap_create((uint8_t)i);
        uint64_t count = recordmap_count(maps[i]);

        CHECK(recordmap_load(map, tags + tags_size, count) && recordmap_count(map) == count);
        tags_size += count * RECORDMAP_TAG_SIZE;
        recordmap_destroy(maps[i]);
        maps[i] = map;
    }
    print_ns("load, a tag", start_ns, total);
    mem_free(tags);
    maps_destroy(maps);
}

/* CPU time of this thread, so that the time of other processes does not count. */
static int64_t cpu_ns(void)
{
    struct timespec time;

    CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

enum step { STEP_ADD, STEP_LOOK, STEP_REMOVE, STEPS };

static void measure_steps(void)
{
    static const char *const names[STEPS] = { "growing", "looking", "shrinking" };
    static const uint64_t limits_us[] = { 5, 10, 20, 50, 100 };
    enum { LIMITS = 5, GROWN = 3000000 };
    struct recordmap *map = recordmap_create(0);

    for (enum step step = STEP_ADD; step < STEPS; step++) {
        uint64_t over[LIMITS] = { 0 };
        int64_t longest_ns = 0;

        for (uint64_t i = 0; i < GROWN; i++) {
            int64_t start_ns = cpu_ns();
            int64_t ns;

            if (step == STEP_ADD)
                recordmap_add(map, hash_of(i));
            else if (step == STEP_LOOK)
                CHECK(recordmap_maybe(map, hash_of(i)));
            else
                recordmap_remove(map, hash_of(i));
            ns = cpu_ns() - start_ns;
            if (ns > longest_ns)
                longest_ns = ns;
            for (int limit = 0; limit < LIMITS; limit++)
                over[limit] += ns > (int64_t)limits_us[limit] * 1000;
        }
        printf("one map of 3 million, %s: longest %.1f us;", names[step], (double)longest_ns / 1000);
        for (int limit = 0; limit < LIMITS; limit++)
            printf(" over %lu us: %lu;", (unsigned long)limits_us[limit], (unsigned long)over[limit]);
        printf("\n");
    }
    recordmap_destroy(map);
}

int main(void)
{
    measure_memory();
    measure_speed();
    measure_steps();
    return 0;
}
