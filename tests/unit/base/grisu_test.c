#include "support/unit.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grisu.h"
#include "base/random.h"
#include "support/seed.h"

enum { ROUNDS = 200000 };

static uint64_t seed;

static void has_digits(double number, const char *expected, int expected_point)
{
    char digits[GRISU_DIGITS_MAX];
    int point, count = grisu_digits(number, digits, &point);

    if (count != (int)strlen(expected) || memcmp(digits, expected, (size_t)count) != 0 || point != expected_point)
        fail_msg("%a: 0.%.*se%d", number, count, digits, point);
}

static void the_digits_of_most_are_the_fewest(void **state)
{
    has_digits(0.1, "1", 0);
    has_digits(1, "1", 1);
    has_digits(0.30000000000000004, "30000000000000004", 0);
    has_digits(1234567.125, "1234567125", 7);
    has_digits(1e21, "1", 22);
    has_digits(5e-324, "5", -323);
    has_digits(2.2250738585072014e-308, "22250738585072014", -307);
    has_digits(1.7976931348623157e308, "17976931348623157", 309);
}

/* As redis-server 7.2.6 replies. */
static void the_digits_of_some_are_those_of_redis(void **state)
{
    has_digits(1e23, "9999999999999999", 23);
    has_digits(5e22, "49999999999999996", 23);
    has_digits(5.653048773992378e-6, "56530487739923776", -5);
    has_digits(33719008674195.062, "33719008674195063", 14);
    has_digits(885075391457162.2, "8850753914571623", 15);
    has_digits(56729584832401912124.0, "56729584832401916", 20);
}

static void all_digits_read_back_the_same(void **state)
{
    struct random random;

    random_init(&random, seed);
    for (int i = 0; i < ROUNDS; i++) {
        char digits[GRISU_DIGITS_MAX], text[64];
        uint64_t bits = random_next(&random) >> 1;
        int point, count;
        double number;

        if (i % 4 == 0)
            bits &= ~0ULL << 52;        /* powers of two */
        memcpy(&number, &bits, sizeof(number));
        if (!isfinite(number) || number == 0)
            continue;
        count = grisu_digits(number, digits, &point);
        assert_in_range(count, 1, GRISU_DIGITS_MAX);
        snprintf(text, sizeof(text), "0.%.*se%d", count, digits, point);
        if (strtod(text, NULL) != number || digits[0] == '0')
            fail_msg("%a became %s (seed %" PRIu64 ")", number, text, seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_digits_of_most_are_the_fewest),
        cmocka_unit_test(the_digits_of_some_are_those_of_redis),
        cmocka_unit_test(all_digits_read_back_the_same),
    };

    seed = seed_new();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
