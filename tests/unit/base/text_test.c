#include "support/unit.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/text.h"

enum { ROUNDS = 200000 };

static const uint64_t seed = 20240611;

/* Integers */

static void int_is_written_as(int64_t number, const char *text)
{
    char out[TEXT_INT_SIZE];
    size_t size = text_of_int(number, out);
    int64_t back = 0;

    assert_int_equal(size, strlen(text));
    assert_memory_equal(out, text, size);
    assert_true(text_to_int(bytes_of(out, size), &back));
    assert_int_equal(back, number);
}

static void integers_are_written_and_read(void **state)
{
    int_is_written_as(0, "0");
    int_is_written_as(9, "9");
    int_is_written_as(10, "10");
    int_is_written_as(-1, "-1");
    int_is_written_as(-100, "-100");
    int_is_written_as(INT64_MAX, "9223372036854775807");
    int_is_written_as(INT64_MIN, "-9223372036854775808");
}

static void integers_of_every_size_agree_with_printf(void **state)
{
    struct random random;

    random_init(&random, seed);
    for (int i = 0; i < ROUNDS; i++) {
        char text[32];
        int64_t number = (int64_t)(random_next(&random) >> (i % 64));

        snprintf(text, sizeof(text), "%" PRId64, i % 2 == 0 ? number : -number);
        int_is_written_as(i % 2 == 0 ? number : -number, text);
    }
}

static void texts_that_are_not_strict_integers_are_refused(void **state)
{
    static const char *const bad[] = { "", "-", "+1", " 1", "1 ", "01", "-01", "-0", "00", "1a", "a", "0x1", "1.0",
        "9223372036854775808", "-9223372036854775809", "99999999999999999999", "-99999999999999999999", "--1" };
    int64_t number;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (text_to_int(bytes_of_string(bad[i]), &number))
            fail_msg("\"%s\" was taken for %" PRId64, bad[i], number);
    }
    assert_false(text_to_int(bytes_of("1\0", 2), &number));
    assert_false(text_to_int(bytes_of(NULL, 0), &number));
}

/* Doubles */

static void double_is_written_as(double number, const char *text)
{
    char out[TEXT_DOUBLE_SIZE];
    size_t size = text_of_double(number, out);

    assert_string_equal(out, text);
    assert_int_equal(size, strlen(text));
}

/* As redis-server 7.2.6 prints scores. */
static void doubles_have_the_formats_of_redis(void **state)
{
    double_is_written_as(0, "0");
    double_is_written_as(-0.0, "-0");
    double_is_written_as(3.0, "3");
    double_is_written_as(-17, "-17");
    double_is_written_as(0.1, "0.1");
    double_is_written_as(-0.3, "-0.3");
    double_is_written_as(0.30000000000000004, "0.30000000000000004");
    double_is_written_as(1.5, "1.5");
    double_is_written_as(1234567.125, "1234567.125");
    double_is_written_as(0.0001, "0.0001");
    double_is_written_as(0.000001, "0.000001");
    double_is_written_as(1e-7, "1e-7");
    double_is_written_as(1.5e-7, "1.5e-7");
    double_is_written_as(0.00012345678, "1.2345678e-4");
    double_is_written_as(0.0012345678, "0.0012345678");
    double_is_written_as(1e15, "1000000000000000");
    double_is_written_as(1e17, "100000000000000000");
    double_is_written_as(123456789012345680.0, "123456789012345680");
    double_is_written_as(9007199254740993.0, "9007199254740992");
    double_is_written_as(4611686018427387904.0, "4611686018427387904");
    double_is_written_as(9223372036854775807.0, "9223372036854776000");
    double_is_written_as(1e19, "1e+19");
    double_is_written_as(1e21, "1e+21");
    double_is_written_as(-1.5e300, "-1.5e+300");
    double_is_written_as(1.7976931348623157e308, "1.7976931348623157e+308");
    double_is_written_as(2.2250738585072014e-308, "2.2250738585072014e-308");
    double_is_written_as(5e-324, "5e-324");
    double_is_written_as(INFINITY, "inf");
    double_is_written_as(-INFINITY, "-inf");
    double_is_written_as(NAN, "nan");
    double_is_written_as(-NAN, "nan");
}

static double random_double(struct random *random)
{
    for (;;) {
        uint64_t bits = random_next(random);
        double number;

        if (random_below(random, 2) == 0)
            return (double)(int64_t)(bits >> 12) / 1000 * (bits & 1 ? 1 : -1);
        memcpy(&number, &bits, sizeof(number));
        if (isfinite(number))
            return number;
    }
}

