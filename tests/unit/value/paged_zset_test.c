/* Sorted sets in pages beside the same in a tree: all functions of the type give the same, whichever pages are missing, and what was asked for is enough. */
#include "support/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "support/folded_pager.h"
#include "support/scaled.h"
#include "value/codec.h"
#include "value/paged_zset.h"
#include "value/zset.h"

enum { MEMBERS = 900, LONG = 150 };

static const struct value_limits limits = { .seed = { 3, 4 }, .page_threshold = 1, .page_size = 128 };

struct rig {
    struct folded_pager folder;
    struct paged_access access;
    struct value paged, plain;
    struct random random;
};

/* Members: numbers; every third may begin with what is longer than a separator, so that they differ too late for it. Where those are follows from a search whose way depends on ranks, so what a
 * change needs of them can't be foreseen to the last page. */
static bool some_are_long;
static struct bytes member_of(unsigned number, char room[LONG + 24])
{
    size_t prefix = some_are_long && number % 3 == 0 ? LONG : 0;

    memset(room, 'x', prefix);
    return bytes_of(room, prefix + (size_t)snprintf(room + prefix, 24, "%u", number));
}

static struct bytes random_member(struct rig *rig, char room[LONG + 24])
{
    return member_of((unsigned)random_below(&rig->random, MEMBERS), room);
}

/* Few, so that many are equal. */
static double random_score(struct rig *rig)
{
    static const double special[] = { 0.0, -0.0, INFINITY, -INFINITY, 1e300, -1e-300, 5e-324 };
    uint64_t kind = random_below(&rig->random, 10);

    if (kind == 0)
        return special[random_below(&rig->random, sizeof(special) / sizeof(special[0]))];
    return kind < 5 ? (double)random_below(&rig->random, 4) : (double)(int64_t)(random_below(&rig->random, 2000) - 1000) / 7;
}

static void rig_init(struct rig *rig, uint64_t seed, unsigned count)
{
    struct value tree = zset_build(&limits);
    char room[LONG + 24];

    *rig = (struct rig){ 0 };
    random_init(&rig->random, seed);
    for (unsigned i = 0; i < count; i++)
        zset_build_add(&tree, member_of(i, room), random_score(rig));
    folded_pager_init(&rig->folder);
    rig->access = (struct paged_access){ .table = { .pager = &rig->folder.pager, .seed = limits.seed, .limits = paged_limits_of(&limits) } };
    paged_tree_pager_init(&rig->access.tree_pager, &rig->folder.pager);
    rig->plain = tree;
    rig->paged = (struct value){ .type = VALUE_ZSET, .encoding = ZSET_PAGED,
        .object = paged_zset_create(zset_tree(&tree), &(struct paged_plan){ btree_count(zset_tree(&tree)), btree_size(zset_tree(&tree)) }, 1, &rig->access) };
}

/* As between two calls. */
static void lose(struct rig *rig, uint64_t one_in)
{
    memory_pager_lose(&rig->folder.memory, &rig->random, one_in);
    paged_attach(&rig->paged, &rig->access);
}

static void rig_release(struct rig *rig)
{
    value_free(&rig->plain);
    value_free(&rig->paged);
    folded_pager_release(&rig->folder);
}

/* Each element of the leaf is found there: separators are as they should be. */
static void assert_found(struct rig *rig, const struct page_tree_path *path, struct bytes leaf)
{
    for (uint32_t i = 0; i < path->count; i++) {
        struct order_element element = order_page_at(leaf, i);
        size_t rank;
        double score;
        bool is_there;

        assert_true(zset_rank(&rig->paged, element.member, &is_there, &rank, &score) && is_there);
        assert_true(rank == path->rank + i && memcmp(&score, &element.score, sizeof(score)) == 0);
    }
}

