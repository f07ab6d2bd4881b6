/* The map is compared with a sorted array. */
#include "containers/idmap.h"

#include "support/unit.h"

#include <stdlib.h>
#include <string.h>

enum { ENTRIES_MAX = 4000, STEPS = 6000, SEEDS = 4 };

struct entry {
    struct stream_id id;
    uint64_t value;
};

struct model {
    struct idmap map;
    struct entry *entries;      /* in order, room for ENTRIES_MAX */
    size_t count;
};

static uint64_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static struct stream_id id_of(uint64_t ms, uint64_t seq)
{
    return (struct stream_id){ ms, seq };
}

/* The first entry not below. */
static size_t model_seek(const struct model *model, struct stream_id id)
{
    size_t at = 0;

    while (at < model->count && stream_id_compare(model->entries[at].id, id) < 0)
        at++;
    return at;
}

static bool model_has(const struct model *model, size_t at, struct stream_id id)
{
    return at < model->count && stream_id_compare(model->entries[at].id, id) == 0;
}

static void put(struct model *model, struct stream_id id, uint64_t value)
{
    size_t at = model_seek(model, id);
    bool is_there = model_has(model, at, id), is_new;
    uint64_t *found = idmap_put(&model->map, id, &is_new);

    assert_int_equal(is_new, !is_there);
    assert_true(*found == (is_there ? model->entries[at].value : 0));
    *found = value;
    if (!is_there) {
        memmove(model->entries + at + 1, model->entries + at, (model->count - at) * sizeof(struct entry));
        model->count++;
    }
    model->entries[at] = (struct entry){ id, value };
}

static void cut(struct model *model, size_t at)
{
    memmove(model->entries + at, model->entries + at + 1, (model->count - at - 1) * sizeof(struct entry));
    model->count--;
}

static void take(struct model *model, struct stream_id id)
{
    size_t at = model_seek(model, id);
    bool is_there = model_has(model, at, id);

    assert_int_equal(idmap_remove(&model->map, id), is_there);
    if (is_there)
        cut(model, at);
}

static void assert_at(const struct model *model, const struct idmap *map, struct idmap_place place, size_t at)
{
    assert_int_equal(stream_id_compare(idmap_id(map, place), model->entries[at].id), 0);
    assert_true(*(uint64_t *)idmap_value(map, place) == model->entries[at].value);
}

static void assert_same(const struct model *model, const struct idmap *map)
{
    struct idmap_place place;

    idmap_verify(map);
    assert_int_equal(map->count, model->count);
    assert_int_equal(idmap_first(map, &place), model->count > 0);
    for (size_t i = 0; i < model->count; i++) {
        assert_at(model, map, place, i);
        assert_int_equal(idmap_next(map, &place), i + 1 < model->count);
    }
    assert_int_equal(idmap_last(map, &place), model->count > 0);
    for (size_t i = model->count; i-- > 0;) {
        assert_at(model, map, place, i);
        assert_int_equal(idmap_previous(map, &place), i > 0);
    }
}

static void assert_finds(const struct model *model, struct stream_id id)
{
    size_t at = model_seek(model, id);
    bool is_there = model_has(model, at, id);
    uint64_t *found = idmap_find(&model->map, id);
    struct idmap_place place;

    assert_int_equal(found != NULL, is_there);
    if (is_there)
        assert_true(*found == model->entries[at].value);
    assert_int_equal(idmap_seek(&model->map, id, &place), at < model->count);
    if (at < model->count)
        assert_at(model, &model->map, place, at);
    assert_int_equal(idmap_seek_back(&model->map, id, &place), at + is_there > 0);
    if (at + is_there > 0)
        assert_at(model, &model->map, place, at + is_there - 1);
}

static void random_changes_match_a_sorted_array(void **state)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct model model = { .entries = calloc(ENTRIES_MAX, sizeof(struct entry)) };
        uint64_t dice = seed;
        struct idmap copy;

        print_message("seed %llu\n", (unsigned long long)seed);
        idmap_init(&model.map, sizeof(uint64_t));
        for (int step = 0; step < STEPS; step++) {
            struct stream_id id = id_of(draw(&dice) % 40, draw(&dice) % 50);
            uint64_t kind = draw(&dice) % 10;

            /* It grows for a while, then shrinks, so that chunks are split and merged. */
            if (kind < (step / 1000 % 2 ? 2 : 7))
                put(&model, id, draw(&dice));
            else if (kind == 7 && model.count > 0)
                take(&model, model.entries[0].id);
            else if (model.count > 0 && kind == 8) {
                struct idmap_place place;
                size_t at = model_seek(&model, id);

                if (idmap_seek(&model.map, id, &place)) {
                    bool is_more = idmap_remove_at(&model.map, &place);

                    cut(&model, at);
                    assert_int_equal(is_more, at < model.count);
                    if (is_more)
                        assert_at(&model, &model.map, place, at);
                }
            } else {
                take(&model, model.count > 0 && kind == 9 ? model.entries[draw(&dice) % model.count].id : id);
            }
            assert_finds(&model, id_of(draw(&dice) % 42, draw(&dice) % 52));
            if (step % 100 == 0)
                assert_same(&model, &model.map);
        }
        assert_same(&model, &model.map);
        idmap_init(&copy, sizeof(uint64_t));
        idmap_copy(&copy, &model.map);
        assert_same(&model, &copy);
        while (model.count > 0)
            take(&model, model.entries[draw(&dice) % model.count].id);
        assert_same(&model, &model.map);
        assert_int_equal(idmap_memory(&model.map), 0);
        idmap_release(&copy);
        idmap_release(&model.map);
        free(model.entries);
    }
}

static void a_queue_keeps_its_order(void **state)
{
    struct model model = { .entries = calloc(ENTRIES_MAX, sizeof(struct entry)) };

    idmap_init(&model.map, sizeof(uint64_t));
    for (uint64_t i = 1; i <= 3000; i++) {
        put(&model, id_of(i, UINT64_MAX - i), i);
        if (i > 500)
            take(&model, model.entries[0].id);
    }
    assert_same(&model, &model.map);
    idmap_release(&model.map);
    assert_int_equal(model.map.count, 0);
    free(model.entries);
}

static void ids_end_at_the_smallest_and_the_largest(void **state)
{
    struct stream_id id = { 0, 0 };

    assert_false(stream_id_decrement(&id));
    assert_true(stream_id_is_zero(id));
    id = STREAM_ID_MAX;
    assert_false(stream_id_increment(&id));
    assert_int_equal(stream_id_compare(id, STREAM_ID_MAX), 0);
    id = id_of(4, UINT64_MAX);
    assert_true(stream_id_increment(&id));
    assert_int_equal(stream_id_compare(id, id_of(5, 0)), 0);
    assert_true(stream_id_decrement(&id));
    assert_int_equal(stream_id_compare(id, id_of(4, UINT64_MAX)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_changes_match_a_sorted_array),
        cmocka_unit_test(a_queue_keeps_its_order),
        cmocka_unit_test(ids_end_at_the_smallest_and_the_largest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
