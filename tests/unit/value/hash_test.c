#include "support/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "containers/listpack.h"
#include "value/hash.h"

static const struct value_limits limits = { .hash_listpack_entries_max = 128, .hash_listpack_value_max = 64, .seed = { 3, 4 } };
static const struct value_limits tables_only = { .seed = { 5, 6 } };

static bool set(struct value *hash, const char *field, const char *value)
{
    return hash_set(hash, &limits, bytes_of_string(field), bytes_of_string(value));
}

static void assert_pair(const struct value *hash, const char *field, const char *expected)
{
    char digits[TEXT_INT_SIZE];
    struct bytes value;

    assert_true(hash_get(hash, bytes_of_string(field), &value, digits));
    assert_true(bytes_equal(value, bytes_of_string(expected)));
    assert_true(hash_has(hash, bytes_of_string(field)));
}

static void an_empty_hash_has_no_fields(void **state)
{
    struct value hash = hash_create();
    struct hash_iterator iterator;
    struct bytes field, value;
    char digits[TEXT_INT_SIZE];
    uint64_t cursor = 0;

    assert_int_equal(hash.type, VALUE_HASH);
    assert_string_equal(value_encoding_name(&hash), "listpack");
    assert_int_equal(hash_count(&hash), 0);
    assert_false(hash_get(&hash, BYTES("f"), &value, digits));
    assert_false(hash_has(&hash, BYTES("f")));
    assert_false(hash_delete(&hash, BYTES("f")));
    hash_iterate(&iterator, &hash);
    assert_false(hash_next(&iterator, &field, &value));
    assert_true(hash_scan(&hash, &cursor, 10, NULL, NULL));
    assert_int_equal(cursor, 0);
    value_free(&hash);
}

static void a_pack_over_a_lowered_limit_becomes_a_table_when_it_is_written(void **state)
{
    const struct value_limits lowered = { .hash_listpack_entries_max = 1, .hash_listpack_value_max = 64, .seed = { 3, 4 } };
    struct value hash = hash_create();

    assert_true(set(&hash, "a", "1"));
    assert_true(set(&hash, "b", "2"));
    assert_string_equal(value_encoding_name(&hash), "listpack");
    assert_false(hash_set(&hash, &lowered, BYTES("a"), BYTES("3")));
    assert_string_equal(value_encoding_name(&hash), "hashtable");
    assert_pair(&hash, "a", "3");
    assert_pair(&hash, "b", "2");
    value_free(&hash);
}

static void a_value_is_never_found_as_a_field(void **state)
{
    struct value hash = hash_create();

    assert_true(set(&hash, "a", "b"));
    assert_false(hash_has(&hash, BYTES("b")));
    assert_true(set(&hash, "b", "a"));
    assert_false(set(&hash, "a", "7"));
    assert_int_equal(hash_count(&hash), 2);
    assert_pair(&hash, "a", "7");
    assert_pair(&hash, "b", "a");
    assert_true(hash_delete(&hash, BYTES("a")));
    assert_int_equal(hash_count(&hash), 1);
    assert_pair(&hash, "b", "a");
    value_free(&hash);
}

static void it_becomes_a_table_beyond_its_entries_and_never_goes_back(void **state)
{
    struct value hash = hash_create();
    char field[16];

    for (int i = 0; i < 128; i++) {
        snprintf(field, sizeof(field), "%d", i);
        assert_true(set(&hash, field, "v"));
    }
    assert_string_equal(value_encoding_name(&hash), "listpack");
    assert_false(set(&hash, "5", "w"));
    assert_string_equal(value_encoding_name(&hash), "listpack");
    assert_true(set(&hash, "one more", "v"));
    assert_string_equal(value_encoding_name(&hash), "hashtable");
    assert_int_equal(hash_count(&hash), 129);
    assert_int_equal(value_free_effort(&hash), 130);
    assert_pair(&hash, "5", "w");
    assert_pair(&hash, "127", "v");
    for (int i = 0; i < 128; i++) {
        snprintf(field, sizeof(field), "%d", i);
        assert_true(hash_delete(&hash, bytes_of_string(field)));
    }
    assert_int_equal(hash_count(&hash), 1);
    assert_string_equal(value_encoding_name(&hash), "hashtable");
    value_free(&hash);
}

