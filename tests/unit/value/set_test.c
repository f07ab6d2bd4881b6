#include "support/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "containers/intset.h"
#include "containers/listpack.h"
#include "value/set.h"

static const struct value_limits limits = { .set_intset_entries_max = 512, .set_listpack_entries_max = 128,
    .set_listpack_value_max = 64, .seed = { 3, 4 } };
static const struct value_limits tables_only = { .seed = { 5, 6 } };
static const struct value_limits packs_only = { .set_listpack_entries_max = 100000, .set_listpack_value_max = 100000,
    .seed = { 7, 8 } };
static const struct value_limits ints_too = { .set_intset_entries_max = 100000, .set_listpack_entries_max = 100000,
    .set_listpack_value_max = 100000, .seed = { 7, 8 } };
static const struct value_limits *const all_limits[] = { &limits, &tables_only, &packs_only, &ints_too };
enum { ALL_LIMITS = 4 };

static struct value create(const struct value_limits *how)
{
    return set_create(how, BYTES("1"), 1);
}

static bool add(struct value *set, const char *member)
{
    return set_add(set, &limits, bytes_of_string(member));
}

static bool add_number(struct value *set, const struct value_limits *how, int64_t number)
{
    char digits[TEXT_INT_SIZE];

    return set_add(set, how, bytes_of(digits, text_of_int(number, digits)));
}

static void assert_encoding(const struct value *set, const char *name)
{
    assert_string_equal(value_encoding_name(set), name);
}

static void an_empty_set_has_no_members(void **state)
{
    for (int i = 0; i < ALL_LIMITS; i++) {
        struct value set = create(all_limits[i]);
        struct set_iterator iterator;
        struct bytes member;
        uint64_t cursor = 0;

        assert_int_equal(set.type, VALUE_SET);
        assert_int_equal(set_count(&set), 0);
        assert_false(set_has(&set, BYTES("1")));
        assert_false(set_has(&set, BYTES("m")));
        assert_false(set_remove(&set, BYTES("1")));
        assert_false(set_remove(&set, BYTES("m")));
        set_iterate(&iterator, &set);
        assert_false(set_next(&iterator, &member));
        assert_true(set_scan(&set, &cursor, 10, NULL, NULL));
        assert_int_equal(cursor, 0);
        assert_true(set_sample(&set, NULL, 0, NULL, NULL));
        value_free(&set);
    }
}

static void the_first_member_and_the_count_choose_the_encoding(void **state)
{
    static const struct {
        const char *first;
        size_t count;
        const char *encoding;
    } rows[] = { { "1", 1, "intset" }, { "-5", 512, "intset" }, { "1", 513, "hashtable" }, { "a", 1, "listpack" },
        { "a", 128, "listpack" }, { "a", 129, "hashtable" }, { "01", 1, "listpack" }, { "", 1, "listpack" } };
    const struct value_limits small = { .set_intset_entries_max = 2, .set_listpack_entries_max = 5, .set_listpack_value_max = 9 };
    struct value set;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        set = set_create(&limits, bytes_of_string(rows[i].first), rows[i].count);
        assert_encoding(&set, rows[i].encoding);
        value_free(&set);
    }
    set = set_create(&small, BYTES("1"), 3);
    assert_encoding(&set, "listpack");
    set_expect(&set, &small, 5);
    assert_encoding(&set, "listpack");
    set_expect(&set, &small, 6);
    assert_encoding(&set, "hashtable");
    value_free(&set);
    set = set_create(&small, BYTES("1"), 2);
    assert_true(set_add(&set, &small, BYTES("7")));
    set_expect(&set, &small, 2);
    assert_encoding(&set, "intset");
    set_expect(&set, &small, 3);
    assert_encoding(&set, "hashtable");
    assert_true(set_has(&set, BYTES("7")));
    value_free(&set);
}

static void integers_become_a_table_beyond_the_intsets_entries(void **state)
{
    struct value set = create(&limits);

    for (int64_t i = 0; i < 512; i++)
        assert_true(add_number(&set, &limits, i * 1000));
    assert_encoding(&set, "intset");
    assert_false(add_number(&set, &limits, 5000));
    assert_encoding(&set, "intset");
    assert_int_equal(value_free_effort(&set), 1);
    assert_true(add_number(&set, &limits, -1));
    assert_encoding(&set, "hashtable");
    assert_int_equal(set_count(&set), 513);
    assert_int_equal(value_free_effort(&set), 514);
    assert_true(set_has(&set, BYTES("511000")));
    assert_true(set_has(&set, BYTES("-1")));
    for (int64_t i = 0; i < 512; i++) {
        char digits[TEXT_INT_SIZE];

        assert_true(set_remove(&set, bytes_of(digits, text_of_int(i * 1000, digits))));
    }
    assert_int_equal(set_count(&set), 1);
    assert_encoding(&set, "hashtable");
    value_free(&set);
}

