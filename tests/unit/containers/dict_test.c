#include "support/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "containers/dict.h"
#include "support/scaled.h"

static const struct hash_seed the_seed = { 0x0123456789abcdefull, 0xfedcba9876543210ull };

/* Key number i: eight digits, so that its number can be read back. */
enum { KEY_SIZE = 8 };

static struct bytes key_of(size_t number, char room[24])
{
    snprintf(room, 24, "%08zu", number);
    return bytes_of(room, KEY_SIZE);
}

static size_t number_of(struct bytes key)
{
    size_t number = 0;

    assert_int_equal(key.size, KEY_SIZE);
    for (size_t i = 0; i < KEY_SIZE; i++)
        number = number * 10 + (size_t)(key.data[i] - '0');
    return number;
}

static bool put_number(struct dict *dict, size_t number)
{
    char room[24];

    return dict_put(dict, key_of(number, room), bytes_of(&number, sizeof(number)));
}

static bool remove_number(struct dict *dict, size_t number)
{
    char room[24];

    return dict_remove(dict, key_of(number, room));
}

static bool has_number(const struct dict *dict, size_t number)
{
    char room[24];
    struct bytes value;

    if (!dict_find(dict, key_of(number, room), &value))
        return false;
    assert_int_equal(value.size, sizeof(number));
    assert_memory_equal(value.data, &number, sizeof(number));
    return true;
}

static struct dict *dict_of_numbers(size_t count)
{
    struct dict *dict = dict_create(&the_seed);

    for (size_t i = 0; i < count; i++)
        assert_true(put_number(dict, i));
    return dict;
}

static void an_empty_dict_has_no_pairs(void **state)
{
    struct dict *dict = dict_create(&the_seed);
    struct dict_iterator iterator;
    struct bytes key, value;

    assert_int_equal(dict_count(dict), 0);
    assert_false(dict_find(dict, BYTES(""), &value));
    assert_false(dict_remove(dict, BYTES("x")));
    dict_iterate(&iterator, dict);
    assert_false(dict_next(&iterator, &key, &value));
    assert_int_equal(dict_scan(dict, 0, 10, NULL, NULL), 0);
    assert_in_range(dict_memory(dict, 0), 1, 200);
    dict_destroy(dict);
    dict_destroy(NULL);
}

static void keys_and_values_of_every_size_are_found(void **state)
{
    static const size_t sizes[] = { 0, 1, 126, 127, 128, 129, 16383, 16384, 100000, 2097152 };
    enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };
    struct dict *dict = dict_create(&the_seed);
    char *data = mem_alloc(2097152);
    struct bytes value;

    memset(data, 'k', 2097152);
    for (size_t shift = 0; shift < SIZES; shift++) {
        for (size_t i = 0; i < SIZES; i++)
            assert_int_equal(
                dict_put(dict, bytes_of(data, sizes[i]), bytes_of(data, sizes[(i + shift) % SIZES])), shift == 0);
        for (size_t i = 0; i < SIZES; i++) {
            assert_true(dict_find(dict, bytes_of(data, sizes[i]), &value));
            assert_true(bytes_equal(value, bytes_of(data, sizes[(i + shift) % SIZES])));
        }
    }
    assert_int_equal(dict_count(dict), SIZES);
    mem_free(data);
    dict_destroy(dict);
}

/* Beyond one bucket, one segment, and several sizes of the directory, up and down; all pairs are there at every size. */
static void nothing_is_lost_while_it_grows_and_shrinks(void **state)
{
    enum { COUNT = 30000 };
    struct dict *dict = dict_create(&the_seed);

    for (size_t i = 0; i < COUNT; i++) {
        assert_true(put_number(dict, i));
        assert_false(put_number(dict, i / 2));
        assert_int_equal(dict_count(dict), i + 1);
        if (i < 100 || i % 997 == 0) {
            for (size_t j = 0; j <= i + 10; j++)
                assert_int_equal(has_number(dict, j), j <= i);
        }
    }
    for (size_t i = COUNT; i-- > 0;) {
        assert_true(remove_number(dict, i));
        assert_false(remove_number(dict, i));
        assert_int_equal(dict_count(dict), i);
        if (i < 100 || i % 997 == 0) {
            for (size_t j = 0; j <= i + 10; j++)
                assert_int_equal(has_number(dict, j), j < i);
        }
    }
    assert_in_range(dict_memory(dict, 0), 1, 1000);
    dict_destroy(dict);
}

