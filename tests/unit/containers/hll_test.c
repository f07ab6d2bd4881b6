#include "support/unit.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "base/text.h"
#include "containers/hll.h"
#include "support/seed.h"

enum { SPARSE_MAX = 3000 };

static enum hll_result add_number(struct buffer *hll, int64_t number, size_t sparse_max)
{
    char digits[TEXT_INT_SIZE];

    return hll_add(hll, bytes_of(digits, text_of_int(number, digits)), sparse_max);
}

static uint64_t count(const struct buffer *hll)
{
    uint64_t number = 0;

    assert_true(hll_count(buffer_bytes(hll), &number));
    return number;
}

/* Generated with redis-server 7.0.15. */
static void the_bytes_are_those_of_redis(void **state)
{
    struct buffer hll = { 0 }, text = { 0 };
    uint64_t kept;

    hll_create(&hll);
    assert_true(bytes_equal(buffer_bytes(&hll), bytes_of("HYLL\x01\0\0\0\0\0\0\0\0\0\0\0\x7f\xff", 18)));
    assert_true(hll_kept_count(buffer_bytes(&hll), &kept));
    assert_int_equal(kept, 0);
    assert_int_equal(hll_add(&hll, BYTES("a"), SPARSE_MAX), HLL_CHANGED);
    assert_true(bytes_equal(buffer_bytes(&hll), bytes_of("HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80q\xa6\x84NW", 21)));
    assert_false(hll_kept_count(buffer_bytes(&hll), &kept));
    assert_int_equal(hll_add(&hll, BYTES("a"), SPARSE_MAX), HLL_SAME);
    assert_int_equal(count(&hll), 1);
    hll_keep_count(hll.data, 1);
    assert_true(hll_kept_count(buffer_bytes(&hll), &kept));
    assert_int_equal(hll_add(&hll, BYTES("b"), SPARSE_MAX), HLL_CHANGED);
    assert_int_equal(hll_add(&hll, BYTES("c"), SPARSE_MAX), HLL_CHANGED);
    assert_int_equal(hll_add(&hll, BYTES("d"), SPARSE_MAX), HLL_CHANGED);
    assert_true(bytes_equal(buffer_bytes(&hll),
        bytes_of("HYLL\x01\0\0\0\x01\0\0\0\0\0\0\x80\\{\x80" "Dv\x80P\xb1\x84K\xfb\x80" "BZ", 30)));
    hll_describe(buffer_bytes(&hll), &text);
    assert_true(bytes_equal(buffer_bytes(&text), BYTES("Z:7292 v:1,1 Z:1143 v:1,1 Z:4274 v:2,1 Z:3068 v:1,1 Z:603")));
    assert_int_equal(count(&hll), 4);
    buffer_release(&hll);
    buffer_release(&text);
}

/* The standard error is 1.04 / sqrt(16384), 0.81 %; the elements are fixed. */
static void estimates_are_close_and_sparse_and_dense_agree(void **state)
{
    struct buffer sparse = { 0 }, dense = { 0 };
    int64_t next = 10;

    hll_create(&sparse);
    hll_create(&dense);
    assert_int_equal(hll_to_dense(&dense), HLL_CHANGED);
    assert_int_equal(hll_to_dense(&dense), HLL_SAME);
    assert_int_equal(dense.size, HLL_DENSE_SIZE);
    for (int64_t i = 1; i <= 1000000; i++) {
        assert_int_equal(add_number(&sparse, i, SPARSE_MAX), add_number(&dense, i, 0));
        assert_true(sparse.size <= SPARSE_MAX || sparse.size == HLL_DENSE_SIZE);
        if (i == next) {
            uint64_t number = count(&sparse);

            assert_int_equal(number, count(&dense));
            if (fabs((double)number - (double)i) > (double)i * 0.0081 * 3 + 1)
                fail_msg("%" PRIu64 " instead of %" PRId64, number, i);
            next = next * 3 / 2;
        }
    }
    assert_false(hll_is_sparse(buffer_bytes(&sparse)));
    buffer_release(&sparse);
    buffer_release(&dense);
}

static void a_sparse_one_becomes_dense_at_its_limit_and_not_before(void **state)
{
    for (size_t size_max = 18; size_max < 200; size_max += 13) {
        struct buffer hll = { 0 };
        uint64_t before;

        hll_create(&hll);
        for (int64_t i = 0; hll_is_sparse(buffer_bytes(&hll)); i++) {
            uint8_t sparse_registers[HLL_REGISTERS] = { 0 }, registers[HLL_REGISTERS] = { 0 };
            size_t changed = 0;

            assert_true(hll.size <= size_max);
            assert_true(hll_read(buffer_bytes(&hll), sparse_registers));
            before = count(&hll);
            add_number(&hll, i, size_max);
            assert_true(hll_read(buffer_bytes(&hll), registers));
            for (int j = 0; j < HLL_REGISTERS; j++)
                changed += registers[j] != sparse_registers[j];
            assert_true(changed <= 1);
            assert_true(count(&hll) >= before);
        }
        assert_int_equal(hll.size, HLL_DENSE_SIZE);
        buffer_release(&hll);
    }
}

