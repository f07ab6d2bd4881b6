/* A page tree of leaves with 32 elements each, all nodes in memory: time of finding a leaf, of walking and of changing, bytes a leaf. A btree of as many elements beside it. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/random.h"
#include "containers/btree.h"
#include "containers/page_tree.h"
#include "support/block_pager.h"

enum { PROBES = 500000, A_LEAF = 32 };

static struct bytes separator_of(uint64_t number, char room[8])
{
    for (int i = 0; i < 8; i++)
        room[i] = (char)(number >> (56 - 8 * i));
    return bytes_of(room, 8);
}

static double ns_since(int64_t start, size_t count)
{
    return (double)(clock_mono_ns() - start) / (double)count;
}

static void run_tree(size_t count)
{
    struct block_pager blocks;
    struct page_tree_root root = { 0 };
    struct page_tree tree = { &root, &blocks.pager, PAGE_TREE_LIMITS_DEFAULT };
    size_t leaves = count / A_LEAF, found = 0, bytes;
    double rank, separator, walk, counts;
    struct page_tree_path path;
    struct random random;
    int64_t start;
    char room[8];

    random_init(&random, count);
    block_pager_init(&blocks);
    for (size_t i = 0; i < leaves; i++) {
        if (i > 0)
            page_tree_last(&tree, &path);
        page_tree_insert(&tree, i > 0 ? &path : NULL, PAGE_TREE_AFTER, separator_of(i * A_LEAF, room), A_LEAF, 0, NULL);
    }
    bytes = block_pager_memory(&blocks);
    start = clock_mono_ns();
    for (size_t i = 0; i < PROBES; i++)
        found += page_tree_seek_rank(&tree, random_below(&random, leaves * A_LEAF), &path) == PAGE_TREE_YES;
    rank = ns_since(start, PROBES);
    start = clock_mono_ns();
    for (size_t i = 0; i < PROBES; i++)
        found += page_tree_seek(&tree, separator_of(random_below(&random, leaves * A_LEAF), room), &path) == PAGE_TREE_YES;
    separator = ns_since(start, PROBES);
    start = clock_mono_ns();
    for (size_t i = 0; i < PROBES; i++) {
        found += page_tree_seek(&tree, separator_of(random_below(&random, leaves * A_LEAF), room), &path) == PAGE_TREE_YES;
        page_tree_set_count(&tree, &path, A_LEAF + i % 2);
    }
    counts = ns_since(start, PROBES);
    start = clock_mono_ns();
    page_tree_first(&tree, &path);
    while (page_tree_next(&tree, &path) == PAGE_TREE_YES)
        found++;
    walk = ns_since(start, leaves);
    printf("%8zu elements, tree:  %4.1f bytes a leaf, height %u; ns: rank %.0f separator %.0f find and count %.0f next leaf %.0f (%zu)\n", count,
        (double)bytes / (double)leaves, root.height, rank, separator, counts, walk, found % 10);
    page_tree_root_release(&root);
    block_pager_release(&blocks);
}

static void run_btree(size_t count)
{
    struct hash_seed seed = { 1, 2 };
    struct btree *tree = btree_create(&seed);
    struct btree_place place;
    struct random random;
    size_t found = 0;
    double rank, score;
    int64_t start;
    char room[8];

    random_init(&random, count);
    for (size_t i = 0; i < count; i++)
        btree_put(tree, separator_of(i, room), (double)i);
    start = clock_mono_ns();
    for (size_t i = 0; i < PROBES; i++)
        found += btree_seek_rank(tree, random_below(&random, count), &place);
    rank = ns_since(start, PROBES);
    start = clock_mono_ns();
    for (size_t i = 0; i < PROBES; i++)
        found += btree_count_by_score(tree, (double)random_below(&random, count), BTREE_BELOW) > 0;
    score = ns_since(start, PROBES);
    printf("%8zu elements, btree: ns: rank %.0f score %.0f (%zu)\n", count, rank, score, found % 10);
    btree_destroy(tree);
}

int main(void)
{
    for (size_t count = 10000; count <= 1000000; count *= 10) {
        run_btree(count);
        run_tree(count);
    }
    return 0;
}
