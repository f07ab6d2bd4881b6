/* The tree is compared with a sorted array. */
#include "containers/btree.h"

#include "support/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "support/seed.h"

static const struct hash_seed seed_of_trees = { 7, 8 };

struct element {
    double score;
    struct bytes member;        /* owned */
};

struct model {
    struct btree *tree;
    struct element *elements;   /* in order */
    size_t count, capacity;
};

static void model_init(struct model *model)
{
    *model = (struct model){ .tree = btree_create(&seed_of_trees) };
}

static void model_release(struct model *model)
{
    for (size_t i = 0; i < model->count; i++)
        mem_free((char *)model->elements[i].member.data);
    mem_free(model->elements);
    btree_destroy(model->tree);
}

static int compare(double a_score, struct bytes a, double b_score, struct bytes b)
{
    if (a_score != b_score)
        return a_score < b_score ? -1 : 1;
    return bytes_compare(a, b);
}

static size_t model_find(const struct model *model, struct bytes member)
{
    size_t i = 0;

    while (i < model->count && !bytes_equal(model->elements[i].member, member))
        i++;
    return i;
}

static void model_cut(struct model *model, size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++)
        mem_free((char *)model->elements[first + i].member.data);
    memmove(model->elements + first, model->elements + first + count, (model->count - first - count) * sizeof(struct element));
    model->count -= count;
}

static void model_insert(struct model *model, struct bytes member, double score)
{
    size_t at = 0;

    if (model->count == model->capacity) {
        model->capacity = model->capacity * 2 + 16;
        model->elements = mem_realloc(model->elements, model->capacity * sizeof(struct element));
    }
    while (at < model->count && compare(model->elements[at].score, model->elements[at].member, score, member) < 0)
        at++;
    memmove(model->elements + at + 1, model->elements + at, (model->count - at) * sizeof(struct element));
    model->elements[at] = (struct element){ score, bytes_of(mem_string(member), member.size) };
    model->count++;
}

static void put(struct model *model, struct bytes member, double score)
{
    size_t at = model_find(model, member);
    bool is_new = at == model->count;

    if (!is_new)
        model_cut(model, at, 1);
    model_insert(model, member, score);
    assert_int_equal(btree_put(model->tree, member, score), is_new);
}

static void take(struct model *model, struct bytes member)
{
    size_t at = model_find(model, member);
    bool is_there = at < model->count;

    if (is_there)
        model_cut(model, at, 1);
    assert_int_equal(btree_remove(model->tree, member), is_there);
}

static void assert_same(const struct model *model, const struct btree *tree)
{
    struct btree_place place, found;
    struct bytes member;

    btree_verify(tree);
    assert_int_equal(btree_count(tree), model->count);
    assert_false(btree_seek_rank(tree, model->count, &place));
    if (model->count == 0)
        return;
    assert_true(btree_seek_rank(tree, 0, &place));
    for (size_t i = 0; i < model->count; i++) {
        const struct element *element = &model->elements[i];
        double score = btree_get(tree, place, &member);

        assert_memory_equal(&score, &element->score, sizeof(score));
        assert_true(bytes_equal(member, element->member));
        assert_int_equal(btree_rank(tree, place), i);
        assert_true(btree_find(tree, member, &found));
        assert_memory_equal(&found, &place, sizeof(place));
        assert_int_equal(btree_next(tree, &place), i + 1 < model->count);
    }
    for (size_t i = model->count; i-- > 0;) {
        assert_true(btree_seek_rank(tree, i, &found));
        assert_memory_equal(&found, &place, sizeof(place));
        assert_int_equal(btree_previous(tree, &place), i > 0);
    }
}

static void assert_counts(const struct model *model, double score)
{
    size_t below = 0, not_above = 0;

    for (size_t i = 0; i < model->count; i++) {
        below += model->elements[i].score < score;
        not_above += model->elements[i].score <= score;
    }
    assert_int_equal(btree_count_by_score(model->tree, score, BTREE_BELOW), below);
    assert_int_equal(btree_count_by_score(model->tree, score, BTREE_NOT_ABOVE), not_above);
}