/* Registers in a plain array, raised at random, compared with both representations. */
static void random_registers_match_a_plain_array(void **state)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint8_t expected[HLL_REGISTERS] = { 0 }, got[HLL_REGISTERS];
        struct buffer hll = { 0 };
        struct random random;
        size_t span = 1 + random_below((random_init(&random, seed), &random), seed % 3 ? 60 : HLL_REGISTERS);

        hll_create(&hll);
        for (int step = 0; step < 30; step++) {
            uint8_t more[HLL_REGISTERS] = { 0 };
            size_t from = random_below(&random, HLL_REGISTERS - span + 1);
            bool changes = false;

            for (uint64_t i = random_below(&random, 30); i > 0; i--)
                more[from + random_below(&random, span)] = (uint8_t)(1 + random_below(&random, step % 9 == 8 ? 51 : 4));
            for (size_t i = 0; i < HLL_REGISTERS; i++) {
                changes |= more[i] > expected[i];
                expected[i] = more[i] > expected[i] ? more[i] : expected[i];
            }
            assert_int_equal(hll_raise(&hll, more, seed % 2 ? SPARSE_MAX : 100), changes ? HLL_CHANGED : HLL_SAME);
            memset(got, 0, sizeof(got));
            assert_true(hll_read(buffer_bytes(&hll), got));
            if (memcmp(got, expected, sizeof(got)) != 0)
                fail_msg("seed %" PRIu64 ", step %d", seed, step);
            assert_int_equal(count(&hll), hll_count_registers(expected));
        }
        buffer_release(&hll);
    }
}

static void other_bytes_are_recognised(void **state)
{
    static const struct bytes wrong[] = { { "", 0 }, { "HYLL\x01\0\0\0\0\0\0\0\0\0\0", 15 }, { "HYLl\x01\0\0\0\0\0\0\0\0\0\0\0\x7f\xff", 18 },
        { "HYLL\x02\0\0\0\0\0\0\0\0\0\0\0\x7f\xff", 18 }, { "HYLL\0\0\0\0\0\0\0\0\0\0\0\0\x7f\xff", 18 } };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(hll_is_one(wrong[i]));
    assert_true(hll_is_one(bytes_of("HYLL\x01\0\0\0\0\0\0\0\0\0\0\0", 16)));
}

/* Any bytes after the header: a result, nothing read or written beyond the end, and what is not corrupt stays so. */
static void hostile_runs_are_harmless(void **state)
{
    struct random random;
    uint64_t seed = seed_new();

    random_init(&random, seed);
    for (int round = 0; round < 20000; round++) {
        struct buffer hll = { 0 }, text = { 0 };
        uint8_t registers[HLL_REGISTERS] = { 0 };
        char *exact;
        uint64_t number;
        size_t size;
        bool is_good;

        hll_create(&hll);
        if (round % 4 == 0)
            hll.size = HLL_HEADER_SIZE;
        for (uint64_t i = random_below(&random, 40); i > 0; i--) {
            if (round % 4 == 0)
                buffer_append_u8(&hll, (uint8_t)random_next(&random));
            else
                add_number(&hll, (int64_t)i, SPARSE_MAX);
        }
        for (uint64_t i = random_below(&random, 3); i > 0 && hll.size > HLL_HEADER_SIZE; i--)
            hll.data[HLL_HEADER_SIZE + random_below(&random, hll.size - HLL_HEADER_SIZE)] = (char)random_next(&random);
        if (random_below(&random, 5) == 0 && hll.size > HLL_HEADER_SIZE)
            hll.size--;
        size = hll.size;
        exact = mem_alloc(size);            /* the exact size, so that the sanitizer detects a read beyond it */
        memcpy(exact, hll.data, size);
        buffer_release(&hll);
        hll = (struct buffer){ exact, size, size };
        is_good = hll_count(buffer_bytes(&hll), &number);
        assert_int_equal(hll_read(buffer_bytes(&hll), registers), is_good);
        hll_describe(buffer_bytes(&hll), &text);
        for (int64_t i = 0; i < 5; i++) {
            enum hll_result result = add_number(&hll, (int64_t)random_next(&random), size + random_below(&random, 9));

            assert_true(result != HLL_CORRUPT || !is_good);
        }
        assert_true(hll_count(buffer_bytes(&hll), &number) || !is_good);
        assert_true(hll_to_dense(&hll) != HLL_CORRUPT || !is_good);
        buffer_release(&hll);
        buffer_release(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bytes_are_those_of_redis),
        cmocka_unit_test(estimates_are_close_and_sparse_and_dense_agree),
        cmocka_unit_test(a_sparse_one_becomes_dense_at_its_limit_and_not_before),
        cmocka_unit_test(random_registers_match_a_plain_array),
        cmocka_unit_test(other_bytes_are_recognised),
        cmocka_unit_test(hostile_runs_are_harmless),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
