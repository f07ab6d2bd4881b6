/* Sorted sets as values: both encodings are compared with a sorted array, and the change from one to the other is tested.
 */
#include "support/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/seed.h"
#include "value/zset.h"

enum { MEMBER_MAX = 100, ELEMENTS_MAX = 400 };

static const struct value_limits limits = { .zset_listpack_entries_max = 128, .zset_listpack_value_max = 64, .seed = { 3, 4 } };
static const struct value_limits trees_only = { .seed = { 5, 6 } };
static const struct value_limits packs_only = { .zset_listpack_entries_max = SIZE_MAX, .zset_listpack_value_max = SIZE_MAX };

struct element {
    double score;
    size_t size;
    char member[MEMBER_MAX];
};

struct model {
    struct element elements[ELEMENTS_MAX];
    size_t count;
};

static int compare(const void *a, const void *b)
{
    const struct element *one = a, *other = b;

    if (one->score != other->score)
        return one->score < other->score ? -1 : 1;
    return bytes_compare(bytes_of(one->member, one->size), bytes_of(other->member, other->size));
}

static size_t model_find(const struct model *model, struct bytes member)
{
    size_t i = 0;

    while (i < model->count && !bytes_equal(bytes_of(model->elements[i].member, model->elements[i].size), member))
        i++;
    return i;
}

static void model_cut(struct model *model, size_t first, size_t count)
{
    memmove(model->elements + first, model->elements + first + count, (model->count - first - count) * sizeof(struct element));
    model->count -= count;
}

static void model_put(struct model *model, struct bytes member, double score)
{
    size_t at = model_find(model, member);

    if (at == model->count)
        model->count++;
    model->elements[at].score = score;
    model->elements[at].size = member.size;
    if (member.size > 0)
        memcpy(model->elements[at].member, member.data, member.size);
    qsort(model->elements, model->count, sizeof(struct element), compare);
}

static size_t count_below(const struct model *model, double score, bool also_equal)
{
    size_t count = 0;

    for (size_t i = 0; i < model->count; i++)
        count += model->elements[i].score < score || (also_equal && model->elements[i].score == score);
    return count;
}

static void assert_same(const struct model *model, const struct value *zset)
{
    struct zset_iterator iterator;
    struct bytes member;
    double score;
    size_t rank, border;
    bool is_there;

    assert_int_equal(zset_count(zset), model->count);
    zset_iterate(&iterator, zset, 0, ZSET_UP);
    for (size_t i = 0; i < model->count; i++) {
        const struct element *element = &model->elements[i];

        assert_true(zset_next(&iterator, &member, &score));
        assert_true(bytes_equal(member, bytes_of(element->member, element->size)));
        assert_true(score == element->score);
        score = -1;
        assert_true(zset_score(zset, bytes_of(element->member, element->size), &score) && score == element->score);
        assert_true(zset_rank(zset, bytes_of(element->member, element->size), &is_there, &rank, &score) && is_there && score == element->score);
        assert_int_equal(rank, i);
        assert_true(zset_score_border(zset, score, BTREE_BELOW, &border));
        assert_int_equal(border, count_below(model, score, false));
        assert_true(zset_score_border(zset, score, BTREE_NOT_ABOVE, &border));
        assert_int_equal(border, count_below(model, score, true));
    }
    assert_false(zset_next(&iterator, &member, &score));
    if (model->count == 0)
        return;
    zset_iterate(&iterator, zset, model->count / 2, ZSET_DOWN);
    for (size_t i = model->count / 2 + 1; i-- > 0;) {
        assert_true(zset_next(&iterator, &member, &score));
        assert_true(bytes_equal(member, bytes_of(model->elements[i].member, model->elements[i].size)));
    }
    assert_false(zset_next(&iterator, &member, &score));
}

static struct bytes random_member(struct random *random, char room[MEMBER_MAX])
{
    uint64_t number = random_below(random, 250);
    size_t size = number == 0 ? 0 : (size_t)sprintf(room, number % 2 ? "%d" : "m%d", (int)number);

    if (number % 50 == 1) {
        memset(room + size, 'x', 70);
        size += 70;
    }
    return bytes_of(room, size);
}

static double random_score(struct random *random)
{
    static const double some[] = { 0, 1, -1, 0.1, INFINITY, -INFINITY, 1e300, 4611686018427387904.0, 9.3e18, 1e-300, 2.5 };

    return random_below(random, 3) ? (double)random_below(random, 20) : some[random_below(random, sizeof(some) / sizeof(some[0]))];
}

static void run(uint64_t seed, const struct value_limits *how)
{
    struct value zset = zset_create_for(how, 1, 1);
    static struct model model;
    struct random random;
    char room[MEMBER_MAX];

    random_init(&random, seed);
    model.count = 0;
    for (int step = 0; step < 1500; step++) {
        struct bytes member = random_member(&random, room);
        bool is_there = model_find(&model, member) < model.count;

        if (random_below(&random, 10) < 7) {
            double score = random_score(&random);

            assert_int_equal(zset_put(&zset, how, member, score), !is_there);
            model_put(&model, member, score);
        } else {
            assert_int_equal(zset_remove(&zset, member), is_there);
            if (is_there)
                model_cut(&model, model_find(&model, member), 1);
        }
        if (random_below(&random, 100) == 0 && model.count > 10) {
            size_t first = random_below(&random, model.count), count = random_below(&random, 10);

            count = count < model.count - first ? count : model.count - first;
            zset_remove_ranks(&zset, first, count);
            model_cut(&model, first, count);
        }
        if (step % 100 == 99) {
            struct value copy = value_copy(&zset);

            assert_same(&model, &zset);
            value_free(&zset);
            zset = copy;
        }
    }
    assert_same(&model, &zset);
    value_free(&zset);
}