static void it_becomes_a_table_beyond_its_size_of_field_or_value(void **state)
{
    char sized[66];

    memset(sized, 'x', 65);
    sized[65] = '\0';
    for (int which = 0; which < 3; which++) {
        struct value hash = hash_create();

        assert_true(set(&hash, "f", sized + 1));            /* 64 bytes are within the limit */
        assert_true(set(&hash, sized + 1, "v"));
        assert_string_equal(value_encoding_name(&hash), "listpack");
        if (which == 0)
            assert_true(set(&hash, "g", sized));
        else if (which == 1)
            assert_true(set(&hash, sized, "v"));
        else
            assert_false(set(&hash, "f", sized));
        assert_string_equal(value_encoding_name(&hash), "hashtable");
        assert_pair(&hash, sized + 1, "v");
        assert_pair(&hash, "f", which == 2 ? sized : sized + 1);
        value_free(&hash);
    }
}

/* Field i has the value versions[i]; 0: it is not there. */
enum { FIELDS = 300 };

static void assert_same(const struct value *hash, const unsigned *versions)
{
    struct hash_iterator iterator;
    struct bytes field, value;
    size_t count = 0, seen = 0;
    char text[32];

    for (size_t i = 0; i < FIELDS; i++)
        count += versions[i] > 0;
    assert_int_equal(hash_count(hash), count);
    hash_iterate(&iterator, hash);
    while (hash_next(&iterator, &field, &value)) {
        int64_t number;

        assert_true(text_to_int(field, &number));
        snprintf(text, sizeof(text), "%u", versions[number]);
        assert_true(bytes_equal(value, bytes_of_string(text)));
        seen++;
    }
    assert_int_equal(seen, count);
}

static void random_changes_match_a_plain_array(void **state)
{
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct value hash = hash_create(), copy;
        unsigned versions[FIELDS] = { 0 };
        uint8_t digest[20], digest_copy[20];
        struct random random;

        print_message("seed %" PRIu64 "\n", seed);
        random_init(&random, seed);
        for (unsigned step = 1; step < 1500; step++) {
            size_t number = random_below(&random, seed % 3 ? FIELDS : 100);
            char field[32], value[32], digits[TEXT_INT_SIZE];
            struct bytes got;

            snprintf(field, sizeof(field), "%zu", number);
            snprintf(value, sizeof(value), "%u", step);
            switch (random_below(&random, 4)) {
            case 0:
            case 1:
                assert_int_equal(set(&hash, field, value), versions[number] == 0);
                versions[number] = step;
                break;
            case 2:
                assert_int_equal(hash_delete(&hash, bytes_of_string(field)), versions[number] > 0);
                versions[number] = 0;
                break;
            default: assert_int_equal(hash_get(&hash, bytes_of_string(field), &got, digits), versions[number] > 0);
            }
        }
        assert_same(&hash, versions);
        copy = value_copy(&hash);
        assert_same(&copy, versions);
        value_digest(&hash, digest);
        value_digest(&copy, digest_copy);
        assert_memory_equal(digest, digest_copy, 20);
        value_free(&hash);
        assert_same(&copy, versions);
        value_free(&copy);
    }
}

static void the_digest_ignores_only_order_and_encoding(void **state)
{
    struct value pack = hash_create(), table = hash_create(), other = hash_create();
    uint8_t digests[3][20];

    set(&pack, "a", "1");
    set(&pack, "bc", "d");
    hash_set(&table, &tables_only, BYTES("bc"), BYTES("d"));
    hash_set(&table, &tables_only, BYTES("a"), BYTES("1"));
    set(&other, "a", "1");
    set(&other, "b", "cd");
    assert_string_equal(value_encoding_name(&table), "hashtable");
    value_digest(&pack, digests[0]);
    value_digest(&table, digests[1]);
    value_digest(&other, digests[2]);
    assert_memory_equal(digests[0], digests[1], 20);
    assert_memory_not_equal(digests[0], digests[2], 20);
    hash_delete(&other, BYTES("b"));
    set(&other, "bc", "d");
    value_digest(&other, digests[2]);
    assert_memory_equal(digests[0], digests[2], 20);
    value_free(&pack);
    value_free(&table);
    value_free(&other);
}