static void verify_tree(struct rig *rig)
{
    struct page_tree tree = { &paged_ordered_of(&rig->paged)->tree, &rig->access.tree_pager.pager, { SIZE_MAX, SIZE_MAX, 0 } };
    struct page_tree_path path;
    enum page_tree_answer answer;

    memory_pager_load_all(&rig->folder.memory);
    page_tree_verify(&tree);
    for (answer = page_tree_first(&tree, &path); answer == PAGE_TREE_YES; answer = page_tree_next(&tree, &path)) {
        size_t size = 0;
        const char *data = tree.pager->find(tree.pager, path.leaf, PAGER_LOOK, &size);

        assert_true(order_page_is_sound(bytes_of(data, size)));
        assert_int_equal(order_page_count(bytes_of(data, size)), path.count);
        assert_found(rig, &path, bytes_of(data, size));
    }
    assert_int_equal(rig->folder.memory.count, paged_extent_of(&rig->paged).table_pages + paged_extent_of(&rig->paged).tree_pages);
}

/* The same elements in the same order, both ways, from any rank. */
static void assert_same_from(struct rig *rig, size_t rank, enum zset_direction direction)
{
    struct zset_iterator iterator, other;
    struct bytes member, other_member;
    double score, other_score;

    zset_iterate(&iterator, &rig->paged, rank, direction);
    zset_iterate(&other, &rig->plain, rank, direction);
    while (zset_next(&other, &other_member, &other_score)) {
        assert_true(zset_next(&iterator, &member, &score));
        assert_true(bytes_equal(member, other_member) && memcmp(&score, &other_score, sizeof(score)) == 0);
    }
    assert_false(zset_next(&iterator, &member, &score));
}

static void assert_same(struct rig *rig)
{
    uint8_t digest[20], other[20];

    value_digest(&rig->paged, digest);
    value_digest(&rig->plain, other);
    assert_memory_equal(digest, other, sizeof(digest));
    assert_string_equal(value_encoding_name(&rig->paged), value_encoding_name(&rig->plain));
    assert_same_from(rig, 0, ZSET_UP);
    assert_same_from(rig, zset_count(&rig->plain) - 1, ZSET_DOWN);
    assert_same_from(rig, random_below(&rig->random, zset_count(&rig->plain)), random_below(&rig->random, 2) ? ZSET_UP : ZSET_DOWN);
}

/* Until the question, which is put again and again, returns true. */
#define ASK(rig, question) FOLDED_ASK(rig, 30, question)

static void step(struct rig *rig, bool asks)
{
    char room[LONG + 24];
    struct bytes member = random_member(rig, room);
    double score = random_score(rig), other;
    enum btree_border border = random_below(&rig->random, 2) ? BTREE_BELOW : BTREE_NOT_ABOVE;
    size_t all = zset_count(&rig->plain), first = random_below(&rig->random, all), count = random_below(&rig->random, all - first < 20 ? all - first : 20), rank, other_rank;
    bool is_there, found;

    switch (random_below(&rig->random, 12)) {
    case 0:
    case 1:
    case 2:
        if (asks)
            ASK(rig, zset_has_room(&rig->paged, 1) && zset_has_put(&rig->paged, member, score, false, 1));
        assert_int_equal(zset_put(&rig->paged, &limits, member, score), zset_put(&rig->plain, &limits, member, score));
        break;
    case 3:
        if (all == 1)
            break;
        if (asks)
            ASK(rig, zset_has_element(&rig->paged, member));
        assert_int_equal(zset_remove(&rig->paged, member), zset_remove(&rig->plain, member));
        break;
    case 4:
        if (count == all || random_below(&rig->random, 5) > 0)
            break;
        if (asks)
            ASK(rig, zset_has_removal(&rig->paged, first, count));
        zset_remove_ranks(&rig->paged, first, count);
        zset_remove_ranks(&rig->plain, first, count);
        break;
    case 5:
        ASK(rig, zset_score_border(&rig->paged, score, border, &rank));
        assert_true(zset_score_border(&rig->plain, score, border, &other_rank));
        assert_int_equal(rank, other_rank);
        break;
    case 6:
        ASK(rig, zset_rank(&rig->paged, member, &found, &other_rank, &other));
        assert_true(zset_rank(&rig->plain, member, &is_there, &rank, &score));
        assert_int_equal(found, is_there);
        assert_true(!is_there || (rank == other_rank && score == other));
        break;
    case 7:
        if (asks)
            ASK(rig, zset_has_ranks(&rig->paged, first, count));
        if (count > 0) {
            struct zset_iterator iterator, other_iterator;
            struct bytes other_member;

            zset_iterate(&iterator, &rig->paged, first, ZSET_UP);
            zset_iterate(&other_iterator, &rig->plain, first, ZSET_UP);
            while (count-- > 0) {
                assert_true(zset_next(&iterator, &member, &score) && zset_next(&other_iterator, &other_member, &other));
                assert_true(bytes_equal(member, other_member) && score == other);
            }
        }
        break;
    case 8:
    case 9:
        /* The same score but for a little, as in a leaderboard. */
        if (zset_score(&rig->plain, member, &score)) {
            other = (double)random_below(&rig->random, 3) - 1;
            score += other;
            if (asks)
                ASK(rig, zset_has_room(&rig->paged, 1) && zset_has_put(&rig->paged, member, other, true, 1));
            assert_int_equal(zset_put(&rig->paged, &limits, member, score), zset_put(&rig->plain, &limits, member, score));
        }
        break;
    default:
        if (asks)
            ASK(rig, zset_has_score(&rig->paged, member, &is_there, &score));
        is_there = zset_score(&rig->plain, member, &score);
        assert_int_equal(zset_score(&rig->paged, member, &other), is_there);
        assert_true(!is_there || memcmp(&score, &other, sizeof(score)) == 0);
    }
    assert_int_equal(zset_count(&rig->paged), zset_count(&rig->plain));
}