static double random_score(struct random *random, unsigned kind)
{
    switch (kind) {
    case 0: return 0;
    case 1: return (double)random_below(random, 5) - 2;
    case 2: return (double)random_next(random) / 1e9;
    }
    switch (random_below(random, 12)) {
    case 0: return INFINITY;
    case 1: return -INFINITY;
    case 2: return -0.0;
    case 3: return 5e-324;
    }
    return (double)(int64_t)random_next(random);
}

static struct bytes random_member(struct random *random, uint64_t variety, unsigned kind, char *room)
{
    uint64_t number = random_below(random, variety);
    size_t size = (size_t)sprintf(room, "%d", (int)number);

    if (kind == 1 || (kind == 2 && number % 7 == 0)) {      /* long: 5 .. 600 bytes, the same for the same number */
        size_t more = 5 + (size_t)(number * 37 % 600);

        memset(room + size, 'm', more);
        size += more;
    }
    return bytes_of(room, number == 0 ? 0 : size);
}

static void run(uint64_t seed, int steps)
{
    struct random random;
    struct model model;
    char room[700];
    unsigned score_kind, member_kind;
    uint64_t variety;

    random_init(&random, seed);
    score_kind = (unsigned)random_below(&random, 4);
    member_kind = (unsigned)random_below(&random, 3);
    variety = 10 + random_below(&random, 3000);
    model_init(&model);
    for (int step = 0; step < steps; step++) {
        bool grows = step / 700 % 3 != 2;
        struct bytes member = random_member(&random, variety, member_kind, room);

        if (random_below(&random, 100) < (grows ? 80u : 25u))
            put(&model, member, random_score(&random, score_kind));
        else
            take(&model, member);
        if (random_below(&random, 200) == 0 && model.count > 0) {
            size_t first = random_below(&random, model.count), count = random_below(&random, model.count - first + 1);

            if (random_below(&random, 3) > 0 && count > 20)
                count = random_below(&random, 20);
            btree_remove_ranks(model.tree, first, count);
            model_cut(&model, first, count);
        }
        if (step % 50 == 0)
            assert_counts(&model, random_score(&random, score_kind));
        if (step % 250 == 0)
            assert_same(&model, model.tree);
    }
    assert_same(&model, model.tree);
    while (model.count > 0)
        take(&model, bytes_of(memcpy(room, model.elements[model.count / 2].member.data, model.elements[model.count / 2].member.size),
                         model.elements[model.count / 2].member.size));
    assert_same(&model, model.tree);
    model_release(&model);
}

static void it_behaves_like_a_sorted_array(void **state)
{
    uint64_t seed = seed_new();

    for (uint64_t i = 0; i < 12; i++)
        run(seed + i, 4000);
}

static void put_number(struct btree *tree, int number, double score)
{
    char room[32];

    btree_put(tree, bytes_of(room, (size_t)sprintf(room, "member:%07d", number)), score);
}

static void a_reserved_tree_behaves_like_any_other(void **state)
{
    static const size_t rooms[] = { 0, 5, 1000, 100000 };

    for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
        struct btree *tree = btree_create(&seed_of_trees);
        struct btree_place place;
        char member[16];

        btree_reserve(tree, rooms[i]);
        btree_verify(tree);
        for (int n = 2000; n > 0; n--)
            assert_true(btree_put(tree, bytes_of(member, (size_t)snprintf(member, sizeof(member), "%d", n)), n));
        btree_verify(tree);
        assert_false(btree_put(tree, BYTES("7"), 7));
        for (int n = 1; n <= 2000; n++) {
            struct bytes name = bytes_of(member, (size_t)snprintf(member, sizeof(member), "%d", n));

            assert_true(btree_find(tree, name, &place));
            assert_int_equal(btree_rank(tree, place), n <= 10 ? n - 1 : 10);
            if (n > 10)
                assert_true(btree_remove(tree, name));
        }
        btree_verify(tree);
        assert_int_equal(btree_count(tree), 10);
        btree_destroy(tree);
    }
}

static void members_added_in_order_fill_their_leaves(void **state)
{
    for (int direction = -1; direction <= 1; direction += 2) {
        struct btree *tree = btree_create(&seed_of_trees);

        for (int i = 0; i < 20000; i++)
            put_number(tree, i, direction * i);
        btree_verify(tree);
        /* 14 bytes of member, 11 of score, start and tag: about 100 elements per leaf. */
        assert_true(btree_blocks(tree) < 220);
        btree_destroy(tree);
    }
}

