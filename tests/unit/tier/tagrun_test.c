#include "tier/tagrun.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/random.h"

enum { COUNT_MAX = 700 };

/* A run in a block of exactly the size it asks for, so that a sanitizer sees every step beyond it. */
struct bench {
    unsigned width;
    uint64_t *block;
    uint64_t words;
    uint64_t numbers[COUNT_MAX];        /* what should be in it, ascending */
    uint32_t count;
};

static void bench_fit(struct bench *bench, uint64_t count)
{
    uint64_t words = tagrun_words(count, bench->width);

    if (words == bench->words)
        return;
    bench->block = mem_realloc(bench->block, words * sizeof(uint64_t));
    if (bench->words == 0)
        bench->block[0] = 0xabcdef01;
    bench->words = words;
}

static uint32_t bench_index(const struct bench *bench, uint64_t number)
{
    uint32_t index = 0;

    while (index < bench->count && bench->numbers[index] < number)
        index++;
    return index;
}

static void bench_add(struct bench *bench, uint64_t number)
{
    uint32_t index = bench_index(bench, number);

    bench_fit(bench, (uint64_t)bench->count + 1);
    tagrun_add(bench->block, bench->width, number);
    memmove(bench->numbers + index + 1, bench->numbers + index, (bench->count - index) * sizeof(number));
    bench->numbers[index] = number;
    bench->count++;
}

static void bench_remove(struct bench *bench, uint64_t number)
{
    uint32_t index = bench_index(bench, number);
    bool there = index < bench->count && bench->numbers[index] == number;

    if (bench->count == 0)
        return;
    assert_int_equal(tagrun_remove(bench->block, bench->width, number), there);
    if (!there)
        return;
    bench->count--;
    memmove(bench->numbers + index, bench->numbers + index + 1, (bench->count - index) * sizeof(number));
    bench_fit(bench, bench->count);
}

static void bench_verify(const struct bench *bench)
{
    struct tagrun_reader reader;
    uint64_t number;
    uint32_t lower = 0;

    if (bench->count == 0)
        return;
    assert_int_equal((uint32_t)bench->block[0], 0xabcdef01);
    assert_int_equal(tagrun_count(bench->block), bench->count);
    tagrun_reader_init(&reader, bench->block, bench->width);
    for (uint32_t i = 0; i < bench->count; i++) {
        assert_true(tagrun_read(&reader, &number));
        assert_true(number == bench->numbers[i]);
        assert_true(tagrun_has(bench->block, bench->width, number));
        lower += number >> (bench->width - 1) == 0;
    }
    assert_false(tagrun_read(&reader, &number));
    assert_int_equal(tagrun_count_lower(bench->block, bench->width), lower);
}

static void bench_rewrite(struct bench *bench)
{
    struct tagrun_writer writer;

    if (bench->count == 0)
        return;
    memset(bench->block + 1, 0xff, (bench->words - 1) * sizeof(uint64_t));
    tagrun_writer_init(&writer, bench->block, bench->width, bench->count);
    for (uint32_t i = 0; i < bench->count; i++)
        tagrun_write(&writer, bench->numbers[i]);
}

/* Numbers of few values, of few quotients, or of any value: each fails differently. */
static uint64_t number_draw(struct random *random, unsigned width, unsigned kind)
{
    uint64_t limit = 1ull << width;

    if (kind == 0)
        return random_below(random, 20) * (limit / 20);
    if (kind == 1)
        return limit - 1 - random_below(random, limit / 200 + 1);
    return random_below(random, limit);
}

static void a_run_agrees_with_a_sorted_array(void **state)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct bench *bench = mem_zalloc(sizeof(*bench));
        struct random random;

        random_init(&random, seed);
        bench->width = 9 + (unsigned)random_below(&random, 55);
        print_message("seed %" PRIu64 " width %u\n", seed, bench->width);
        for (int step = 0; step < 3000; step++) {
            uint64_t grow = step < 1500 ? 70 : 40;
            uint64_t number = number_draw(&random, bench->width, seed % 3);

            if (random_below(&random, 100) < grow && bench->count < COUNT_MAX)
                bench_add(bench, number);
            else if (bench->count > 0 && random_below(&random, 4) > 0)
                bench_remove(bench, bench->numbers[random_below(&random, bench->count)]);
            else
                bench_remove(bench, number);
            if (bench->count > 0) {
                uint32_t index = bench_index(bench, number);

                assert_int_equal(tagrun_has(bench->block, bench->width, number),
                    index < bench->count && bench->numbers[index] == number);
                tagrun_prefetch(bench->block, bench->words, bench->width, number);
            }
            if (step % 50 == 0) {
                bench_verify(bench);
                bench_rewrite(bench);
                bench_verify(bench);
            }
        }
        while (bench->count > 0) {
            bench_remove(bench, bench->numbers[random_below(&random, bench->count)]);
            if (bench->count % 16 == 0)
                bench_verify(bench);
        }
        mem_free(bench->block);
        mem_free(bench);
    }
}

static void equal_numbers_are_kept_as_often_as_they_were_added(void **state)
{
    struct bench *bench = mem_zalloc(sizeof(*bench));

    bench->width = 26;
    for (int i = 0; i < 300; i++)
        bench_add(bench, 12345678);
    bench_verify(bench);
    for (int i = 0; i < 300; i++) {
        assert_true(tagrun_has(bench->block, 26, 12345678));
        bench_remove(bench, 12345678);
    }
    assert_int_equal(bench->count, 0);
    mem_free(bench->block);
    mem_free(bench);
}

static void a_run_is_as_small_as_promised(void **state)
{
    /* 16 bits of remainder: 17 bits a number, 256 for the quotients, 64 of header, up to 7 numbers and a word over. */
    assert_int_equal(tagrun_words(0, 24), 0);
    for (uint64_t count = 1; count < 1000; count++)
        assert_true(tagrun_words(count, 24) * 64 <= 17 * (count + 7) + 256 + 64 + 63);
    for (uint64_t count = 1; count < 1000; count++)
        if (count % TAGRUN_STEP != 0)
            assert_int_equal(tagrun_words(count, 31), tagrun_words(count + 1, 31));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_agrees_with_a_sorted_array),
        cmocka_unit_test(equal_numbers_are_kept_as_often_as_they_were_added),
        cmocka_unit_test(a_run_is_as_small_as_promised),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