static void all_functions_do_the_same(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= (uint64_t)scaled(30); seed++) {
        bool asks = seed % 3 == 0;
        struct rig rig;

        some_are_long = !asks;
        rig_init(&rig, seed, 1 + (unsigned)seed * 25);
        for (int i = 0; i < 3000; i++) {
            uint64_t brought;

            if (i % 5 == 0)
                lose(&rig, seed % 4 + 1);
            brought = rig.folder.memory.brought;
            step(&rig, asks);
            if (asks)
                assert_int_equal(rig.folder.memory.brought, brought);
            if (i % 100 == 0) {
                assert_same(&rig);
                verify_tree(&rig);
            }
        }
        assert_same(&rig);
        verify_tree(&rig);
        rig_release(&rig);
    }
}

static void it_grows_and_shrinks_from_one_member_to_many(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        char room[LONG + 24];
        struct rig rig;

        rig_init(&rig, seed, 1);
        for (unsigned i = 0; i < 6000; i++) {
            struct bytes member = member_of(i, room);
            double score = seed % 2 ? (double)i : -(double)i;

            zset_put(&rig.paged, &limits, member, score);
            zset_put(&rig.plain, &limits, member, score);
            if (i % 50 == 0)
                lose(&rig, 3);
        }
        assert_same(&rig);
        verify_tree(&rig);
        assert_in_range(paged_ordered_of(&rig.paged)->tree.height, 1, 4);
        while (zset_count(&rig.plain) > 1) {
            size_t all = zset_count(&rig.plain), count = all > 40 ? 1 + random_below(&rig.random, 30) : 1;
            size_t first = seed > 2 ? random_below(&rig.random, all - count) : 0;

            zset_remove_ranks(&rig.paged, first, count);
            zset_remove_ranks(&rig.plain, first, count);
        }
        assert_same(&rig);
        verify_tree(&rig);
        rig_release(&rig);
    }
}

/* Copies are whole, and so is what is decoded. */
static void copies_are_whole(void **state)
{
    struct buffer payload = { 0 }, scratch = { 0 };
    struct value copy, decoded;
    uint8_t digest[20], other[20];
    struct rig rig;

    (void)state;
    rig_init(&rig, 9, 700);
    lose(&rig, 2);
    copy = value_copy(&rig.paged);
    assert_int_equal(copy.encoding, ZSET_TREE);
    value_digest(&copy, digest);
    value_digest(&rig.plain, other);
    assert_memory_equal(digest, other, sizeof(digest));
    codec_encode(&rig.paged, &payload);
    assert_int_equal(codec_decode(buffer_bytes(&payload), &limits, &scratch, &decoded), STATUS_OK);
    value_digest(&decoded, digest);
    assert_memory_equal(digest, other, sizeof(digest));
    value_free(&copy);
    value_free(&decoded);
    buffer_release(&payload);
    buffer_release(&scratch);
    rig_release(&rig);
}