/* Across the sizes at which the table's structure changes: 256 buckets are 1536 pairs when it grows, 1024 when it shrinks. */
static void structure_changes_back_and_forth(void **state)
{
    static const size_t borders[] = { 8, 12, 24, 1024, 1536, 2048, 3072, 6144 };

    for (size_t i = 0; i < sizeof(borders) / sizeof(borders[0]); i++) {
        size_t low = borders[i] * 5 / 8 - 4, high = borders[i] + 20;
        struct dict *dict = dict_of_numbers(low);

        for (int round = 0; round < 5; round++) {
            for (size_t j = low; j < high; j++)
                assert_true(put_number(dict, j));
            for (size_t j = 0; j < high; j++)
                assert_true(has_number(dict, j));
            for (size_t j = high; j-- > low;)
                assert_true(remove_number(dict, j));
            for (size_t j = 0; j < high; j++)
                assert_int_equal(has_number(dict, j), j < low);
        }
        dict_destroy(dict);
    }
}

static void random_changes_match_a_plain_array(void **state)
{
    enum { NUMBERS = 5000 };
    static const size_t value_sizes[] = { 0, 1, 8, 100, 127, 128, 300 };

    for (uint64_t seed = 1; seed <= (uint64_t)scaled(10); seed++) {
        struct random random;
        struct hash_seed hash_seed = { seed, 0 };
        struct dict *dict = dict_create(&hash_seed);
        size_t *sizes = mem_zalloc(NUMBERS * sizeof(*sizes)), count = 0;       /* 0: absent, otherwise size + 1 */
        char *fills = mem_zalloc(NUMBERS), data[300];
        struct dict_iterator iterator;
        struct bytes key, value;
        uint64_t puts_of_10 = 5;

        print_message("seed %" PRIu64 "\n", seed);
        random_init(&random, seed);
        for (size_t step = 0; step < 60000; step++) {
            char room[24];
            size_t number = random_below(&random, NUMBERS), size = value_sizes[random_below(&random, 7)];

            if (step % 5000 == 0)
                puts_of_10 = random_below(&random, 11);
            key = key_of(number, room);
            if (random_below(&random, 10) < puts_of_10) {
                memset(data, (int)(step & 127), sizeof(data));
                assert_int_equal(dict_put(dict, key, bytes_of(data, size)), sizes[number] == 0);
                count += sizes[number] == 0;
                sizes[number] = size + 1;
                fills[number] = (char)(step & 127);
            } else if (random_below(&random, 4) > 0) {
                assert_int_equal(dict_remove(dict, key), sizes[number] > 0);
                count -= sizes[number] > 0;
                sizes[number] = 0;
            } else {
                assert_int_equal(dict_find(dict, key, &value), sizes[number] > 0);
                if (sizes[number] > 0) {
                    assert_int_equal(value.size, sizes[number] - 1);
                    if (value.size > 0) {
                        assert_int_equal(value.data[0], fills[number]);
                        assert_int_equal(value.data[value.size - 1], fills[number]);
                    }
                }
            }
            assert_int_equal(dict_count(dict), count);
        }
        dict_iterate(&iterator, dict);
        while (dict_next(&iterator, &key, &value)) {
            size_t number = number_of(key);

            assert_int_equal(value.size, sizes[number] - 1);
            sizes[number] = 0;
            count--;
        }
        assert_int_equal(count, 0);
        mem_free(sizes);
        mem_free(fills);
        dict_destroy(dict);
    }
}