static void doubles_read_back_the_same(void **state)
{
    struct random random;

    random_init(&random, seed);
    for (int i = 0; i < ROUNDS; i++) {
        double number = random_double(&random);
        double back;
        char out[TEXT_DOUBLE_SIZE];
        size_t size = text_of_double(number, out);

        if (strtod(out, NULL) != number)
            fail_msg("%a became %s (seed %" PRIu64 ")", number, out, seed);
        if (!text_to_double(bytes_of(out, size), &back) || back != number)
            fail_msg("%s was read as %a (seed %" PRIu64 ")", out, back, seed);
    }
}

static void double_is_read(const char *text, double expected)
{
    double number = -1;

    if (!text_to_double(bytes_of_string(text), &number))
        fail_msg("\"%s\" was refused", text);
    assert_memory_equal(&number, &expected, sizeof(number));    /* distinguishes -0 from 0 */
}

static void doubles_are_read(void **state)
{
    double_is_read("0", 0);
    double_is_read("-0", -0.0);
    double_is_read("1", 1);
    double_is_read("+1", 1);
    double_is_read(".5", 0.5);
    double_is_read("5.", 5);
    double_is_read("-.5", -0.5);
    double_is_read("000001.10", 1.1);
    double_is_read("0.1", 0.1);
    double_is_read("123456789.123456", 123456789.123456);
    double_is_read("0.000000000000001", 1e-15);
    double_is_read("999999999999999", 999999999999999);
    double_is_read("0.12345678901234567890123456789", 0.12345678901234567890123456789);
    double_is_read("1e5", 1e5);
    double_is_read("1E+5", 1e5);
    double_is_read("1e-320", 1e-320);
    double_is_read("0x10", 16);
    double_is_read("0x1p3", 8);
    double_is_read("inf", INFINITY);
    double_is_read("+inf", INFINITY);
    double_is_read("-INF", -INFINITY);
    double_is_read("Infinity", INFINITY);
}

static void short_decimals_are_read_as_strtod_reads_them(void **state)
{
    struct random random;

    random_init(&random, seed);
    for (int i = 0; i < ROUNDS; i++) {
        char text[40];
        double number = -1;

        snprintf(text, sizeof(text), "%s%" PRIu64 ".%0*" PRIu64, i % 2 == 0 ? "-" : "",
            random_next(&random) >> (20 + i % 44), 1 + i % 9, random_next(&random) >> (36 + i % 28));
        if (!text_to_double(bytes_of_string(text), &number) || number != strtod(text, NULL))
            fail_msg("%s was read as %a (seed %" PRIu64 ")", text, number, seed);
    }
}

static void texts_that_are_not_doubles_are_refused(void **state)
{
    static const char *const bad[] = { "", " 1", "1 ", "\t1", "-", "+", ".", "-.", "1e", "1e+", "0x", "1_", "1,5", "--1",
        "1.2.3", "nan", "-nan", "nan(1)", "infinit", "1e400", "-1e400", "1e-400", "abc" };
    char big[600];
    double number;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (text_to_double(bytes_of_string(bad[i]), &number))
            fail_msg("\"%s\" was taken for %g", bad[i], number);
    }
    assert_false(text_to_double(bytes_of("1e5\0", 4), &number));
    assert_false(text_to_double(bytes_of("1\0002", 3), &number));
    memset(big, '1', sizeof(big));
    assert_false(text_to_double(bytes_of(big, sizeof(big)), &number));
    memset(big, '0', sizeof(big) - 1);
    big[0] = '+';
    assert_true(text_to_double(bytes_of(big, sizeof(big)), &number));
    assert_true(number == 1);
}

static void long_double_becomes(const char *text, const char *expected)
{
    static char out[TEXT_LONG_DOUBLE_SIZE];
    long double number;
    size_t size;

    assert_true(text_to_long_double(bytes_of_string(text), &number));
    size = text_of_long_double(number, out);
    assert_string_equal(out, expected);
    assert_int_equal(size, strlen(expected));
}

static void long_doubles_are_written_as_incrbyfloat_does(void **state)
{
    long_double_becomes("3.0", "3");
    long_double_becomes("10", "10");
    long_double_becomes("3.0e3", "3000");
    long_double_becomes("0.1", "0.1");
    long_double_becomes("0.1000000000000000055", "0.10000000000000001");
    long_double_becomes("5e-18", "0");
    long_double_becomes("-1e-30", "0");
    long_double_becomes("-0.0", "0");
    long_double_becomes("9007199254740993", "9007199254740993");
    long_double_becomes("1e22", "10000000000000000000000");
    long_double_becomes("0x.8", "0.5");
    long_double_becomes("-INF", "-inf");
    long_double_becomes("inf", "inf");
}

