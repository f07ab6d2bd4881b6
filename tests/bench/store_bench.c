/* Cost of the store: CPU of a put and a get, bytes on disk and bytes of memory per record.
 *
 *   store_bench [records [value size [block sizes ...]]]      (300000 200 4096 8192 16384)
 *
 * 16-byte keys, written in batches of 1000 that are random in hash order, while LevelDB compacts in the background
 * (disk B: the size after that); then compacted completely (compact: the size after that), then read at random by one
 * thread, from the page cache. CPU is of the whole process, the compacting thread included; reads are calls of pread
 * per get; a miss is a key that was never put. Memory is what the store adds to the RSS of a fresh process after all
 * tables were read, without memtables and block cache (store_memory).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/disk.h"
#include "base/message.h"
#include "base/random.h"
#include "store/store.h"
#include "store/store_env.h"

enum { BATCH = 1000, GETS = 200000 };

static double cpu_us(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
        (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static double rss(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0, resident = 0;

    CHECK(file != NULL && fscanf(file, "%ld %ld", &pages, &resident) == 2);
    fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static struct bytes key_of(uint64_t number, char *text)
{
    return bytes_of(text, (size_t)snprintf(text, 32, "key:%012llu", (unsigned long long)number));
}

/* All numbers below `count`, each once, in a pseudo-random order. */
static uint64_t shuffled(uint64_t index, uint64_t count)
{
    return index * 2654435761u % count;
}

static void fill(struct store *store, uint64_t count, size_t value_size)
{
    struct hash_seed seed = store_seed(store);
    struct store_batch *batch = store_batch_create();
    struct random random;
    char text[32], *value = calloc(1, value_size + 8);

    random_init(&random, 1);
    for (uint64_t i = 0; i < count; i++) {
        struct bytes key = key_of(shuffled(i, count), text);

        for (size_t at = 0; at < value_size; at += 8) {
            uint64_t word = random_next(&random);
            memcpy(value + at, &word, sizeof(word));
        }
        store_batch_put(batch, 1, hash_bytes(&seed, key), key, bytes_of(value, value_size));
        if (store_batch_count(batch) == BATCH || i + 1 == count) {
            CHECK(store_write(store, batch) == STATUS_OK);
            store_batch_clear(batch);
        }
    }
    store_batch_destroy(batch);
    free(value);
}

static void get_all(struct store *store, uint64_t count, bool present)
{
    struct hash_seed seed = store_seed(store);
    struct buffer record;
    struct random random;
    char text[32];

    buffer_init(&record);
    random_init(&random, 2);
    for (int i = 0; i < GETS; i++) {
        struct bytes key = key_of(random_below(&random, count) + (present ? 0 : count), text);

        record.size = 0;
        CHECK(store_get(store, 1, hash_bytes(&seed, key), key, &record) == (present ? STATUS_OK : STATUS_NOT_FOUND));
    }
    buffer_release(&record);
}

static void part_fill(struct store_options *options, uint64_t count, size_t value_size)
{
    struct message message;
    struct store_env_stats stats;
    struct store *store;
    double cpu, wall;

    CHECK(store_open(options, &store, &message) == STATUS_OK);
    cpu = cpu_us();
    wall = (double)clock_mono_us();
    fill(store, count, value_size);
    store_close(store);     /* waits for the compaction in progress */
    cpu = cpu_us() - cpu;
    wall = (double)clock_mono_us() - wall;
    stats = store_env_stats(options->env);
    CHECK(store_open(options, &store, &message) == STATUS_OK);
    printf("%6zu %8.2f %8.2f %6.1f %8.1f", options->block_size, cpu / (double)count, wall / (double)count,
        (double)stats.written_bytes / (double)count / (double)(16 + value_size),
        (double)store_disk_size(store) / (double)count);
    CHECK(store_compact(store) == STATUS_OK);    /* so that the next part has nothing to write */
    store_close(store);
}

static void part_read(struct store_options *options, uint64_t count)
{
    struct message message;
    double memory = rss(), get_us, miss_us;
    struct store_env_stats before, after;
    struct store *store;

    CHECK(store_open(options, &store, &message) == STATUS_OK);
    get_all(store, count, true);    /* opens every table */
    before = store_env_stats(options->env);
    get_us = cpu_us();
    get_all(store, count, true);
    get_us = (cpu_us() - get_us) / GETS;
    after = store_env_stats(options->env);
    miss_us = cpu_us();
    get_all(store, count, false);
    miss_us = (cpu_us() - miss_us) / GETS;
    memory = rss() - memory - (double)store_memory(store);
    printf(" %8.1f %8.2f %8.2f %8.2f %8.2f\n", (double)store_disk_size(store) / (double)count, get_us,
        (double)(after.reads - before.reads) / GETS, miss_us, memory / (double)count);
    store_close(store);
}

/* Each part runs in its own process: memory that the allocator keeps of the memtables would hide that of the tables. */
static void run(char *const argv[])
{
    int status;

    fflush(stdout);
    if (fork() == 0) {
        execv("/proc/self/exe", argv);
        _exit(1);
    }
    CHECK(wait(&status) > 0 && status == 0);
}

int main(int argc, char **argv)
{
    static char *sizes_default[] = { "4096", "8192", "16384" };
    char root[] = "/tmp/store-bench-XXXXXX", dir[64];
    char *count = argc > 1 ? argv[1] : "300000", *value_size = argc > 2 ? argv[2] : "200";
    char **sizes = argc > 3 ? argv + 3 : sizes_default;
    int size_count = argc > 3 ? argc - 3 : 3;

    if (argc == 6 && (strcmp(argv[1], "fill") == 0 || strcmp(argv[1], "read") == 0)) {
        struct store_options options = { .dir = argv[2], .block_size = strtoul(argv[5], NULL, 10) };
        uint64_t records = strtoull(argv[3], NULL, 10);

        options.env = store_env_create(disk_system());
        if (strcmp(argv[1], "fill") == 0)
            part_fill(&options, records, strtoul(argv[4], NULL, 10));
        else
            part_read(&options, records);
        store_env_destroy(options.env);
        return 0;
    }
    printf("%s records, keys of 16 bytes, values of %s bytes\n", count, value_size);
    printf("%6s %8s %8s %6s %8s %8s %8s %8s %8s %8s\n", "block", "put us", "put wall", "w.amp", "disk B", "compact",
        "get us", "reads", "miss us", "memory B");
    for (int i = 0; i < size_count; i++) {
        char *fill_argv[] = { "store_bench", "fill", dir, count, value_size, sizes[i], NULL };
        char *read_argv[] = { "store_bench", "read", dir, count, value_size, sizes[i], NULL };

        strcpy(root, "/tmp/store-bench-XXXXXX");
        CHECK(mkdtemp(root) != NULL);
        snprintf(dir, sizeof(dir), "%s/store", root);
        run(fill_argv);
        run(read_argv);
        CHECK(store_remove(dir, NULL) == STATUS_OK);
        rmdir(root);
    }
    return 0;
}