static void integers_and_a_word_become_a_listpack_if_they_fit_one(void **state)
{
    char sized[66];

    memset(sized, 'x', 65);
    sized[65] = '\0';
    for (int count = 126; count <= 130; count++) {
        for (int is_long = 0; is_long < 2; is_long++) {
            struct value set = create(&limits);

            for (int64_t i = 0; i < count; i++)
                assert_true(add_number(&set, &limits, i));
            assert_encoding(&set, "intset");
            assert_true(add(&set, sized + (is_long ? 0 : 1)));
            assert_encoding(&set, count < 128 && !is_long ? "listpack" : "hashtable");
            assert_int_equal(set_count(&set), count + 1);
            assert_true(set_has(&set, BYTES("125")));
            assert_false(add(&set, sized + (is_long ? 0 : 1)));
            assert_false(add(&set, "0"));
            value_free(&set);
        }
    }
    /* The integers count, too: the longest are the smallest and the largest. */
    for (int which = 0; which < 3; which++) {
        const struct value_limits short_ones = { .set_intset_entries_max = 9, .set_listpack_entries_max = 9,
            .set_listpack_value_max = 3 };
        struct value set = create(&short_ones);

        add_number(&set, &short_ones, 5);
        add_number(&set, &short_ones, which == 0 ? -100 : which == 1 ? 1000 : 999);
        assert_true(set_add(&set, &short_ones, BYTES("x")));
        assert_encoding(&set, which == 2 ? "listpack" : "hashtable");
        value_free(&set);
    }
}

static void a_listpack_becomes_a_table_beyond_its_limits_and_never_goes_back(void **state)
{
    struct value set = create(&limits);
    char sized[66], member[16];

    memset(sized, 'x', 65);
    sized[65] = '\0';
    for (int i = 0; i < 127; i++) {
        snprintf(member, sizeof(member), "m%d", i);
        assert_true(add(&set, member));
    }
    assert_true(add(&set, "77"));
    assert_encoding(&set, "listpack");
    assert_false(add(&set, "m5"));
    assert_encoding(&set, "listpack");
    assert_true(add(&set, "one more"));
    assert_encoding(&set, "hashtable");
    assert_int_equal(set_count(&set), 129);
    assert_false(add(&set, "77"));
    value_free(&set);
    set = create(&limits);
    assert_true(add(&set, sized + 1));                  /* 64 bytes are within the limit */
    assert_encoding(&set, "listpack");
    assert_true(add(&set, sized));
    assert_encoding(&set, "hashtable");
    assert_true(set_remove(&set, bytes_of_string(sized)));
    assert_encoding(&set, "hashtable");
    value_free(&set);
}

static void members_that_only_look_like_integers_are_unchanged(void **state)
{
    static const char *const texts[] = { "007", "-0", "+1", " 1", "1 ", "9223372036854775808", "-9223372036854775808",
        "9223372036854775807", "1.0", "" };

    for (int i = 0; i < ALL_LIMITS; i++) {
        struct value set = create(all_limits[i]);

        set_add(&set, all_limits[i], BYTES("7"));
        for (size_t j = 0; j < sizeof(texts) / sizeof(texts[0]); j++)
            assert_true(set_add(&set, all_limits[i], bytes_of_string(texts[j])));
        for (size_t j = 0; j < sizeof(texts) / sizeof(texts[0]); j++)
            assert_true(set_has(&set, bytes_of_string(texts[j])));
        assert_false(set_has(&set, BYTES("0")));
        assert_int_equal(set_count(&set), 1 + sizeof(texts) / sizeof(texts[0]));
        value_free(&set);
    }
}

/* Member i: an integer or a word. */
enum { MEMBERS = 300 };

static struct bytes member_of(size_t i, bool words, char room[32])
{
    return bytes_of(room, (size_t)snprintf(room, 32, words && i % 3 == 0 ? "word %zu" : "%zu", i * i));
}