/* Members of 200 bytes: eleven per leaf, so that inner nodes split and merge on three levels. */
static void a_high_tree_stays_valid_while_it_grows_and_shrinks(void **state)
{
    enum { COUNT = 60000, PRIME = 7919 };
    struct btree *tree = btree_create(&seed_of_trees);
    struct btree_place place;
    char room[200];

    memset(room, 'x', sizeof(room));
    for (int i = 0; i < COUNT; i++) {
        int number = (int)((int64_t)i * PRIME % COUNT);

        memcpy(room, &number, sizeof(number));
        assert_true(btree_put(tree, bytes_of(room, sizeof(room)), number));
        if (i % 20000 == 0)
            btree_verify(tree);
    }
    btree_verify(tree);
    for (int i = 0; i < COUNT; i += 997) {
        assert_true(btree_seek_rank(tree, (size_t)i, &place));
        assert_true(btree_get(tree, place, NULL) == i);
        assert_int_equal(btree_rank(tree, place), i);
    }
    btree_remove_ranks(tree, 100, 20000);
    btree_verify(tree);
    for (int i = 0; i < COUNT; i++) {
        int number = (int)((int64_t)i * (PRIME * 3 + 2) % COUNT);

        memcpy(room, &number, sizeof(number));
        btree_remove(tree, bytes_of(room, sizeof(room)));
        if (i % 10000 == 0)
            btree_verify(tree);
    }
    btree_verify(tree);
    btree_remove_ranks(tree, 0, btree_count(tree));
    btree_verify(tree);
    assert_int_equal(btree_blocks(tree), 2);
    btree_destroy(tree);
}

static void members_are_ordered_as_bytes_when_scores_are_equal(void **state)
{
    static const struct bytes members[] = { { "", 0 }, { "\0", 1 }, { "\0\0", 2 }, { "a", 1 }, { "a\0", 2 }, { "aa", 2 }, { "b", 1 },
                                            { "\x80", 1 }, { "\xff", 1 } };
    enum { COUNT = sizeof(members) / sizeof(members[0]) };
    struct btree *tree = btree_create(&seed_of_trees);

    for (size_t i = COUNT; i-- > 0;)
        assert_true(btree_put(tree, members[i], i % 2 ? 0.0 : -0.0));
    for (size_t i = 0; i < COUNT; i++) {
        struct btree_place place;
        struct bytes member;

        assert_true(btree_seek_rank(tree, i, &place));
        assert_int_equal(signbit(btree_get(tree, place, &member)) != 0, i % 2 == 0);
        assert_true(bytes_equal(member, members[i]));
        assert_int_equal(btree_count_by_member(tree, members[i], BTREE_BELOW), i);
        assert_int_equal(btree_count_by_member(tree, members[i], BTREE_NOT_ABOVE), i + 1);
    }
    btree_destroy(tree);
}

static void counting_by_member_works_with_absent_members(void **state)
{
    struct btree *tree = btree_create(&seed_of_trees);
    char room[32];

    for (int i = 0; i < 5000; i++)
        put_number(tree, i * 2, 1);
    for (int i = 0; i < 10000; i += 7) {
        struct bytes member = bytes_of(room, (size_t)sprintf(room, "member:%07d", i));

        assert_int_equal(btree_count_by_member(tree, member, BTREE_BELOW), (i + 1) / 2);
        assert_int_equal(btree_count_by_member(tree, member, BTREE_NOT_ABOVE), i / 2 + 1);
    }
    assert_int_equal(btree_count_by_member(tree, BYTES("z"), BTREE_BELOW), 5000);
    btree_destroy(tree);
}

static void a_copy_is_independent(void **state)
{
    struct random random;
    struct model model;
    struct btree *copy;
    char room[700];

    random_init(&random, 5);
    model_init(&model);
    for (int i = 0; i < 3000; i++)
        put(&model, random_member(&random, 2000, 2, room), random_score(&random, 3));
    for (int i = 0; i < 500; i++)
        take(&model, random_member(&random, 2000, 2, room));
    copy = btree_copy(model.tree);
    assert_same(&model, copy);
    for (int i = 0; i < 2000; i++)
        btree_put(copy, random_member(&random, 4000, 2, room), random_score(&random, 3));
    btree_verify(copy);
    assert_same(&model, model.tree);
    for (int i = 0; i < 2000; i++)
        btree_remove(copy, random_member(&random, 4000, 2, room));
    btree_verify(copy);
    btree_destroy(copy);
    assert_same(&model, model.tree);
    model_release(&model);
}