/* Chi-square with 49 degrees of freedom: 49 on average, a deviation of 9.9; the seed is fixed. */
static void every_pair_is_equally_likely(void **state)
{
    enum { PAIRS = 50, DRAWS = 1000 };

    for (int is_table = 0; is_table < 2; is_table++) {
        struct value hash = hash_create();
        size_t drawn[PAIRS] = { 0 };
        struct random random;
        double sum = 0;

        for (int64_t i = 0; i < PAIRS; i++) {
            char text[TEXT_INT_SIZE];
            struct bytes bytes = bytes_of(text, text_of_int(i, text));

            hash_set(&hash, is_table ? &tables_only : &limits, bytes, bytes);
        }
        random_init(&random, 9);
        for (int i = 0; i < PAIRS * DRAWS; i++) {
            char field_digits[TEXT_INT_SIZE], value_digits[TEXT_INT_SIZE];
            struct bytes field, value;
            int64_t number;

            assert_true(hash_random(&hash, &random, &field, &value, field_digits, value_digits));
            assert_true(bytes_equal(field, value));
            assert_true(text_to_int(field, &number));
            drawn[number]++;
        }
        for (int i = 0; i < PAIRS; i++)
            sum += ((double)drawn[i] - DRAWS) * ((double)drawn[i] - DRAWS) / DRAWS;
        assert_true(sum > 49 - 4 * 9.9 && sum < 49 + 4 * 9.9);
        value_free(&hash);
    }
}

struct seen {
    uint32_t times[5000];
};

static void see(void *context, struct bytes field, struct bytes value)
{
    struct seen *seen = context;
    int64_t number;

    assert_true(text_to_int(field, &number));
    seen->times[number]++;
}

/* 50 fields stay; meanwhile the hash grows from a listpack to a table of thousands, and shrinks again. */
static void a_scan_finds_every_field_that_stays(void **state)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct value hash = hash_create();
        struct seen *seen = mem_zalloc(sizeof(*seen));
        struct random random;
        uint64_t cursor = 0;
        int64_t from = 50, to = seed % 2 ? 50 : 2000;

        random_init(&random, seed);
        for (int64_t i = 0; i < to; i++) {
            char text[TEXT_INT_SIZE];

            hash_set(&hash, &limits, bytes_of(text, text_of_int(i, text)), BYTES("v"));
        }
        do {
            assert_true(hash_scan(&hash, &cursor, 1 + random_below(&random, 20), see, seen));
            for (uint64_t i = random_below(&random, 300); i > 0; i--) {
                char text[TEXT_INT_SIZE];

                if (seed % 4 < 2 ? to < 5000 : to <= from && to < 5000)
                    hash_set(&hash, &limits, bytes_of(text, text_of_int(to++, text)), BYTES("v"));
                else if (to > from)
                    hash_delete(&hash, bytes_of(text, text_of_int(--to, text)));
            }
        } while (cursor != 0);
        for (int64_t i = 0; i < 50; i++) {
            if (seen->times[i] == 0)
                fail_msg("seed %" PRIu64 ": field %" PRId64 " was missed", seed, i);
        }
        mem_free(seen);
        value_free(&hash);
    }
}