static void the_largest_long_double_fits(void **state)
{
    static char out[TEXT_LONG_DOUBLE_SIZE];
    long double number;

    assert_true(text_to_long_double(BYTES("-1.18e4932"), &number));
    assert_int_equal(text_of_long_double(number, out), 4934);
}

static void texts_that_are_not_long_doubles_are_refused(void **state)
{
    static const char *const bad[] = { "", " 1", "1 ", "1e", "0x", "nan", "1e5000", "-1e5000", "1e-5000", "1,5" };
    char big[5121];
    long double number;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (text_to_long_double(bytes_of_string(bad[i]), &number))
            fail_msg("\"%s\" was taken for %Lg", bad[i], number);
    }
    memset(big, '0', sizeof(big));
    assert_true(text_to_long_double(bytes_of(big, 5119), &number));
    assert_false(text_to_long_double(bytes_of(big, 5120), &number));
}

/* Patterns */

struct pattern_row {
    struct bytes pattern;
    struct bytes text;
    bool matches;
};

/* Each row is the result of SET and KEYS in redis-server. */
static void patterns_match_as_keys_does(void **state)
{
    static const struct pattern_row rows[] = {
#define ROW(pattern, text, matches) { { pattern, sizeof(pattern) - 1 }, { text, sizeof(text) - 1 }, matches }
        ROW("", "", true), ROW("", "a", false), ROW("*", "", true), ROW("**", "", false), ROW("?", "", false),
        ROW("*", "abc", true), ROW("a*", "a", true), ROW("a*c", "abcbc", true), ROW("a*c", "abcb", false),
        ROW("*?", "a", true), ROW("a?c", "abc", true), ROW("a?c", "ac", false), ROW("a**b", "axxb", true),
        ROW("*a*b*", "xxaxxbxx", true), ROW("*a*b*", "xxbxxaxx", false), ROW("*ab", "aab", true),
        ROW("h[ae]llo", "hello", true), ROW("h[ae]llo", "hillo", false), ROW("h[^e]llo", "hallo", true),
        ROW("h[^e]llo", "hello", false), ROW("h[a-c]llo", "hbllo", true), ROW("[z-a]", "m", true),
        ROW("[\x80-\xff]", "\x90", true), ROW("[a-\xff]", "b", false), ROW("[a-\xff]", "A", true),
        ROW("[a-\xff]", "\xff", true), ROW("[a-\xff]", "\x80", false), ROW("[]", "]", false), ROW("[^]", "x", true),
        ROW("[", "[", false), ROW("[^", "x", true), ROW("[^", "^", true), ROW("[a", "a", true), ROW("[a-", "-", true),
        ROW("[a-]", "^", true), ROW("[a-]", "a", true), ROW("a\\", "a\\", true), ROW("[\\]]", "]", true),
        ROW("[\\]", "]", true), ROW("[\\]", "\\", false), ROW("[a\\", "\\", true), ROW("[\\a-c]", "b", false),
        ROW("[a-\\c]", "b", false), ROW("\\*", "*", true), ROW("\\*", "x", false), ROW("\\?", "?", true),
        ROW("[!a]", "b", false), ROW("[!a]", "!", true), ROW("*[^", "x", true), ROW("[^-z]", "-", false),
        ROW("\\", "\\", true), ROW("\\", "", false), ROW("a\\b", "ab", true), ROW("[^a-c]", "d", true),
        ROW("[a-c", "b", true), ROW("x[", "x", false), ROW("x[^", "x", false), ROW("[\\", "\\", true),
        ROW("[^\\", "\\", false), ROW("a\0*", "a\0b", true), ROW("?", "\0", true), ROW("A", "a", false),
#undef ROW
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (text_matches(rows[i].pattern, rows[i].text, TEXT_CASE_EXACT) != rows[i].matches)
            fail_msg("row %zu: \"%s\" and \"%s\"", i, rows[i].pattern.data, rows[i].text.data);
    }
}

static void case_can_be_ignored(void **state)
{
    assert_true(text_matches(BYTES("MAX*ory"), BYTES("maxmEMORY"), TEXT_CASE_IGNORED));
    assert_true(text_matches(BYTES("[A-C]x"), BYTES("bX"), TEXT_CASE_IGNORED));
    assert_true(text_matches(BYTES("[xyz]"), BYTES("Y"), TEXT_CASE_IGNORED));
    assert_true(text_matches(BYTES("\\A"), BYTES("a"), TEXT_CASE_IGNORED));
    assert_true(text_matches(BYTES("*LIST"), BYTES("ziplist"), TEXT_CASE_IGNORED));
    assert_false(text_matches(BYTES("MAX*ory"), BYTES("maxmEMORY"), TEXT_CASE_EXACT));
}