static void a_reserved_dict_holds_all_and_shrinks_again(void **state)
{
    struct dict *dict = dict_create(&the_seed);
    size_t reserved;

    dict_reserve(dict, 20000);
    reserved = dict_memory(dict, 0);
    assert_true(reserved > 20000 / 6 * 64);
    for (size_t i = 0; i < 20000; i++)
        put_number(dict, i);
    for (size_t i = 0; i < 20000; i++)
        assert_true(has_number(dict, i));
    for (size_t i = 100; i < 20000; i++)
        assert_true(remove_number(dict, i));
    for (size_t i = 0; i < 100; i++)
        assert_true(has_number(dict, i));
    assert_true(dict_memory(dict, 0) < 100 * 80);
    dict_destroy(dict);
}

static void a_copy_is_equal_and_independent(void **state)
{
    static const size_t counts[] = { 0, 5, 100, 1536, 1537, 10000 };

    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        struct dict *dict = dict_of_numbers(counts[c]), *copy = dict_copy(dict);
        struct random random;
        struct bytes key, value;

        put_number(dict, 99999);
        assert_int_equal(dict_count(copy), counts[c]);
        assert_false(has_number(copy, 99999));
        for (size_t i = 0; i < counts[c]; i++)
            assert_true(has_number(copy, i));
        dict_destroy(dict);
        random_init(&random, 1);
        if (counts[c] > 0)
            dict_random(copy, &random, &key, &value);
        for (size_t i = 0; i < counts[c]; i++)
            assert_true(remove_number(copy, i));
        dict_destroy(copy);
    }
}

struct seen {
    uint16_t *times;
    size_t found;
};

static void see(void *context, struct bytes key, struct bytes value)
{
    struct seen *seen = context;

    seen->times[number_of(key)]++;
    seen->found++;
}

static void a_scan_of_an_unchanged_dict_finds_each_pair_once(void **state)
{
    for (size_t count = 0; count < 4000; count = count < 50 ? count + 1 : count * 5 / 4) {
        struct dict *dict = dict_of_numbers(count);
        struct seen seen = { mem_zalloc((count + 1) * sizeof(uint16_t)), 0 };
        uint64_t cursor = 0;
        size_t calls = 0;

        do {
            cursor = dict_scan(dict, cursor, 10, see, &seen);
            calls++;
        } while (cursor != 0);
        assert_int_equal(seen.found, count);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(seen.times[i], 1);
        assert_true(calls <= count / 10 + 1);
        mem_free(seen.times);
        dict_destroy(dict);
    }
}

/* Numbers below `stay` are there from the first call to the last; all others are added and removed in waves. */
static void a_scan_finds_every_pair_that_stays(void **state)
{
    enum { NUMBERS = 20000 };

    for (uint64_t seed = 1; seed <= (uint64_t)scaled(60); seed++) {
        struct random random;
        struct hash_seed hash_seed = { seed, 7 };
        struct dict *dict = dict_create(&hash_seed);
        struct seen seen = { mem_zalloc(NUMBERS * sizeof(uint16_t)), 0 };
        size_t stay, count_max;
        uint64_t cursor = 0;

        random_init(&random, seed);
        stay = 1 + random_below(&random, seed % 2 ? 1500 : 50);
        count_max = 1 + random_below(&random, 30);
        for (size_t i = 0; i < (seed % 3 ? stay : NUMBERS); i++)
            put_number(dict, i);
        do {
            size_t wave = random_below(&random, 6000), from = stay + random_below(&random, NUMBERS - stay);
            bool is_put = random_below(&random, 2);

            cursor = dict_scan(dict, cursor, 1 + random_below(&random, count_max), see, &seen);
            for (size_t i = from; i < from + wave && i < NUMBERS; i++) {
                if (is_put)
                    put_number(dict, i);
                else
                    remove_number(dict, i);
            }
        } while (cursor != 0);
        for (size_t i = 0; i < stay; i++) {
            if (seen.times[i] == 0)
                fail_msg("seed %" PRIu64 ": %zu of %zu was missed", seed, i, stay);
        }
        mem_free(seen.times);
        dict_destroy(dict);
    }
}

