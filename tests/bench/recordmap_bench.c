/* Memory and speed of the record map: 256 maps that grow together, as the partitions of a server do.
 *
 * Prints bytes per tag (as the maps count them, and as growth of the process's RSS) at sizes from 1 to 4 * 10^4 tags
 * per map, and again after half and more of them were removed, without places and with places of 33 bits (units of 16 bytes in
 * 8 GiB, and a size class); then nanoseconds per operation at 10 million records on random keys (so mostly outside the
 * caches), false maybes of 20 million absent keys, and the longest steps of one map of 3 million, compared with the longest lookup,
 * which moves nothing: that much is noise of the machine.
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
    MAPS = 256,
    TIMED = 39062,              /* tags per map for the timings: 10 million in all */
    PLACE_BITS = 33,
    PLACE_BITS_MAX = 40,        /* 1 TiB */
    PROBES = 20000000,
    OPERATIONS = 1000000,
    BATCH = 16,                 /* as in a pipeline that prefetches */
    PARTITION_SHIFT = 56,
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

/* As of a store that is filled and used at random. */
static uint64_t place_of(uint64_t number, unsigned place_bits)
{
    return place_bits == 0 ? 0 : hash_of(~number) >> (64 - place_bits);
}

static void add(struct recordmap **maps, uint64_t number, unsigned place_bits)
{
    uint64_t hash = hash_of(number);

    recordmap_add(maps[hash >> PARTITION_SHIFT], hash, bytes_of(&number, sizeof(number)), place_of(number, place_bits));
}

static void take(struct recordmap **maps, uint64_t number, unsigned place_bits)
{
    uint64_t hash = hash_of(number);

    recordmap_remove(maps[hash >> PARTITION_SHIFT], hash, bytes_of(&number, sizeof(number)), place_of(number, place_bits));
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
        maps[i] = recordmap_create((uint8_t)(i * 256 / MAPS), 0);
}

static void maps_destroy(struct recordmap **maps)
{
    for (int i = 0; i < MAPS; i++)
        recordmap_destroy(maps[i]);
}

