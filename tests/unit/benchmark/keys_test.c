/* The tools are no part of the library, so the files under test are included. */
#include "../utils/benchmark/keys.c"
#include "../utils/benchmark/zipf.c"

#include "support/unit.h"

#include <math.h>
#include <string.h>

static struct key_space *space_of(uint64_t count)
{
    const struct key_space_config config = { .count = count };

    return key_space_create(&config);
}

static void scatter_is_a_permutation_for_every_count(void **state)
{
    for (uint64_t count = 1; count < 3000; count = count < 70 ? count + 1 : count * 3 / 2) {
        struct key_space *space = space_of(count);
        char *seen = mem_zalloc(count);

        for (uint64_t rank = 0; rank < count; rank++) {
            uint64_t key = key_space_scatter(space, rank);

            assert_true(key < count);
            assert_int_equal(seen[key], 0);
            seen[key] = 1;
        }
        mem_free(seen);
        key_space_destroy(space);
    }
}

/* The keys of the first ranks, which are the hot keys, are counted by sixteenths of the key space and by their lowest four
 * bits: each has about a sixteenth of them, within the deviation of a random distribution.
 */
static void the_first_ranks_are_scattered_evenly(void **state)
{
    static const uint64_t counts[] = { 100000, 1000000, 1 << 20, 10000000, (uint64_t)1 << 40 };
    enum { RANKS = 10000, PARTS = 16 };

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        struct key_space *space = space_of(counts[i]);
        int stretches[PARTS] = { 0 }, bits[PARTS] = { 0 };
        double mean = RANKS / PARTS;

        for (uint64_t rank = 0; rank < RANKS; rank++) {
            uint64_t key = key_space_scatter(space, rank);

            stretches[(int)((double)key * PARTS / (double)counts[i])]++;
            bits[key % PARTS]++;
        }
        for (int part = 0; part < PARTS; part++) {
            assert_true(fabs(stretches[part] - mean) < 6 * sqrt(mean));
            assert_true(fabs(bits[part] - mean) < 6 * sqrt(mean));
        }
        key_space_destroy(space);
    }
}

/* Chi squared over all numbers: its mean is their count minus one, its deviation sqrt(2 (count - 1)). */
static void zipf_draws_each_number_in_proportion(void **state)
{
    static const double thetas[] = { 0.2, 0.8, 0.99, 1, 1.01, 2 };
    enum { COUNT = 60, DRAWS = 400000 };

    for (size_t t = 0; t < sizeof(thetas) / sizeof(thetas[0]); t++) {
        struct zipf zipf;
        struct random random;
        int drawn[COUNT] = { 0 };
        double total = 0, chi = 0;

        zipf_init(&zipf, COUNT, thetas[t]);
        random_init(&random, 5);
        for (int i = 0; i < DRAWS; i++) {
            uint64_t k = zipf_draw(&zipf, &random);

            assert_true(k < COUNT);
            drawn[k]++;
        }
        for (int k = 1; k <= COUNT; k++)
            total += pow(k, -thetas[t]);
        for (int k = 1; k <= COUNT; k++) {
            double expected = DRAWS * pow(k, -thetas[t]) / total;

            chi += (drawn[k - 1] - expected) * (drawn[k - 1] - expected) / expected;
        }
        assert_true(chi < COUNT - 1 + 5 * sqrt(2 * (COUNT - 1)));
    }
}

static void zipf_handles_extreme_values(void **state)
{
    struct zipf zipf;
    struct random random;

    random_init(&random, 1);
    zipf_init(&zipf, 1, 0.99);
    for (int i = 0; i < 100; i++)
        assert_int_equal(zipf_draw(&zipf, &random), 0);
    zipf_init(&zipf, (uint64_t)1 << 40, 0.001);
    for (int i = 0; i < 100000; i++)
        assert_true(zipf_draw(&zipf, &random) < (uint64_t)1 << 40);
    zipf_init(&zipf, 1000000, 20);
    for (int i = 0; i < 1000; i++)
        assert_true(zipf_draw(&zipf, &random) < 3);
}

static void digits_are_padded_and_truncated(void **state)
{
    char out[8];

    digits_write(out, 6, 42);
    assert_memory_equal(out, "000042", 6);
    digits_write(out, 2, 12345);
    assert_memory_equal(out, "45", 2);
    for (uint64_t count = 1, digits = 1; digits < 15; digits++, count = count * 10) {
        struct key_space *space = space_of(count * 10);

        assert_int_equal(key_space_digits(space), digits);
        key_space_destroy(space);
        space = space_of(count * 10 + 1);
        assert_int_equal(key_space_digits(space), digits + 1);
        key_space_destroy(space);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scatter_is_a_permutation_for_every_count),
        cmocka_unit_test(the_first_ranks_are_scattered_evenly),
        cmocka_unit_test(zipf_draws_each_number_in_proportion),
        cmocka_unit_test(zipf_handles_extreme_values),
        cmocka_unit_test(digits_are_padded_and_truncated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
