#include "commands/bits.h"

#include "support/unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "support/seed.h"

static struct random random_new(void)
{
    uint64_t seed = seed_new();
    struct random random;

    random_init(&random, seed);
    return random;
}

static bool bit_at(const uint8_t *data, uint64_t index)
{
    return data[index / 8] >> (7 - index % 8) & 1;
}

/* Memory of exactly `size` bytes, so that the address sanitizer finds an access beyond it. Long runs of equal bytes are likely. */
static uint8_t *memory_new(struct random *random, size_t size)
{
    uint8_t *data = mem_alloc(size);

    for (size_t i = 0; i < size; i++)
        data[i] = i > 0 && random_below(random, 8) > 0 ? data[i - 1] : (uint8_t[]){ 0, 0xff, 0x10, (uint8_t)random_next(random) }[random_below(random, 4)];
    return data;
}

static void a_span_is_counted_and_searched_as_bit_by_bit(void **state)
{
    struct random random = random_new();

    for (int round = 0; round < 20000; round++) {
        size_t size = 1 + random_below(&random, 100);
        uint8_t *data = memory_new(&random, size);
        uint64_t first = random_below(&random, size * 8);
        uint64_t last = first + random_below(&random, size * 8 - first), count = 0;
        int64_t found[2] = { -1, -1 };

        for (uint64_t i = first; i <= last; i++) {
            count += bit_at(data, i);
            if (found[bit_at(data, i)] < 0)
                found[bit_at(data, i)] = (int64_t)i;
        }
        assert_int_equal(bits_count(data, first, last), count);
        assert_int_equal(bits_find(data, first, last, false), found[0]);
        assert_int_equal(bits_find(data, first, last, true), found[1]);
        mem_free(data);
    }
}

static void a_field_reads_as_its_bits_and_zeros_beyond_the_end(void **state)
{
    struct random random = random_new();

    for (int round = 0; round < 20000; round++) {
        size_t size = 1 + random_below(&random, 20);
        uint8_t *data = memory_new(&random, size);
        int width = 1 + (int)random_below(&random, 64);
        uint64_t offset = random_below(&random, 200), value = 0;

        for (uint64_t i = offset; i < offset + (uint64_t)width; i++)
            value = value << 1 | (i < size * 8 && bit_at(data, i));
        assert_true(bits_read(data, size, offset, width) == value);
        mem_free(data);
    }
}

static void a_written_field_changes_nothing_else(void **state)
{
    struct random random = random_new();

    for (int round = 0; round < 20000; round++) {
        size_t size = 8 + random_below(&random, 20);
        uint8_t *data = memory_new(&random, size), *before = mem_alloc(size);
        int width = 1 + (int)random_below(&random, 64);
        uint64_t offset = random_below(&random, size * 8 - (uint64_t)width + 1);
        uint64_t value = random_next(&random) & UINT64_MAX >> (64 - width);

        memcpy(before, data, size);
        bits_write(data, offset, width, value);
        assert_true(bits_read(data, size, offset, width) == value);
        for (uint64_t i = 0; i < size * 8; i++)
            if (i < offset || i >= offset + (uint64_t)width)
                assert_int_equal(bit_at(data, i), bit_at(before, i));
        mem_free(before);
        mem_free(data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_span_is_counted_and_searched_as_bit_by_bit),
        cmocka_unit_test(a_field_reads_as_its_bits_and_zeros_beyond_the_end),
        cmocka_unit_test(a_written_field_changes_nothing_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