static void mark(void *context, struct bytes member, double score)
{
    char room[32] = { 0 };

    memcpy(room, member.data, member.size);
    ((int *)context)[atoi(room + 7)]++;
}

static void a_scan_of_an_unchanged_tree_finds_each_member_once(void **state)
{
    enum { COUNT = 3000 };
    struct btree *tree = btree_create(&seed_of_trees);
    static int seen[COUNT];
    uint64_t cursor = 0;
    int calls = 0;

    memset(seen, 0, sizeof(seen));
    for (int i = 0; i < COUNT; i++)
        put_number(tree, i, i % 10);
    do {
        cursor = btree_scan(tree, cursor, 10, mark, seen);
        calls++;
    } while (cursor != 0);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(seen[i], 1);
    assert_in_range(calls, COUNT / 30, COUNT / 10);
    btree_destroy(tree);
}

static void a_scan_finds_every_member_that_stays(void **state)
{
    enum { STAYS = 500, COUNT = 20000 };
    struct btree *tree = btree_create(&seed_of_trees);
    static int seen[COUNT];
    struct random random;
    uint64_t cursor = 0;
    char room[32];

    memset(seen, 0, sizeof(seen));
    random_init(&random, 9);
    for (int i = 0; i < STAYS; i++)
        put_number(tree, i, i);
    for (int round = 0;; round++) {
        cursor = btree_scan(tree, cursor, 5, mark, seen);
        if (cursor == 0)
            break;
        for (int i = 0; i < 60; i++) {
            int number = STAYS + (int)random_below(&random, COUNT - STAYS);

            if (round / 40 % 2 == 0)
                put_number(tree, number, (double)random_below(&random, 1000));
            else
                btree_remove(tree, bytes_of(room, (size_t)sprintf(room, "member:%07d", number)));
        }
        /* The scores of the remaining members change meanwhile. */
        put_number(tree, (int)random_below(&random, STAYS), (double)random_below(&random, 1000));
    }
    btree_verify(tree);
    for (int i = 0; i < STAYS; i++)
        assert_true(seen[i] >= 1);
    btree_destroy(tree);
}

static void any_cursor_is_safe(void **state)
{
    struct btree *tree = btree_create(&seed_of_trees);
    static int seen[20000];
    struct random random;

    random_init(&random, 11);
    for (int i = 0; i < 2000; i++)
        put_number(tree, i, i);
    for (int i = 0; i < 1000; i++)
        btree_scan(tree, random_next(&random), 1 + random_below(&random, 100), mark, seen);
    btree_destroy(tree);
}

static void sampled_memory_is_close_to_measured_memory(void **state)
{
    struct btree *tree = btree_create(&seed_of_trees);
    struct random random;
    size_t all, some;

    random_init(&random, 12);
    for (int i = 0; i < 50000; i++)
        put_number(tree, i, (double)random_below(&random, 1000000));
    all = btree_memory(tree, 0);
    some = btree_memory(tree, 5);
    assert_in_range(some, all - all / 5, all + all / 5);
    /* Redis takes about 110 bytes for such an element. */
    assert_in_range(all / 50000, 25, 45);
    btree_destroy(tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_behaves_like_a_sorted_array),
        cmocka_unit_test(a_reserved_tree_behaves_like_any_other),
        cmocka_unit_test(members_added_in_order_fill_their_leaves),
        cmocka_unit_test(a_high_tree_stays_valid_while_it_grows_and_shrinks),
        cmocka_unit_test(members_are_ordered_as_bytes_when_scores_are_equal),
        cmocka_unit_test(counting_by_member_works_with_absent_members),
        cmocka_unit_test(a_copy_is_independent),
        cmocka_unit_test(a_scan_of_an_unchanged_tree_finds_each_member_once),
        cmocka_unit_test(a_scan_finds_every_member_that_stays),
        cmocka_unit_test(any_cursor_is_safe),
        cmocka_unit_test(sampled_memory_is_close_to_measured_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
