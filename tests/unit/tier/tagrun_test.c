#include "tier/tagrun.h"

#include "support/unit.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"

enum { COUNT_MAX = 700 };

struct line {
    uint64_t number, place;
};

/* A run in a block of exactly the size it asks for, so that a sanitizer sees every step beyond it. */
struct bench {
    unsigned width, place_bits;
    uint64_t *block;
    uint64_t words;
    struct line lines[COUNT_MAX];       /* what should be in it, ascending */
    uint32_t count;
};

static void bench_fit(struct bench *bench, uint64_t count, unsigned place_bits)
{
    uint64_t words = tagrun_words(count, bench->width, place_bits);

    if (words == bench->words)
        return;
    bench->block = mem_realloc(bench->block, words * sizeof(uint64_t));
    if (bench->words == 0)
        bench->block[0] = 0xabcdef01;
    bench->words = words;
}

static void bench_widen(struct bench *bench, uint64_t count, uint64_t place)
{
    unsigned bits = tagrun_bits_of(place), before = bench->place_bits;

    if (bits > before)
        bench->place_bits = bits;
    bench_fit(bench, count, bench->place_bits);
    if (bits > before)
        tagrun_widen(bench->block, bench->width, bits);
    assert_int_equal(tagrun_place_bits(bench->block), bench->place_bits);
}

static uint32_t bench_index(const struct bench *bench, uint64_t number)
{
    uint32_t index = 0;

    while (index < bench->count && bench->lines[index].number < number)
        index++;
    return index;
}

static bool bench_has(const struct bench *bench, uint64_t number)
{
    uint32_t index = bench_index(bench, number), found = 0;
    bool is_there = index < bench->count && bench->lines[index].number == number;

    if (bench->count == 0)
        return false;
    assert_int_equal(tagrun_find(bench->block, bench->width, number, &found), is_there);
    assert_int_equal(found, index);
    if (is_there)
        assert_true(tagrun_place(bench->block, bench->width, index) == bench->lines[index].place);
    return is_there;
}

static void bench_add(struct bench *bench, uint64_t number, uint64_t place)
{
    uint32_t index = bench_index(bench, number);

    bench_widen(bench, (uint64_t)bench->count + 1, place);
    tagrun_add(bench->block, bench->width, index, number, place);
    memmove(bench->lines + index + 1, bench->lines + index, (bench->count - index) * sizeof(bench->lines[0]));
    bench->lines[index] = (struct line){ number, place };
    bench->count++;
}

static void bench_move(struct bench *bench, uint64_t number, uint64_t place)
{
    uint32_t index = bench_index(bench, number);

    bench_widen(bench, bench->count, place);
    tagrun_set_place(bench->block, bench->width, index, place);
    bench->lines[index].place = place;
}

static void bench_remove(struct bench *bench, uint64_t number)
{
    uint32_t index = bench_index(bench, number);

    tagrun_remove(bench->block, bench->width, index, number);
    bench->count--;
    memmove(bench->lines + index, bench->lines + index + 1, (bench->count - index) * sizeof(bench->lines[0]));
    bench_fit(bench, bench->count, bench->place_bits);
    if (bench->count == 0)
        bench->place_bits = 0;
}

static void bench_verify(const struct bench *bench)
{
    struct tagrun_reader reader;
    uint64_t number, place;
    uint32_t lower = 0;

    if (bench->count == 0)
        return;
    assert_int_equal((uint32_t)bench->block[0], 0xabcdef01);
    assert_int_equal(tagrun_count(bench->block), bench->count);
    tagrun_reader_init(&reader, bench->block, bench->width);
    for (uint32_t i = 0; i < bench->count; i++) {
        assert_true(tagrun_read(&reader, &number, &place));
        assert_true(number == bench->lines[i].number && place == bench->lines[i].place);
        assert_true(bench_has(bench, number));
        lower += number >> (bench->width - 1) == 0;
    }
    assert_false(tagrun_read(&reader, &number, &place));
    assert_int_equal(tagrun_count_lower(bench->block), lower);
}

/* Often with fewer place bits than before. */
static void bench_rewrite(struct bench *bench)
{
    struct tagrun_writer writer;
    uint64_t all = 0;

    if (bench->count == 0)
        return;
    for (uint32_t i = 0; i < bench->count; i++)
        all |= bench->lines[i].place;
    bench->place_bits = tagrun_bits_of(all);
    bench_fit(bench, bench->count, bench->place_bits);
    memset(bench->block + 1, 0xff, (bench->words - 1) * sizeof(uint64_t));
    tagrun_writer_init(&writer, bench->block, bench->width, bench->place_bits, bench->count);
    for (uint32_t i = 0; i < bench->count; i++)
        tagrun_write(&writer, bench->lines[i].number, bench->lines[i].place);
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

static uint64_t place_draw(struct random *random, unsigned bits)
{
    return random_below(random, 4) == 0 ? random_below(random, 4) : random_below(random, 1ull << random_below(random, bits + 1));
}

static void bench_step(struct bench *bench, struct random *random, uint64_t grow, unsigned kind, unsigned bits)
{
    uint64_t number = number_draw(random, bench->width, kind);

    if (bench_has(bench, number)) {
        if (random_below(random, 2) == 0)
            bench_move(bench, number, place_draw(random, bits));
        else
            bench_remove(bench, number);
    } else if (random_below(random, 100) < grow && bench->count < COUNT_MAX) {
        bench_add(bench, number, place_draw(random, bits));
    } else if (bench->count > 0) {
        bench_remove(bench, bench->lines[random_below(random, bench->count)].number);
    }
    bench_has(bench, number);
    if (bench->count > 0)
        tagrun_prefetch(bench->block, bench->words, bench->width, number);
}

static void a_run_agrees_with_a_sorted_array(void **state)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct bench *bench = mem_zalloc(sizeof(*bench));
        struct random random;
        unsigned bits;

        random_init(&random, seed);
        bench->width = 8 + (unsigned)random_below(&random, 56);
        bits = (unsigned)random_below(&random, TAGRUN_PLACE_BITS_MAX + 1);
        print_message("seed %" PRIu64 " width %u place bits %u\n", seed, bench->width, bits);
        for (int step = 0; step < 3000; step++) {
            bench_step(bench, &random, step < 1500 ? 80 : 40, seed % 3, bits);
            if (step % 50 == 0) {
                bench_verify(bench);
                bench_rewrite(bench);
                bench_verify(bench);
            }
        }
        while (bench->count > 0) {
            bench_remove(bench, bench->lines[random_below(&random, bench->count)].number);
            if (bench->count % 16 == 0)
                bench_verify(bench);
        }
        mem_free(bench->block);
        mem_free(bench);
    }
}

static void a_run_is_as_small_as_promised(void **state)
{
    /* 17 bits of remainder, one of quotient and 33 of place a number; 128 for the quotients, 64 of header, up to 7 numbers and a word over. */
    assert_int_equal(tagrun_words(0, 24, 33), 0);
    for (uint64_t count = 1; count < 1000; count++)
        assert_true(tagrun_words(count, 24, 33) * 64 <= (18 + 33) * (count + 7) + 128 + 64 + 63);
    for (uint64_t count = 1; count < 1000; count++)
        if (count % TAGRUN_STEP != 0)
            assert_int_equal(tagrun_words(count, 31, 40), tagrun_words(count + 1, 31, 40));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_agrees_with_a_sorted_array),
        cmocka_unit_test(a_run_is_as_small_as_promised),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