static void building_from_untrusted_pairs_refuses_equal_fields(void **state)
{
    const struct value_limits *both[] = { &limits, &tables_only };
    struct value hash;

    for (int i = 0; i < 2; i++) {
        bool added;

        hash = hash_build(both[i], 3);
        assert_true(hash_build_add(&hash, both[i], BYTES("a"), BYTES("1")));
        assert_true(hash_build_add(&hash, both[i], BYTES("b"), BYTES("1")));
        assert_true(hash_build_end(&hash, both[i]));
        assert_int_equal(hash_count(&hash), 2);
        added = hash_build_add(&hash, both[i], BYTES("a"), BYTES("2"));
        assert_false(added && hash_build_end(&hash, both[i]));
        value_free(&hash);
    }
    /* Equal fields in the listpack, which are detected when it becomes a table. */
    hash = hash_build(&limits, 3);
    assert_true(hash_build_add(&hash, &limits, BYTES("a"), BYTES("1")));
    assert_true(hash_build_add(&hash, &limits, BYTES("a"), BYTES("2")));
    assert_false(hash_build_add(&hash, &limits, BYTES("c"),
        BYTES("longer than the sixty-four bytes that a value may have in a listpack")));
    value_free(&hash);
}

static enum status of_texts(const char *const *texts, size_t count, const struct value_limits *how, struct value *hash)
{
    struct listpack *pack = listpack_create();
    enum status status;

    for (size_t i = 0; i < count; i++)
        listpack_append(&pack, bytes_of_string(texts[i]));
    status = hash_of_listpack(listpack_bytes(pack), how, hash);
    listpack_destroy(pack);
    return status;
}

static void a_listpack_must_be_pairs_of_different_fields(void **state)
{
    static const char *const texts[] = { "a", "1", "b", "1", "a", "2" };
    const struct value_limits *both[] = { &limits, &tables_only };
    struct value hash;

    for (int i = 0; i < 2; i++) {
        assert_int_equal(of_texts(texts, 0, both[i], &hash), STATUS_CORRUPT);
        assert_int_equal(of_texts(texts, 3, both[i], &hash), STATUS_CORRUPT);
        assert_int_equal(of_texts(texts, 6, both[i], &hash), STATUS_CORRUPT);
        assert_int_equal(of_texts(texts, 4, both[i], &hash), STATUS_OK);
        assert_string_equal(value_encoding_name(&hash), i == 0 ? "listpack" : "hashtable");
        assert_int_equal(hash_count(&hash), 2);
        assert_pair(&hash, "b", "1");
        value_free(&hash);
        assert_int_equal(hash_of_listpack(BYTES("no listpack"), both[i], &hash), STATUS_CORRUPT);
    }
}

static void memory_is_counted_for_both_encodings(void **state)
{
    struct value hash = hash_create();
    size_t small;

    set(&hash, "field", "value");
    small = value_memory(&hash, 5);
    assert_in_range(small, 7 + 7 + 7, 64);
    assert_int_equal(value_free_effort(&hash), 1);
    for (int64_t i = 0; i < 1000; i++) {
        char text[TEXT_INT_SIZE];

        hash_set(&hash, &limits, bytes_of(text, text_of_int(i, text)), BYTES("twelve bytes"));
    }
    assert_in_range(value_memory(&hash, 0), 1000 * 24, 1000 * 60);
    assert_in_range(value_memory(&hash, 5), 1000 * 20, 1000 * 70);
    value_free(&hash);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_hash_has_no_fields),
        cmocka_unit_test(a_pack_over_a_lowered_limit_becomes_a_table_when_it_is_written),
        cmocka_unit_test(a_value_is_never_found_as_a_field),
        cmocka_unit_test(it_becomes_a_table_beyond_its_entries_and_never_goes_back),
        cmocka_unit_test(it_becomes_a_table_beyond_its_size_of_field_or_value),
        cmocka_unit_test(random_changes_match_a_plain_array),
        cmocka_unit_test(the_digest_ignores_only_order_and_encoding),
        cmocka_unit_test(every_pair_is_equally_likely),
        cmocka_unit_test(a_scan_finds_every_field_that_stays),
        cmocka_unit_test(building_from_untrusted_pairs_refuses_equal_fields),
        cmocka_unit_test(a_listpack_must_be_pairs_of_different_fields),
        cmocka_unit_test(memory_is_counted_for_both_encodings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