static void assert_same(const struct value *set, const bool *is_there, bool words)
{
    bool seen[MEMBERS] = { false };
    struct set_iterator iterator;
    struct bytes member;
    size_t count = 0, walked = 0;
    char room[32];

    for (size_t i = 0; i < MEMBERS; i++) {
        assert_int_equal(set_has(set, member_of(i, words, room)), is_there[i]);
        count += is_there[i];
    }
    assert_int_equal(set_count(set), count);
    set_iterate(&iterator, set);
    while (set_next(&iterator, &member)) {
        for (size_t i = 0; i < MEMBERS; i++)
            seen[i] |= bytes_equal(member, member_of(i, words, room));
        walked++;
    }
    assert_int_equal(walked, count);
    assert_memory_equal(seen, is_there, sizeof(seen));
}

static void random_changes_match_a_plain_array(void **state)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        const struct value_limits *how = all_limits[seed % ALL_LIMITS];
        struct value set = create(how), copy;
        bool is_there[MEMBERS] = { false }, words = seed % 8 < 4;
        uint8_t digest[20], digest_copy[20];
        struct random random;

        print_message("seed %" PRIu64 "\n", seed);
        random_init(&random, seed);
        for (int step = 0; step < 1000; step++) {
            size_t i = random_below(&random, seed % 3 ? MEMBERS : 90);
            char room[32];

            if (random_below(&random, 5) < 3) {
                assert_int_equal(set_add(&set, how, member_of(i, words, room)), !is_there[i]);
                is_there[i] = true;
            } else {
                assert_int_equal(set_remove(&set, member_of(i, words, room)), is_there[i]);
                is_there[i] = false;
            }
        }
        assert_same(&set, is_there, words);
        copy = value_copy(&set);
        value_digest(&set, digest);
        value_digest(&copy, digest_copy);
        assert_memory_equal(digest, digest_copy, 20);
        assert_string_equal(value_encoding_name(&set), value_encoding_name(&copy));
        value_free(&set);
        assert_same(&copy, is_there, words);
        value_free(&copy);
    }
}

static void the_digest_ignores_only_order_and_encoding(void **state)
{
    struct value sets[ALL_LIMITS];
    uint8_t digests[ALL_LIMITS][20], other[20];

    for (int i = 0; i < ALL_LIMITS; i++) {
        sets[i] = create(all_limits[i]);
        for (int64_t number = 0; number < 20; number++)
            add_number(&sets[i], all_limits[i], i % 2 ? number : 19 - number);
        value_digest(&sets[i], digests[i]);
        assert_memory_equal(digests[i], digests[0], 20);
    }
    for (int i = 0; i < ALL_LIMITS; i++) {
        set_remove(&sets[i], BYTES("7"));
        value_digest(&sets[i], other);
        assert_memory_not_equal(other, digests[0], 20);
        value_free(&sets[i]);
    }
}

/* Chi-square with 49 degrees of freedom: 49 on average, a deviation of 9.9; the seeds are fixed. */
enum { FEW = 50, DRAWS = 1000 };

static void assert_fair(const size_t *drawn)
{
    double sum = 0;

    for (int i = 0; i < FEW; i++)
        sum += ((double)drawn[i] - DRAWS) * ((double)drawn[i] - DRAWS) / DRAWS;
    assert_true(sum > 49 - 4 * 9.9 && sum < 49 + 4 * 9.9);
}

static struct value few(const struct value_limits *how)
{
    struct value set = create(how);

    for (int64_t i = 0; i < FEW; i++)
        add_number(&set, how, i);
    return set;
}

static void every_member_is_equally_likely(void **state)
{
    for (int i = 0; i < ALL_LIMITS; i++) {
        struct value set = few(all_limits[i]);
        size_t drawn[FEW] = { 0 };
        struct random random;

        random_init(&random, 9);
        for (int j = 0; j < FEW * DRAWS; j++) {
            char digits[TEXT_INT_SIZE];
            struct bytes member;
            int64_t number;

            assert_true(set_random(&set, &random, digits, &member));
            assert_true(text_to_int(member, &number));
            drawn[number]++;
        }
        assert_fair(drawn);
        value_free(&set);
    }
}

struct tally {
    size_t drawn[FEW], found;
    uint64_t last;          /* bits of the members of this sample */
};

static void tally(void *context, struct bytes member)
{
    struct tally *tally = context;
    int64_t number;

    assert_true(text_to_int(member, &number));
    assert_false(tally->last >> number & 1);
    tally->last |= 1ull << number;
    tally->drawn[number]++;
    tally->found++;
}