static void both_encodings_behave_like_a_sorted_array(void **state)
{
    uint64_t seed = seed_new();

    for (uint64_t i = 0; i < 3; i++) {
        run(seed + i, &trees_only);
        run(seed + i, &packs_only);
        run(seed + i, &limits);
    }
}

static struct value numbers(const struct value_limits *how, int count)
{
    struct value zset = zset_create();
    char room[32];

    for (int i = 0; i < count; i++)
        assert_true(zset_put(&zset, how, bytes_of(room, (size_t)sprintf(room, "m%d", i)), i * 0.5));
    return zset;
}

static void assert_encoding(const struct value *zset, const char *encoding)
{
    assert_string_equal(value_encoding_name(zset), encoding);
}

static void a_listpack_becomes_a_tree_with_one_member_too_many(void **state)
{
    struct value zset = numbers(&limits, 128);

    assert_encoding(&zset, "listpack");
    zset_put(&zset, &limits, BYTES("m5"), 1000);
    assert_encoding(&zset, "listpack");
    zset_put(&zset, &limits, BYTES("one more"), 1);
    assert_encoding(&zset, "skiplist");
    zset_remove_ranks(&zset, 1, 128);
    assert_encoding(&zset, "skiplist");
    zset_compact(&zset, &limits);
    assert_encoding(&zset, "listpack");
    assert_int_equal(zset_count(&zset), 1);
    value_free(&zset);
}

static void a_listpack_becomes_a_tree_with_a_long_member(void **state)
{
    struct value zset = numbers(&limits, 3);
    char member[65] = { 0 };

    zset_put(&zset, &limits, bytes_of(member, 64), 1);
    assert_encoding(&zset, "listpack");
    zset_put(&zset, &limits, bytes_of(member, 65), 1);
    assert_encoding(&zset, "skiplist");
    zset_compact(&zset, &limits);
    assert_encoding(&zset, "skiplist");
    value_free(&zset);
}

static void the_expected_count_decides_the_encoding(void **state)
{
    struct value zset = zset_create_for(&limits, 129, 1);

    assert_encoding(&zset, "skiplist");
    value_free(&zset);
    zset = zset_create_for(&limits, 128, 65);
    assert_encoding(&zset, "skiplist");
    value_free(&zset);
    zset = zset_create_for(&limits, 128, 64);
    assert_encoding(&zset, "listpack");
    zset_put(&zset, &limits, BYTES("a"), 1);
    zset_expect(&zset, &limits, 128);
    assert_encoding(&zset, "listpack");
    zset_expect(&zset, &limits, 129);
    assert_encoding(&zset, "skiplist");
    assert_int_equal(zset_count(&zset), 1);
    value_free(&zset);
}

static void all_encodings_have_the_same_digest(void **state)
{
    struct value pack = numbers(&limits, 100), tree = numbers(&trees_only, 100);
    uint8_t pack_digest[20], tree_digest[20];

    assert_encoding(&pack, "listpack");
    assert_encoding(&tree, "skiplist");
    value_digest(&pack, pack_digest);
    value_digest(&tree, tree_digest);
    assert_memory_equal(pack_digest, tree_digest, 20);
    zset_put(&tree, &trees_only, BYTES("m7"), 3.75);
    value_digest(&tree, tree_digest);
    assert_memory_not_equal(pack_digest, tree_digest, 20);
    assert_int_equal(value_free_effort(&pack), 1);
    assert_true(value_memory(&tree, 5) > 1000);
    value_free(&pack);
    value_free(&tree);
}

static void collect(void *context, struct bytes member, double score)
{
    char room[32] = { 0 };
    int number;

    memcpy(room, member.data, member.size);
    number = atoi(room + 1);
    assert_true(score == number * 0.5);
    ((int *)context)[number]++;
}

static void a_scan_finds_each_member_with_its_score(void **state)
{
    static const int counts[] = { 1, 100, 2000 };

    for (int i = 0; i < 3; i++) {
        struct value zset = numbers(&limits, counts[i]);
        static int seen[2000];
        uint64_t cursor = 0;

        memset(seen, 0, sizeof(seen));
        do
            assert_true(zset_scan(&zset, &cursor, 7, collect, seen));
        while (cursor != 0);
        for (int j = 0; j < counts[i]; j++)
            assert_int_equal(seen[j], 1);
        value_free(&zset);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_encodings_behave_like_a_sorted_array),
        cmocka_unit_test(a_listpack_becomes_a_tree_with_one_member_too_many),
        cmocka_unit_test(a_listpack_becomes_a_tree_with_a_long_member),
        cmocka_unit_test(the_expected_count_decides_the_encoding),
        cmocka_unit_test(all_encodings_have_the_same_digest),
        cmocka_unit_test(a_scan_finds_each_member_with_its_score),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
