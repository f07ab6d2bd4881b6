/* Hashes of 10^4 to 10^6 pairs of 12 + 16 bytes: a paged table, all of whose pages are in memory, beside a dict: time of each operation, bytes a pair. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/random.h"
#include "containers/dict.h"
#include "containers/paged_table.h"
#include "support/block_pager.h"

enum { PROBES = 500000 };

static const struct hash_seed seed = { 1, 2 };

static struct bytes key_of(uint64_t number, char room[32])
{
    return bytes_of(room, (size_t)sprintf(room, "field:%06" PRIu64, number));
}

struct times {
    double put, find, change, remove, bytes;
};

static double ns_since(int64_t start, size_t count)
{
    return (double)(clock_mono_ns() - start) / (double)count;
}

static void run_dict(size_t count, struct times *times)
{
    struct dict *dict = dict_create(&seed);
    struct random random;
    struct bytes value = BYTES("0123456789abcdef");
    int64_t start = clock_mono_ns();
    uint64_t found = 0;
    char room[32];

    random_init(&random, count);
    for (size_t i = 0; i < count; i++)
        dict_put(dict, key_of(i, room), value);
    times->put = ns_since(start, count);
    times->bytes = (double)dict_memory(dict, 0) / (double)count;
    start = clock_mono_ns();
    for (size_t i = 0; i < PROBES; i++)
        found += dict_find(dict, key_of(random_below(&random, count), room), &value);
    times->find = ns_since(start, PROBES);
    start = clock_mono_ns();
    for (size_t i = 0; i < PROBES; i++)
        dict_put(dict, key_of(random_below(&random, count), room), BYTES("fedcba9876543210"));
    times->change = ns_since(start, PROBES);
    start = clock_mono_ns();
    for (size_t i = 0; i < count; i++)
        found += dict_remove(dict, key_of(i, room));
    times->remove = ns_since(start, count);
    if (found != PROBES + count)
        printf("wrong\n");
    dict_destroy(dict);
}

static void run_table(size_t count, struct times *times)
{
    struct block_pager blocks;
    struct paged_root root;
    struct paged_table table = { .root = &root, .pager = &blocks.pager, .seed = seed, .limits = PAGED_LIMITS_DEFAULT };
    struct random random;
    struct bytes value = BYTES("0123456789abcdef");
    int64_t start = clock_mono_ns();
    uint64_t found = 0;
    char room[32];

    random_init(&random, count);
    block_pager_init(&blocks);
    paged_table_create(&table, 0, 0);
    for (size_t i = 0; i < count; i++)
        paged_table_put(&table, key_of(i, room), value);
    times->put = ns_since(start, count);
    times->bytes = (double)block_pager_memory(&blocks) / (double)count;
    start = clock_mono_ns();
    for (size_t i = 0; i < PROBES; i++)
        found += paged_table_find(&table, key_of(random_below(&random, count), room), &value) == PAGED_YES;
    times->find = ns_since(start, PROBES);
    start = clock_mono_ns();
    for (size_t i = 0; i < PROBES; i++)
        paged_table_put(&table, key_of(random_below(&random, count), room), BYTES("fedcba9876543210"));
    times->change = ns_since(start, PROBES);
    start = clock_mono_ns();
    for (size_t i = 0; i < count; i++)
        found += paged_table_remove(&table, key_of(i, room)) == PAGED_YES;
    times->remove = ns_since(start, count);
    if (found != PROBES + count)
        printf("wrong\n");
    block_pager_release(&blocks);
}

static void print(const char *name, size_t count, const struct times *times)
{
    printf("%8zu pairs, %-6s %5.1f bytes each; ns: put %.0f find %.0f change %.0f remove %.0f\n", count, name, times->bytes, times->put, times->find,
        times->change, times->remove);
}

int main(void)
{
    for (size_t count = 10000; count <= 1000000; count *= 10) {
        struct times times;

        run_dict(count, &times);
        print("dict", count, &times);
        run_table(count, &times);
        print("table", count, &times);
    }
    return 0;
}
