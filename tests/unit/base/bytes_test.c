#include "support/unit.h"

#include "base/bytes.h"

static void a_literal_has_its_size_without_the_nul(void **state)
{
    struct bytes bytes = BYTES("a\0b");

    assert_int_equal(bytes.size, 3);
    assert_int_equal(BYTES("").size, 0);
    assert_int_equal(bytes_of_string("abc").size, 3);
}

static void equal_compares_every_byte(void **state)
{
    assert_true(bytes_equal(BYTES("abc"), bytes_of("abcd", 3)));
    assert_true(bytes_equal(BYTES("a\0b"), BYTES("a\0b")));
    assert_true(bytes_equal(BYTES(""), bytes_of(NULL, 0)));
    assert_false(bytes_equal(BYTES("a\0b"), BYTES("a\0c")));
    assert_false(bytes_equal(BYTES("abc"), BYTES("ab")));
    assert_false(bytes_equal(BYTES("abc"), BYTES("ABC")));
}

/* Both strings are in blocks of their own size, so that a sanitizer sees what is read beyond. */
static void equal_inline_agrees_with_equal_at_every_size(void **state)
{
    for (size_t size = 0; size <= 70; size++) {
        char *a = test_malloc(size > 0 ? size : 1), *b = test_malloc(size > 0 ? size : 1);

        memset(a, 'x', size);
        memcpy(b, a, size);
        assert_true(bytes_equal_inline(bytes_of(a, size), bytes_of(b, size)));
        assert_false(size > 0 && bytes_equal_inline(bytes_of(a, size), bytes_of(b, size - 1)));
        for (size_t at = 0; at < size; at++) {
            b[at] = 'y';
            assert_false(bytes_equal_inline(bytes_of(a, size), bytes_of(b, size)));
            b[at] = 'x';
        }
        test_free(a);
        test_free(b);
    }
    assert_true(bytes_equal_inline(bytes_of(NULL, 0), BYTES("")));
}

static void order_is_that_of_unsigned_bytes_and_a_prefix_is_first(void **state)
{
    assert_true(bytes_compare(BYTES("a"), BYTES("b")) < 0);
    assert_true(bytes_compare(BYTES("b"), BYTES("a")) > 0);
    assert_true(bytes_compare(BYTES("a"), BYTES("\xff")) < 0);
    assert_true(bytes_compare(BYTES("a"), BYTES("a\0")) < 0);
    assert_true(bytes_compare(BYTES("ab"), BYTES("a")) > 0);
    assert_true(bytes_compare(BYTES(""), BYTES("a")) < 0);
    assert_int_equal(bytes_compare(BYTES("abc"), BYTES("abc")), 0);
    assert_int_equal(bytes_compare(BYTES(""), bytes_of(NULL, 0)), 0);
}

static void words_match_in_any_case(void **state)
{
    assert_true(bytes_is(BYTES("get"), "GET"));
    assert_true(bytes_is(BYTES("GeT"), "get"));
    assert_true(bytes_is(BYTES(""), ""));
    assert_true(bytes_is(bytes_of(NULL, 0), ""));
    assert_false(bytes_is(bytes_of(NULL, 0), "a"));
    assert_false(bytes_is(BYTES("get"), "gets"));
    assert_false(bytes_is(BYTES("gets"), "get"));
    assert_false(bytes_is(BYTES("get\0"), "get"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_literal_has_its_size_without_the_nul),
        cmocka_unit_test(equal_compares_every_byte),
        cmocka_unit_test(equal_inline_agrees_with_equal_at_every_size),
        cmocka_unit_test(order_is_that_of_unsigned_bytes_and_a_prefix_is_first),
        cmocka_unit_test(words_match_in_any_case),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