static void a_sample_has_different_members_and_is_fair(void **state)
{
    static const size_t sizes[] = { 1, 5, 16, 17, 25, 49 };

    for (int i = 0; i < ALL_LIMITS; i++) {
        struct value set = few(all_limits[i]);
        struct tally all = { .found = 0 };
        struct random random;

        random_init(&random, 10);
        for (size_t j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++) {
            struct tally sum = { .found = 0 };

            /* The larger the sample, the less its members vary: only the small ones get the chi-square test. */
            for (size_t k = 0; k < FEW * DRAWS / sizes[j]; k++) {
                sum.last = 0;
                assert_true(set_sample(&set, &random, sizes[j], tally, &sum));
            }
            assert_int_equal(sum.found, FEW * DRAWS / sizes[j] * sizes[j]);
            if (sizes[j] <= 5)
                assert_fair(sum.drawn);
            for (int k = 0; k < FEW; k++)
                assert_in_range(sum.drawn[k], DRAWS * 8 / 10, DRAWS * 12 / 10);
        }
        assert_true(set_sample(&set, &random, FEW, tally, &all));
        assert_int_equal(all.found, FEW);
        value_free(&set);
    }
}

struct seen {
    uint32_t times[5000];
};

static void see(void *context, struct bytes member)
{
    struct seen *seen = context;
    int64_t number;

    assert_true(text_to_int(member, &number));
    seen->times[number]++;
}

/* 50 members stay; meanwhile the set grows from an intset to a table of thousands, and shrinks again. */
static void a_scan_finds_every_member_that_stays(void **state)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct value set = create(&limits);
        struct seen *seen = mem_zalloc(sizeof(*seen));
        struct random random;
        uint64_t cursor = 0;
        int64_t from = 50, to = seed % 2 ? 50 : 2000;

        random_init(&random, seed);
        for (int64_t i = 0; i < to; i++)
            add_number(&set, &limits, i);
        do {
            assert_true(set_scan(&set, &cursor, 1 + random_below(&random, 20), see, seen));
            for (uint64_t i = random_below(&random, 300); i > 0; i--) {
                char text[TEXT_INT_SIZE];

                if (seed % 4 < 2 ? to < 5000 : to <= from && to < 5000)
                    add_number(&set, &limits, to++);
                else if (to > from) {
                    to--;
                    set_remove(&set, bytes_of(text, text_of_int(to, text)));
                }
            }
        } while (cursor != 0);
        for (int64_t i = 0; i < 50; i++) {
            if (seen->times[i] == 0)
                fail_msg("seed %" PRIu64 ": member %" PRId64 " was missed", seed, i);
        }
        mem_free(seen);
        value_free(&set);
    }
}

static void building_from_untrusted_members_refuses_equal_ones(void **state)
{
    static const char *const twins[][4] = { { "a", "b", "a", NULL }, { "1", "2", "1", NULL }, { "1", "a", "1", NULL } };

    for (int i = 0; i < ALL_LIMITS; i++) {
        for (size_t j = 0; j < sizeof(twins) / sizeof(twins[0]); j++) {
            struct value set = set_build(all_limits[i], 3);
            bool is_good;

            assert_true(set_build_add(&set, all_limits[i], bytes_of_string(twins[j][0])));
            assert_true(set_build_add(&set, all_limits[i], bytes_of_string(twins[j][1])));
            assert_true(set_build_end(&set, all_limits[i]));
            assert_int_equal(set_count(&set), 2);
            is_good = set_build_add(&set, all_limits[i], bytes_of_string(twins[j][2]));
            assert_false(is_good && set_build_end(&set, all_limits[i]));
            value_free(&set);
        }
    }
}

static void a_built_set_has_the_encoding_that_fits(void **state)
{
    char longer[65];
    struct value set = set_build(&limits, 600);

    assert_encoding(&set, "hashtable");
    value_free(&set);
    set = set_build(&limits, 3);
    assert_true(set_build_add(&set, &limits, BYTES("5")));
    assert_encoding(&set, "intset");
    assert_true(set_build_add(&set, &limits, BYTES("x")));
    assert_encoding(&set, "listpack");
    memset(longer, 'l', sizeof(longer));
    assert_true(set_build_add(&set, &limits, bytes_of(longer, sizeof(longer))));
    assert_encoding(&set, "hashtable");
    assert_int_equal(set_count(&set), 3);
    value_free(&set);
    /* More members are added than were announced. */
    set = set_build(&limits, 3);
    for (int64_t i = 0; i < 1000; i++) {
        char digits[TEXT_INT_SIZE];

        assert_true(set_build_add(&set, &limits, bytes_of(digits, text_of_int(i, digits))));
    }
    assert_encoding(&set, "hashtable");
    assert_int_equal(set_count(&set), 1000);
    value_free(&set);
}

