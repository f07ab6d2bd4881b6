/* Sorted sets of 10 to 1 M elements: bytes per element, and time of each operation. Members are "member:" and a number,
 * scores are random, as in the measurements of redis-server in tests/bench/README.md.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/random.h"
#include "containers/btree.h"

enum { PROBES = 200000 };

static struct bytes member_of(uint64_t number, char room[32])
{
    return bytes_of(room, (size_t)sprintf(room, "member:%" PRIu64, number));
}

static double ns_since(int64_t start, size_t count)
{
    return (double)(clock_mono_ns() - start) / (double)count;
}

static void run(size_t count)
{
    struct hash_seed seed = { 1, 2 };
    struct btree *tree = btree_create(&seed);
    struct random random;
    struct btree_place place;
    struct bytes member;
    uint64_t sum = 0;
    int64_t start;
    double insert, find, rank, seek, by_score, change, walk, removal;
    char room[32];

    random_init(&random, count);
    start = clock_mono_ns();
    for (size_t i = 0; i < count; i++)
        btree_put(tree, member_of(i, room), (double)random_below(&random, 1000000000));
    insert = ns_since(start, count);
    start = clock_mono_ns();
    for (size_t i = 0; i < PROBES; i++)
        sum += btree_find(tree, member_of(random_below(&random, count), room), &place);
    find = ns_since(start, PROBES);
    start = clock_mono_ns();
    for (size_t i = 0; i < PROBES; i++) {
        btree_find(tree, member_of(random_below(&random, count), room), &place);
        sum += btree_rank(tree, place);
    }
    rank = ns_since(start, PROBES);
    start = clock_mono_ns();
    for (size_t i = 0; i < PROBES; i++)
        sum += btree_seek_rank(tree, random_below(&random, count), &place);
    seek = ns_since(start, PROBES);
    start = clock_mono_ns();
    for (size_t i = 0; i < PROBES; i++)
        sum += btree_count_by_score(tree, (double)random_below(&random, 1000000000), BTREE_BELOW);
    by_score = ns_since(start, PROBES);
    start = clock_mono_ns();
    for (size_t i = 0; i < PROBES; i++)
        btree_put(tree, member_of(random_below(&random, count), room), (double)random_below(&random, 1000000000));
    change = ns_since(start, PROBES);
    start = clock_mono_ns();
    btree_seek_rank(tree, 0, &place);
    do {
        btree_get(tree, place, &member);
        sum += member.size;
    } while (btree_next(tree, &place));
    walk = ns_since(start, count);
    printf("%8zu elements: %5.1f bytes each; ns: put %.0f find %.0f rank %.0f seek %.0f by score %.0f change %.0f step %.1f", count,
        (double)btree_memory(tree, 0) / (double)count, insert, find, rank, seek, by_score, change, walk);
    start = clock_mono_ns();
    for (size_t i = 0; i < count; i++)
        btree_remove(tree, member_of(i, room));
    removal = ns_since(start, count);
    printf(" remove %.0f (%" PRIu64 ")\n", removal, sum % 10);
    btree_destroy(tree);
}

int main(void)
{
    for (size_t count = 100; count <= 1000000; count *= 10)
        run(count);
    return 0;
}
