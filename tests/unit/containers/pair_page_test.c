#include "containers/pair_page.h"

#include "support/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "support/scaled.h"

enum { KEYS = 60, LARGE = 40000 };

struct model_pair {
    uint32_t key;
    uint32_t value_size;
    uint64_t number;
};

/* The page is in a block of exactly its size. */
struct model {
    char *page;
    size_t size;
    struct model_pair pairs[KEYS];
    uint32_t count;
    struct random random;
};

static char *large;             /* what values are made of */

static struct bytes key_of(uint32_t key, char room[32])
{
    return bytes_of(room, key == 0 ? 0 : (size_t)snprintf(room, 32, "%.*s%u", (int)(key % 12), "field-of-map", (unsigned)key));
}

static struct bytes value_of(const struct model_pair *pair)
{
    return bytes_of(large + pair->key, pair->value_size);
}

/* Few, so that there are equal ones. */
static uint8_t fingerprint_of(uint32_t key)
{
    return (uint8_t)(key % 5 * 63);
}

static void verify(const struct model *model)
{
    struct bytes page = bytes_of(model->page, model->size);
    size_t pairs_size = 0;
    char room[32];

    assert_true(pair_page_is_sound(page));
    assert_int_equal(pair_page_count(page), model->count);
    for (uint32_t i = 0; i < model->count; i++) {
        const struct model_pair *wanted = &model->pairs[i];
        struct pair pair = pair_page_at(page, i);
        uint32_t index;

        assert_true(bytes_equal(pair.key, key_of(wanted->key, room)));
        assert_true(bytes_equal(pair.value, value_of(wanted)));
        assert_int_equal(pair.number, wanted->number);
        assert_int_equal(pair_page_fingerprint(page, i), fingerprint_of(wanted->key));
        assert_true(pair_page_find(page, fingerprint_of(wanted->key), key_of(wanted->key, room), &index));
        assert_int_equal(index, i);
        pairs_size += pair.size;
    }
    assert_int_equal(pair_page_pairs_size(page), pairs_size);
    assert_int_equal(pair_page_size(pairs_size, model->count), model->size);
}

static void resize(struct model *model, size_t size)
{
    char *page = mem_alloc(size);

    memcpy(page, model->page, size < model->size ? size : model->size);
    mem_free(model->page);
    model->page = page;
}

static void add(struct model *model, uint32_t key, uint32_t value_size)
{
    struct model_pair pair = { key, value_size, random_below(&model->random, 3) == 0 ? 1 + random_below(&model->random, PAIR_NUMBER_MAX) : 0 };
    struct bytes page = bytes_of(model->page, model->size);
    char room[32];
    struct bytes name = key_of(key, room);
    size_t size = pair_page_size(pair_page_pairs_size(page) + pair_numbered_size(name, value_of(&pair), pair.number), model->count + 1);

    resize(model, size);
    assert_int_equal(pair_page_add(model->page, model->size, fingerprint_of(key), name, value_of(&pair), pair.number), size);
    model->size = size;
    model->pairs[model->count++] = pair;
}

static void take_out(struct model *model, uint32_t index)
{
    size_t size = pair_page_remove(model->page, model->size, index);

    assert_true(size < model->size);
    resize(model, size);
    model->size = size;
    model->count--;
    memmove(&model->pairs[index], &model->pairs[index + 1], (model->count - index) * sizeof(model->pairs[0]));
}

static void init(struct model *model, uint64_t seed)
{
    struct pair_page_writer writer;

    *model = (struct model){ .size = pair_page_size(0, 0) };
    model->page = mem_alloc(model->size);
    pair_page_begin(&writer, model->page, 0, 0);
    random_init(&model->random, seed);
}

static uint32_t index_of(const struct model *model, uint32_t key)
{
    uint32_t i = 0;

    while (i < model->count && model->pairs[i].key != key)
        i++;
    return i;
}

/* With values so large that the ends are narrow and wide by turns. */
static uint32_t draw_value_size(struct model *model, uint64_t seed)
{
    if (seed % 2 == 0 && random_below(&model->random, 20) == 0)
        return (uint32_t)random_below(&model->random, LARGE);
    return (uint32_t)random_below(&model->random, random_below(&model->random, 10) == 0 ? 300 : 20);
}

static void random_work_agrees_with_an_array(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= (uint64_t)scaled(8); seed++) {
        struct model model;
        char room[32];

        init(&model, seed);
        for (int step = 0; step < 1500; step++) {
            uint32_t key = (uint32_t)random_below(&model.random, KEYS), index = index_of(&model, key), found;

            assert_int_equal(pair_page_find(bytes_of(model.page, model.size), fingerprint_of(key), key_of(key, room), &found), index < model.count);
            if (index < model.count)
                take_out(&model, index);
            else
                add(&model, key, draw_value_size(&model, seed));
            verify(&model);
        }
        while (model.count > 0)
            take_out(&model, (uint32_t)random_below(&model.random, model.count));
        verify(&model);
        mem_free(model.page);
    }
}

/* Of damaged bytes none is read that is not the page's: the sanitizer sees it if not. */
static void damaged_bytes_are_refused_or_do_no_harm(void **state)
{
    uint32_t refused = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct model model;

        init(&model, seed);
        for (uint32_t key = 0; key < seed; key++)
            add(&model, key, draw_value_size(&model, seed));
        for (int round = 0; round < 300; round++) {
            size_t size = random_below(&model.random, 10) == 0 ? random_below(&model.random, model.size + 1) : model.size;
            char *copy = mem_alloc(size + 1), room[32];
            struct bytes page;
            uint32_t index;

            memcpy(copy, model.page, size);
            copy = mem_realloc(copy, size > 0 ? size : 1);
            for (uint64_t changes = random_below(&model.random, 4); size > 0 && changes > 0; changes--) {
                size_t tail = size < 200 ? size : 200, at = size - 1 - random_below(&model.random, round % 2 == 0 ? tail : size);

                copy[at] = (char)(random_below(&model.random, 2) == 0 ? random_next(&model.random) : (uint64_t)copy[at] ^ 1ull << random_below(&model.random, 8));
            }
            page = bytes_of(copy, size);
            if (pair_page_is_sound(page)) {
                for (uint32_t i = 0; i < pair_page_count(page); i++)
                    assert_true(pair_page_at(page, i).size > 0);
                for (uint32_t key = 0; key < KEYS; key++)
                    (void)pair_page_find(page, fingerprint_of(key), key_of(key, room), &index);
            } else {
                refused++;
            }
            mem_free(copy);
        }
        mem_free(model.page);
    }
    assert_in_range(refused, 3000, 11999);
}

static int make_large(void **state)
{
    (void)state;
    large = mem_alloc(LARGE + KEYS);
    for (int i = 0; i < LARGE + KEYS; i++)
        large[i] = (char)(i * 31 + i / 256);
    return 0;
}

static int free_large(void **state)
{
    (void)state;
    mem_free(large);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_work_agrees_with_an_array),
        cmocka_unit_test(damaged_bytes_are_refused_or_do_no_harm),
    };

    return cmocka_run_group_tests(tests, make_large, free_large);
}
