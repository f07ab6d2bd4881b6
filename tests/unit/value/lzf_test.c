#include "value/lzf.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"

/* True if it got smaller by `saved`; then it has to come back. */
static bool goes_and_comes_back(struct bytes input, size_t saved, size_t *size)
{
    size_t room = input.size > saved ? input.size - saved : 0;
    char *packed = mem_alloc(room + 1);
    struct buffer back = { 0 };

    *size = lzf_encode(input, packed, room);
    if (*size > 0) {
        assert_true(*size <= room);
        assert_int_equal(lzf_decode(bytes_of(packed, *size), input.size, &back), STATUS_OK);
        assert_memory_equal(back.data, input.data, input.size);
    }
    buffer_release(&back);
    mem_free(packed);
    return *size > 0;
}

static void what_repeats_gets_much_smaller(void **state)
{
    size_t size = 1 << 20, packed;
    char *data = mem_alloc(size);

    memset(data, 'x', size);
    assert_true(goes_and_comes_back(bytes_of(data, size), 5, &packed));
    assert_true(packed < size / 80);
    for (size_t i = 0; i < size; i++)
        data[i] = "the same words, over and over again; "[i % 37];
    assert_true(goes_and_comes_back(bytes_of(data, size), 5, &packed));
    assert_true(packed < size / 50);
    mem_free(data);
}

static void what_does_not_get_smaller_is_refused(void **state)
{
    struct random random;
    char data[5000];
    size_t packed;

    random_init(&random, 1);
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (char)random_next(&random);
    for (size_t size = 0; size < sizeof(data); size = size * 2 + 1)
        assert_false(goes_and_comes_back(bytes_of(data, size), 1, &packed));
    assert_false(goes_and_comes_back(BYTES("aaaaa"), 5, &packed));
    assert_true(goes_and_comes_back(BYTES("aaaaaaaaaaaaaaaa"), 5, &packed));
}

static void runs_at_the_edges_of_the_format_come_back(void **state)
{
    static const size_t lengths[] = { 3, 4, 8, 9, 10, 31, 32, 33, 263, 264, 265, 266, 267, 528, 8191, 8192, 8193, 8194 };
    struct random random;
    char *data = mem_alloc(60000);
    size_t packed, count = sizeof(lengths) / sizeof(lengths[0]);

    random_init(&random, 7);
    /* Noise, a gap of one length, then a run of another that began before the gap. */
    for (size_t a = 0; a < count; a++) {
        for (size_t b = 0; b < count; b++) {
            size_t size = 0;

            for (; size < 9000; size++)
                data[size] = (char)random_next(&random);
            memcpy(data + size, data + size - lengths[a], lengths[b] < lengths[a] ? lengths[b] : 1);
            size += lengths[b] < lengths[a] ? lengths[b] : 1;
            memset(data + size, 'z', lengths[b]);
            size += lengths[b];
            goes_and_comes_back(bytes_of(data, size), 0, &packed);
        }
    }
    mem_free(data);
}

static void anything_comes_back(void **state)
{
    struct random random;
    char *data = mem_alloc(20000);
    uint64_t seed;
    size_t packed;
    int smaller = 0;

    random_system(&seed, sizeof(seed));
    random_init(&random, seed);
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 3000; round++) {
        size_t size = random_below(&random, round % 10 == 0 ? 20000 : 300);
        uint64_t letters = 1 + random_below(&random, round % 3 == 0 ? 256 : 4);

        for (size_t i = 0; i < size; i++) {
            size_t back = random_below(&random, 9000), length = random_below(&random, 400);

            if (random_below(&random, 20) == 0 && back > 0 && back <= i) {
                for (; length > 0 && i < size; length--, i++)
                    data[i] = data[i - back];
            }
            if (i < size)
                data[i] = (char)random_below(&random, letters);
        }
        smaller += goes_and_comes_back(bytes_of(data, size), random_below(&random, 10), &packed);
    }
    assert_true(smaller > 1000);
    mem_free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_repeats_gets_much_smaller),
        cmocka_unit_test(what_does_not_get_smaller_is_refused),
        cmocka_unit_test(runs_at_the_edges_of_the_format_come_back),
        cmocka_unit_test(anything_comes_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