/* The plain definition, exponential, for short patterns. Classes are tested by the table above. */
static bool matches_by_definition(const char *pattern, const char *text)
{
    if (*pattern == '\0')
        return *text == '\0';
    if (*pattern == '*')
        return matches_by_definition(pattern + 1, text) || (*text != '\0' && matches_by_definition(pattern, text + 1));
    return *text != '\0' && (*pattern == '?' || *pattern == *text) && matches_by_definition(pattern + 1, text + 1);
}

static void stars_agree_with_the_definition(void **state)
{
    struct random random;

    random_init(&random, seed);
    for (int i = 0; i < ROUNDS; i++) {
        char pattern[9] = "", text[11] = "";
        size_t pattern_size = random_below(&random, 8), text_size = 1 + random_below(&random, 9);

        for (size_t j = 0; j < pattern_size; j++)
            pattern[j] = "ab?**"[random_below(&random, 5)];
        for (size_t j = 0; j < text_size; j++)
            text[j] = "ab"[random_below(&random, 2)];
        if (text_matches(bytes_of_string(pattern), bytes_of_string(text), TEXT_CASE_EXACT) !=
            matches_by_definition(pattern, text))
            fail_msg("\"%s\" and \"%s\" (seed %" PRIu64 ")", pattern, text, seed);
    }
}

/* With backtracking for every star this would take longer than the age of the universe. */
static void a_hostile_pattern_takes_bounded_time(void **state)
{
    char pattern[201], text[10000];

    for (size_t i = 0; i < 200; i += 2)
        memcpy(pattern + i, "a*", 2);
    pattern[200] = 'b';
    memset(text, 'a', sizeof(text));
    assert_false(text_matches(bytes_of(pattern, sizeof(pattern)), bytes_of(text, sizeof(text)), TEXT_CASE_EXACT));
    assert_false(text_matches(bytes_of(pattern, sizeof(pattern)), bytes_of(text, sizeof(text)), TEXT_CASE_IGNORED));
    text[sizeof(text) - 1] = 'b';
    assert_true(text_matches(bytes_of(pattern, sizeof(pattern)), bytes_of(text, sizeof(text)), TEXT_CASE_EXACT));
}

/* Sizes of memory */

static void memory_sizes_are_read_with_their_unit(void **state)
{
    static const struct { const char *text; uint64_t size; } rows[] = {
        { "0", 0 }, { "10", 10 }, { "00012", 12 }, { "1b", 1 }, { "1B", 1 }, { "1k", 1000 }, { "1Kb", 1024 },
        { "2m", 2000000 }, { "2MB", 2097152 }, { "3g", 3000000000 }, { "3gB", 3221225472 },
        { "18446744073709551615", UINT64_MAX },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t size = 1;

        if (!text_to_memory(bytes_of_string(rows[i].text), &size) || size != rows[i].size)
            fail_msg("\"%s\" became %" PRIu64, rows[i].text, size);
    }
}

static void texts_that_are_not_memory_sizes_are_refused(void **state)
{
    static const char *const bad[] = { "", "mb", "-1", "+1", " 1", "1 ", "1 k", "1kk", "1.5k", "1t", "1tb", "0x10", "1kbb",
        "18446744073709551616", "99999999999gb", "999999999999999999999999999999" };
    uint64_t size;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (text_to_memory(bytes_of_string(bad[i]), &size))
            fail_msg("\"%s\" became %" PRIu64, bad[i], size);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_written_and_read),
        cmocka_unit_test(integers_of_every_size_agree_with_printf),
        cmocka_unit_test(texts_that_are_not_strict_integers_are_refused),
        cmocka_unit_test(doubles_have_the_formats_of_redis),
        cmocka_unit_test(doubles_read_back_the_same),
        cmocka_unit_test(doubles_are_read),
        cmocka_unit_test(short_decimals_are_read_as_strtod_reads_them),
        cmocka_unit_test(texts_that_are_not_doubles_are_refused),
        cmocka_unit_test(long_doubles_are_written_as_incrbyfloat_does),
        cmocka_unit_test(the_largest_long_double_fits),
        cmocka_unit_test(texts_that_are_not_long_doubles_are_refused),
        cmocka_unit_test(patterns_match_as_keys_does),
        cmocka_unit_test(case_can_be_ignored),
        cmocka_unit_test(stars_agree_with_the_definition),
        cmocka_unit_test(a_hostile_pattern_takes_bounded_time),
        cmocka_unit_test(memory_sizes_are_read_with_their_unit),
        cmocka_unit_test(texts_that_are_not_memory_sizes_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