static void a_scan_continues_in_a_dict_rebuilt_with_the_same_seed(void **state)
{
    enum { NUMBERS = 5000 };
    struct dict *dict = dict_of_numbers(NUMBERS);
    struct seen seen = { mem_zalloc(NUMBERS * sizeof(uint16_t)), 0 };
    uint64_t cursor = 0;

    do {
        struct dict *again = dict_create(&the_seed);
        struct dict_iterator iterator;
        struct bytes key, value;

        cursor = dict_scan(dict, cursor, 100, see, &seen);
        dict_reserve(again, dict_count(dict));
        dict_iterate(&iterator, dict);
        while (dict_next(&iterator, &key, &value))
            dict_put(again, key, value);
        dict_destroy(dict);
        dict = again;
    } while (cursor != 0);
    for (size_t i = 0; i < NUMBERS; i++)
        assert_true(seen.times[i] > 0);
    mem_free(seen.times);
    dict_destroy(dict);
}

static void a_scan_from_any_cursor_is_safe_and_ends(void **state)
{
    struct dict *dict = dict_of_numbers(3000);
    struct seen seen = { mem_zalloc(3000 * sizeof(uint16_t)), 0 };
    struct random random;

    random_init(&random, 5);
    for (int i = 0; i < 1000; i++) {
        uint64_t cursor = i == 0 ? UINT64_MAX : random_next(&random) >> random_below(&random, 64);
        size_t calls = 0;

        while (cursor != 0) {
            cursor = dict_scan(dict, cursor, 500, see, &seen);
            assert_true(++calls < 20);
        }
    }
    mem_free(seen.times);
    dict_destroy(dict);
}

/* Chi-square: with 500 keys the sum is 499 on average with a deviation of 31.6; the seed is fixed. */
static void every_pair_is_equally_likely(void **state)
{
    enum { KEYS = 500, DRAWS = 200 };
    struct dict *dict = dict_of_numbers(3000);
    size_t drawn[KEYS] = { 0 };
    struct random random;
    double sum = 0;

    for (size_t i = KEYS; i < 3000; i++)
        remove_number(dict, i);
    random_init(&random, 42);
    for (size_t i = 0; i < KEYS * DRAWS; i++) {
        struct bytes key, value;

        dict_random(dict, &random, &key, &value);
        drawn[number_of(key)]++;
    }
    for (size_t i = 0; i < KEYS; i++)
        sum += ((double)drawn[i] - DRAWS) * ((double)drawn[i] - DRAWS) / DRAWS;
    assert_true(sum > 499 - 4 * 31.6 && sum < 499 + 4 * 31.6);
    dict_destroy(dict);
}

static void memory_is_small_and_the_estimate_is_close(void **state)
{
    struct dict *dict = dict_create(&the_seed);
    size_t exact, estimate, blocks = 0;
    char room[24];

    /* Two bytes of sizes, 8 of key, 6 of value: a block of 16; everything else is the table's. */
    for (size_t i = 0; i < 100000; i++)
        dict_put(dict, key_of(i, room), BYTES("123456"));
    exact = dict_memory(dict, 0);
    estimate = dict_memory(dict, 100);
    assert_true(estimate > exact * 8 / 10 && estimate < exact * 12 / 10);
    void *block = mem_alloc(16);
    blocks = 100000 * mem_size(block);
    mem_free(block);
    assert_true((exact - blocks) / 100000 <= 14);
    dict_destroy(dict);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_dict_has_no_pairs),
        cmocka_unit_test(keys_and_values_of_every_size_are_found),
        cmocka_unit_test(nothing_is_lost_while_it_grows_and_shrinks),
        cmocka_unit_test(structure_changes_back_and_forth),
        cmocka_unit_test(random_changes_match_a_plain_array),
        cmocka_unit_test(a_reserved_dict_holds_all_and_shrinks_again),
        cmocka_unit_test(a_copy_is_equal_and_independent),
        cmocka_unit_test(a_scan_of_an_unchanged_dict_finds_each_pair_once),
        cmocka_unit_test(a_scan_finds_every_pair_that_stays),
        cmocka_unit_test(a_scan_continues_in_a_dict_rebuilt_with_the_same_seed),
        cmocka_unit_test(a_scan_from_any_cursor_is_safe_and_ends),
        cmocka_unit_test(every_pair_is_equally_likely),
        cmocka_unit_test(memory_is_small_and_the_estimate_is_close),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