static void measure_memory(unsigned place_bits)
{
    static const int sizes[] = { 1, 10, 40, 100, 1000, 4000, 10000, 14142, 20000, 28284, 40000 };
    int count = sizeof(sizes) / sizeof(sizes[0]);
    struct recordmap *maps[MAPS];
    size_t rss_before = rss_of_process();
    uint64_t added = 0;
    double size_sum = 0, rss_sum = 0;
    int summed = 0;

    maps_create(maps);
    printf("%d maps growing together, places of %u bits\n%10s %12s %12s\n", MAPS, place_bits, "tags/map", "bytes/tag", "RSS/tag");
    for (int i = 0; i < count; i++) {
        uint64_t until = (uint64_t)sizes[i] * MAPS;
        double size, rss;

        for (; added < until; added++)
            add(maps, added, place_bits);
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
    for (int i = count - 1; i >= 6; i -= 2) {
        uint64_t until = (uint64_t)sizes[i] * MAPS / 2;

        for (; added > until; added--)
            take(maps, added - 1, place_bits);
        printf("removed down to %lu a map: %.3f bytes/tag, %.3f RSS/tag\n", (unsigned long)(until / MAPS),
            (double)maps_size(maps) / (double)until, (double)(rss_of_process() - rss_before) / (double)until);
    }
    maps_destroy(maps);
}

/* As many tags a map as with 10^8 (and 10^9) keys in 256 maps, in eight maps of all staggers. */
static void measure_large(unsigned place_bits, uint64_t tags)
{
    size_t size = 0;

    for (int i = 0; i < 8; i++) {
        struct recordmap *map = recordmap_create((uint8_t)(i * 32), 0);

        for (uint64_t number = 0; number < tags; number++)
            recordmap_add(map, hash_of(number << 3 | (uint64_t)i), bytes_of(&number, sizeof(number)), place_of(number, place_bits));
        size += recordmap_size(map);
        recordmap_destroy(map);
    }
    printf("%lu tags a map, places of %u bits: %.3f bytes/tag\n", (unsigned long)tags, place_bits, (double)size / (double)(tags * 8));
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

static uint64_t finds(struct recordmap **maps, uint64_t first, uint64_t count, unsigned place_bits)
{
    uint64_t found = 0, place;

    for (uint64_t i = first; i < first + count; i++)
        if (recordmap_find(map_of(maps, hash_of(i)), hash_of(i), bytes_of(&i, sizeof(i)), &place))
            found += place == place_of(i, place_bits);
    return found;
}

static uint64_t finds_prefetched(struct recordmap **maps, uint64_t first, uint64_t count, unsigned place_bits)
{
    uint64_t found = 0;

    for (uint64_t i = first; i < first + count; i += BATCH) {
        for (uint64_t j = i; j < i + BATCH; j++)
            recordmap_prefetch(map_of(maps, hash_of(j)), hash_of(j));
        found += finds(maps, i, BATCH, place_bits);
    }
    return found;
}

static uint64_t walk_all(const struct recordmap *map)
{
    struct recordmap_record record;
    struct recordmap_walk walk;
    uint64_t count = 0;

    recordmap_walk_begin(&walk, map, 0);
    while (recordmap_walk_next(&walk, &record))
        count++;
    return count;
}

static void measure_speed(unsigned place_bits)
{
    struct recordmap *maps[MAPS];
    uint64_t total = (uint64_t)TIMED * MAPS, walked = 0;
    int64_t start_ns;

    printf("places of %u bits\n", place_bits);
    maps_create(maps);
    start_ns = clock_mono_ns();
    for (uint64_t i = 0; i < total; i++)
        add(maps, i, place_bits);
    print_ns("add, growing from nothing", start_ns, total);
    start_ns = clock_mono_ns();
    CHECK(maybes(maps, total / 3, OPERATIONS) == OPERATIONS);
    print_ns("maybe, present", start_ns, OPERATIONS);
    start_ns = clock_mono_ns();
    CHECK(finds(maps, total / 4, OPERATIONS, place_bits) == OPERATIONS);
    print_ns("find, present", start_ns, OPERATIONS);
    start_ns = clock_mono_ns();
    CHECK(maybes(maps, total, OPERATIONS) < OPERATIONS / 1000);
    print_ns("maybe, absent", start_ns, OPERATIONS);
    start_ns = clock_mono_ns();
    CHECK(maybes_prefetched(maps, total / 2, OPERATIONS) == OPERATIONS);
    print_ns("maybe, present, prefetched", start_ns, OPERATIONS);
    start_ns = clock_mono_ns();
    CHECK(finds_prefetched(maps, total / 5, OPERATIONS, place_bits) == OPERATIONS);
    print_ns("find, present, prefetched", start_ns, OPERATIONS);
    start_ns = clock_mono_ns();
    CHECK(maybes_prefetched(maps, total + OPERATIONS, OPERATIONS) < OPERATIONS / 1000);
    print_ns("maybe, absent, prefetched", start_ns, OPERATIONS);
    start_ns = clock_mono_ns();
    for (uint64_t i = 0; i < OPERATIONS; i++)
        take(maps, i, place_bits);
    print_ns("remove", start_ns, OPERATIONS);
    start_ns = clock_mono_ns();
    for (uint64_t i = 0; i < OPERATIONS; i++)
        add(maps, i, place_bits);
    print_ns("add, at size", start_ns, OPERATIONS);
    start_ns = clock_mono_ns();
    uint64_t wrong = maybes(maps, total + 2 * OPERATIONS, PROBES);
    printf("false maybes: %lu of %d at %lu tags in %d maps = %.2e (%.1f ns each)\n", (unsigned long)wrong, PROBES,
        (unsigned long)total, MAPS, (double)wrong / PROBES, (double)(clock_mono_ns() - start_ns) / PROBES);
    start_ns = clock_mono_ns();
    for (int i = 0; i < MAPS; i++)
        walked += walk_all(maps[i]);
    CHECK(walked == total);
    print_ns("walk, a tag", start_ns, total);
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
    struct recordmap *map = recordmap_create(0, 0);

    for (enum step step = STEP_ADD; step < STEPS; step++) {
        uint64_t over[LIMITS] = { 0 };
        int64_t longest_ns = 0;

        for (uint64_t i = 0; i < GROWN; i++) {
            int64_t start_ns = cpu_ns();
            int64_t ns;

            if (step == STEP_ADD)
                recordmap_add(map, hash_of(i), bytes_of(&i, sizeof(i)), place_of(i, PLACE_BITS));
            else if (step == STEP_LOOK)
                CHECK(recordmap_maybe(map, hash_of(i)));
            else
                recordmap_remove(map, hash_of(i), bytes_of(&i, sizeof(i)), place_of(i, PLACE_BITS));
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
    measure_memory(0);
    measure_memory(PLACE_BITS);
    measure_large(PLACE_BITS, 390625);
    measure_large(PLACE_BITS_MAX, 390625);
    measure_speed(0);
    measure_speed(PLACE_BITS);
    measure_steps();
    return 0;
}
