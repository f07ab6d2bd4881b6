#include "tier/shelf.h"

#include "support/unit.h"

#include <inttypes.h>
#include <string.h>

#include "base/random.h"

enum { BLOCKS = 300 };

/* Word i of a block holds what only this block has there; word 0 holds it in its upper half. */
static uint64_t word_of(uint32_t number, uint32_t index)
{
    return ((uint64_t)number << 32 | index) * 0x9e3779b97f4a7c15ull;
}

static void block_write(struct shelf *shelf, uint32_t number, uint32_t from)
{
    uint64_t *at = shelf_at(shelf, number);

    for (uint32_t i = from; i < shelf_words(shelf, number); i++)
        at[i] = i > 0 ? word_of(number, i) : (uint32_t)at[0] | (uint64_t)(number + 7) << 32;
}

static void block_verify(const struct shelf *shelf, uint32_t number, uint32_t words)
{
    const uint64_t *at;

    assert_int_equal(shelf_words(shelf, number), words);
    if (words == 0)
        return;
    at = shelf_at(shelf, number);
    assert_int_equal(at[0] >> 32, number + 7);
    for (uint32_t i = 1; i < words; i++)
        assert_true(at[i] == word_of(number, i));
}

static void block_resize(struct shelf *shelf, uint32_t number, uint32_t words)
{
    uint32_t before = shelf_words(shelf, number);
    uint64_t *at = shelf_resize(shelf, number, words);

    assert_true(words == 0 ? at == NULL : at == shelf_at(shelf, number));
    if (before == 0 && words > 0)
        assert_int_equal(at[0] >> 32, 0);
    if (words > before)
        block_write(shelf, number, before);
}

static uint32_t size_draw(struct random *random, int phase)
{
    uint64_t kind = random_below(random, 20);

    if (kind == 0)
        return 0;
    if (kind == 1)
        return (uint32_t)random_below(random, SHELF_CHUNK_WORDS * 3);
    return (uint32_t)random_below(random, phase == 1 ? 20 : 150);
}

static void blocks_keep_what_is_in_them_wherever_they_move(void **state)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct shelf shelf = { 0 };
        uint32_t sizes[BLOCKS] = { 0 };
        struct random random;

        print_message("seed %" PRIu64 "\n", seed);
        random_init(&random, seed);
        for (int i = 0; i < BLOCKS; i++)
            shelf_push(&shelf);
        for (int step = 0; step < 6000; step++) {
            uint32_t number = (uint32_t)random_below(&random, BLOCKS);

            sizes[number] = size_draw(&random, step / 2000);
            block_resize(&shelf, number, sizes[number]);
            block_verify(&shelf, number, sizes[number]);
            if (step % 200 == 0)
                for (uint32_t i = 0; i < BLOCKS; i++)
                    block_verify(&shelf, i, sizes[i]);
        }
        while (shelf.block_count > 0) {
            for (uint32_t i = 0; i < shelf.block_count; i += 10)
                block_verify(&shelf, i, sizes[i]);
            block_resize(&shelf, shelf.block_count - 1, 0);
            shelf_pop(&shelf);
        }
        assert_int_equal(shelf.chunk_count, 0);
        assert_int_equal(shelf.used, 0);
        assert_int_equal(shelf.room, 0);
        shelf_release(&shelf);
    }
}

static void blocks_that_grow_little_by_little_are_packed(void **state)
{
    struct shelf shelf = { 0 };
    uint64_t words = 0;
    struct random random;

    random_init(&random, 1);
    for (int i = 0; i < BLOCKS; i++)
        shelf_push(&shelf);
    for (int step = 0; step < 20000; step++) {
        uint32_t number = (uint32_t)random_below(&random, BLOCKS);

        block_resize(&shelf, number, shelf_words(&shelf, number) + 1);
    }
    for (uint32_t i = 0; i < BLOCKS; i++)
        words += shelf_words(&shelf, i);
    assert_int_equal(words, 20000);
    assert_true(shelf_size(&shelf) < 20000 * 8 * 106 / 100 + SHELF_CHUNK_WORDS * 8);

    /* Down to a tenth: the memory comes back, also while every block still holds something. */
    for (int step = 0; step < 18000; ) {
        uint32_t number = (uint32_t)random_below(&random, BLOCKS);

        if (shelf_words(&shelf, number) > 1) {
            block_resize(&shelf, number, shelf_words(&shelf, number) - 1);
            step++;
        }
    }
    for (uint32_t i = 0; i < BLOCKS; i++)
        block_verify(&shelf, i, shelf_words(&shelf, i));
    assert_true(shelf_size(&shelf) < 2000 * 8 + 2 * SHELF_CHUNK_WORDS * 8);
    shelf_release(&shelf);
}

static uint32_t chunk_of(const struct shelf *shelf, uint32_t number)
{
    return shelf->blocks[number].place >> SHELF_OFFSET_BITS;
}

/* A search through all chunks, for each block of a map that is filled, takes time with the square of their number. */
static void new_blocks_go_to_the_last_chunk_while_it_has_space(void **state)
{
    struct shelf shelf = { 0 };

    for (int i = 0; i < 5; i++)
        shelf_push(&shelf);
    block_resize(&shelf, 0, SHELF_CHUNK_WORDS - 500);
    block_resize(&shelf, 1, 450);
    block_resize(&shelf, 2, 600);
    block_resize(&shelf, 1, 400);
    assert_true(chunk_of(&shelf, 0) == 0 && chunk_of(&shelf, 1) == 0 && chunk_of(&shelf, 2) == 1);
    block_resize(&shelf, 3, 80);                /* the first chunk is fuller, and has space for it as well */
    assert_int_equal(chunk_of(&shelf, 3), 1);
    block_resize(&shelf, 2, SHELF_CHUNK_WORDS - 80 - 20);
    block_resize(&shelf, 4, 80);                /* the last one has none: a place in another one is found */
    assert_int_equal(chunk_of(&shelf, 4), 0);
    shelf_release(&shelf);
}

static void an_empty_shelf_holds_nothing(void **state)
{
    struct shelf shelf = { 0 };

    assert_int_equal(shelf_size(&shelf), 0);
    shelf_push(&shelf);
    assert_null(shelf_resize(&shelf, 0, 0));
    block_resize(&shelf, 0, 5);
    assert_true(shelf_size(&shelf) <= 8 * 8 + 32 + 32);
    block_resize(&shelf, 0, 0);
    shelf_pop(&shelf);
    assert_int_equal(shelf.room, 0);
    shelf_release(&shelf);
    assert_int_equal(shelf_size(&shelf), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_keep_what_is_in_them_wherever_they_move),
        cmocka_unit_test(blocks_that_grow_little_by_little_are_packed),
        cmocka_unit_test(new_blocks_go_to_the_last_chunk_while_it_has_space),
        cmocka_unit_test(an_empty_shelf_holds_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