static enum status of_texts(const char *const *texts, size_t count, const struct value_limits *how, struct value *set)
{
    struct listpack *pack = listpack_create();
    enum status status;

    for (size_t i = 0; i < count; i++)
        listpack_append(&pack, bytes_of_string(texts[i]));
    status = set_of_listpack(listpack_bytes(pack), how, set);
    listpack_destroy(pack);
    return status;
}

static void a_listpack_must_have_different_members(void **state)
{
    static const char *const texts[] = { "a", "1", "b", "1" };
    const struct value_limits *both[] = { &limits, &tables_only };
    struct value set;

    for (int i = 0; i < 2; i++) {
        assert_int_equal(of_texts(texts, 0, both[i], &set), STATUS_CORRUPT);
        assert_int_equal(of_texts(texts, 4, both[i], &set), STATUS_CORRUPT);
        assert_int_equal(of_texts(texts, 3, both[i], &set), STATUS_OK);
        assert_encoding(&set, i == 0 ? "listpack" : "hashtable");
        assert_int_equal(set_count(&set), 3);
        assert_true(set_has(&set, BYTES("1")));
        value_free(&set);
        assert_int_equal(set_of_listpack(BYTES("no listpack"), both[i], &set), STATUS_CORRUPT);
    }
}

static void an_intset_must_be_valid(void **state)
{
    const struct value_limits *both[] = { &limits, &tables_only };
    struct value set;

    for (int i = 0; i < 2; i++) {
        struct intset *ints = intset_create();

        assert_int_equal(set_of_intset(intset_bytes(ints), both[i], &set), STATUS_CORRUPT);
        assert_int_equal(set_of_intset(BYTES("no intset"), both[i], &set), STATUS_CORRUPT);
        intset_add(&ints, 5);
        intset_add(&ints, -70000);
        assert_int_equal(set_of_intset(intset_bytes(ints), both[i], &set), STATUS_OK);
        assert_encoding(&set, i == 0 ? "intset" : "hashtable");
        assert_int_equal(set_count(&set), 2);
        assert_true(set_has(&set, BYTES("-70000")));
        value_free(&set);
        intset_destroy(ints);
    }
}

static void memory_is_counted_for_all_encodings(void **state)
{
    struct value set = create(&limits);

    for (int64_t i = 0; i < 100; i++)
        add_number(&set, &limits, i);
    assert_in_range(value_memory(&set, 5), 208, 256);
    add(&set, "word");
    assert_in_range(value_memory(&set, 5), 211, 256);
    for (int i = 0; i < 1000; i++) {
        char text[TEXT_INT_SIZE];

        snprintf(text, sizeof(text), "fifteen byte%03u", (unsigned)i % 1000);
        add(&set, text);
    }
    /* A member of 15 bytes has a block of 16. */
    assert_encoding(&set, "hashtable");
#ifdef __SANITIZE_ADDRESS__
    assert_in_range(value_memory(&set, 0), 1000 * 16, 1000 * 60);
#else
    assert_in_range(value_memory(&set, 0), 1000 * 16, 1000 * 31);
#endif
    assert_in_range(value_memory(&set, 5), 1000 * 14, 1000 * 60);
    value_free(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_set_has_no_members),
        cmocka_unit_test(the_first_member_and_the_count_choose_the_encoding),
        cmocka_unit_test(integers_become_a_table_beyond_the_intsets_entries),
        cmocka_unit_test(integers_and_a_word_become_a_listpack_if_they_fit_one),
        cmocka_unit_test(a_listpack_becomes_a_table_beyond_its_limits_and_never_goes_back),
        cmocka_unit_test(members_that_only_look_like_integers_are_unchanged),
        cmocka_unit_test(random_changes_match_a_plain_array),
        cmocka_unit_test(the_digest_ignores_only_order_and_encoding),
        cmocka_unit_test(every_member_is_equally_likely),
        cmocka_unit_test(a_sample_has_different_members_and_is_fair),
        cmocka_unit_test(a_scan_finds_every_member_that_stays),
        cmocka_unit_test(building_from_untrusted_members_refuses_equal_ones),
        cmocka_unit_test(a_built_set_has_the_encoding_that_fits),
        cmocka_unit_test(a_listpack_must_have_different_members),
        cmocka_unit_test(an_intset_must_be_valid),
        cmocka_unit_test(memory_is_counted_for_all_encodings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