struct seen {
    int times[MEMBERS];
};

static void mark(void *context, struct bytes member, double score)
{
    struct seen *seen = context;
    char text[24];
    size_t digits = 0;

    (void)score;
    while (digits < member.size && member.data[member.size - 1 - digits] != 'x')
        digits++;
    snprintf(text, sizeof(text), "%.*s", (int)digits, member.data + member.size - digits);
    seen->times[atoi(text)]++;
}

/* A scan that begins in a tree goes on in pages, while scores change; what misses says so. */
static void a_scan_finds_all_that_stay(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct seen seen = { { 0 } };
        uint64_t cursor = 0;
        bool is_paged = false;
        struct rig rig;

        rig_init(&rig, seed, MEMBERS);
        do {
            struct value *zset = is_paged ? &rig.paged : &rig.plain;
            char room[LONG + 24];

            for (int i = 0; i < 50; i++) {
                struct bytes member = random_member(&rig, room);
                double score = random_score(&rig);

                zset_put(&rig.paged, &limits, member, score);
                zset_put(&rig.plain, &limits, member, score);
            }
            lose(&rig, 2);
            rig.folder.memory.brought = 0;
            ASK(&rig, zset_scan(zset, &cursor, 30, mark, &seen));
            assert_int_equal(rig.folder.memory.brought, 0);
            is_paged |= random_below(&rig.random, 4) == 0;
        } while (cursor != 0);
        for (int i = 0; i < MEMBERS; i++)
            assert_in_range(seen.times[i], 1, 3);
        rig_release(&rig);
    }
}

/* All have the same chance. */
static void draws_are_fair(void **state)
{
    enum { COUNT = 200, DRAWS = 300 };
    struct seen seen = { { 0 } };
    double chi = 0;
    struct rig rig;

    (void)state;
    rig_init(&rig, 5, COUNT);
    for (int i = 0; i < COUNT * DRAWS; i++) {
        struct bytes member;
        double score;

        if (i % 10 == 0)
            lose(&rig, 3);
        for (;;) {
            struct random before = rig.random;

            if (zset_random(&rig.paged, &rig.random, &member, &score))
                break;
            folded_pager_load_wanted(&rig.folder, &rig.access);
            rig.random = before;
        }
        mark(&seen, member, score);
    }
    for (int i = 0; i < COUNT; i++)
        chi += (double)(seen.times[i] - DRAWS) * (seen.times[i] - DRAWS) / DRAWS;
    assert_in_range((uint64_t)chi, 130, 290);               /* 199 degrees of freedom */
    rig_release(&rig);
}

/* Leaves that are added at one end and removed at the other use the same pages again. */
static void a_window_does_not_use_up_numbers(void **state)
{
    char room[LONG + 24];
    struct rig rig;

    (void)state;
    rig_init(&rig, 3, 1);
    for (unsigned i = 1; i < 30000; i++) {
        zset_put(&rig.paged, &limits, member_of(i, room), 10000 + (double)i);
        if (i > 300)
            zset_remove_ranks(&rig.paged, 0, 1);
    }
    assert_in_range(paged_extent_of(&rig.paged).tree_pages, 15, 100);
    verify_tree(&rig);
    rig_release(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_functions_do_the_same),
        cmocka_unit_test(it_grows_and_shrinks_from_one_member_to_many),
        cmocka_unit_test(copies_are_whole),
        cmocka_unit_test(a_scan_finds_all_that_stay),
        cmocka_unit_test(draws_are_fair),
        cmocka_unit_test(a_window_does_not_use_up_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
