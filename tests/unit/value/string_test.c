#include "support/unit.h"

#include <string.h>

#include "base/mem.h"
#include "value/string.h"

static struct value value_of(const char *text)
{
    return string_value(bytes_of_string(text));
}

static void assert_text(const struct value *value, const char *expected)
{
    char digits[TEXT_INT_SIZE];

    assert_true(bytes_equal(string_bytes(value, digits), bytes_of_string(expected)));
    assert_int_equal(string_size(value), strlen(expected));
}

static void canonical_integers_are_stored_as_numbers(void **state)
{
    static const char *const texts[] = { "0", "1", "-1", "1234567890", "9223372036854775807", "-9223372036854775808" };
    static const int64_t numbers[] = { 0, 1, -1, 1234567890, INT64_MAX, INT64_MIN };

    for (size_t i = 0; i < 6; i++) {
        struct value value = value_of(texts[i]);
        int64_t number;

        assert_int_equal(value.encoding, STRING_INT);
        assert_false(value_is_object(&value));
        assert_string_equal(value_encoding_name(&value), "int");
        assert_true(string_to_int(&value, &number));
        assert_true(number == numbers[i]);
        assert_text(&value, texts[i]);
        value = string_value_of_int(numbers[i]);
        assert_text(&value, texts[i]);
    }
}

static void everything_else_is_stored_unchanged(void **state)
{
    static const char *const texts[] = { "", "-", "-0", "007", "+1", " 1", "1 ", "1.5", "9223372036854775808", "abc" };

    for (size_t i = 0; i < 10; i++) {
        struct value value = value_of(texts[i]);
        int64_t number;

        assert_int_equal(value.encoding, STRING_EMBEDDED);
        assert_ptr_equal(value.bytes.data, texts[i]);           /* borrowed */
        assert_text(&value, texts[i]);
        assert_false(string_to_int(&value, &number));
        assert_int_equal(value_memory(&value, 0), 0);
        assert_int_equal(value_free_effort(&value), 0);
        value_free(&value);
    }
}

static void what_was_changed_in_place_is_raw_but_may_be_read_as_a_number(void **state)
{
    struct value value = string_value_raw(BYTES("12"));
    int64_t number;

    assert_int_equal(value.encoding, STRING_RAW);
    assert_string_equal(value_encoding_name(&value), "raw");
    assert_true(string_to_int(&value, &number));
    assert_int_equal(number, 12);
    value = string_value_raw(BYTES("12x"));
    assert_false(string_to_int(&value, &number));
}

static void size_decides_between_embstr_raw_and_big(void **state)
{
    static const size_t sizes[] = { 44, 45, 4096, 4097, 100000 };
    static const char *const names[] = { "embstr", "raw", "raw", "raw", "raw" };
    char *data = mem_alloc(100000), digits[TEXT_INT_SIZE];

    memset(data, 'x', 100000);
    for (size_t i = 0; i < 5; i++) {
        struct bytes bytes = bytes_of(data, sizes[i]);
        struct value value = string_value(bytes), raw = string_value_raw(bytes), copy = value_copy(&value);
        int64_t number;

        assert_string_equal(value_encoding_name(&value), names[i]);
        assert_int_equal(value_is_object(&value), sizes[i] > STRING_INLINE_MAX);
        assert_int_equal(value.encoding == STRING_BIG, raw.encoding == STRING_BIG);
        assert_true(bytes_equal(string_bytes(&value, digits), bytes));
        assert_true(bytes_equal(string_bytes(&raw, digits), bytes));
        assert_true(bytes_equal(string_bytes(&copy, digits), bytes));
        assert_false(string_to_int(&value, &number));
        if (value.encoding == STRING_BIG) {
            assert_true(value_memory(&value, 0) >= sizes[i] + sizeof(struct blob));
            assert_int_equal(value_free_effort(&value), 1);
            assert_true(blob_is_shared(value.object));          /* with the copy: changing one of them creates another blob */
            assert_false(blob_is_shared(raw.object));
        }
        value_free(&value);
        value_free(&raw);
        value_free(&copy);
    }
    mem_free(data);
}

static void types_have_the_names_of_redis(void **state)
{
    static const char *const names[] = { "string", "list", "set", "zset", "hash", "stream" };

    for (uint8_t type = 0; type < VALUE_TYPE_COUNT; type++)
        assert_string_equal(value_type_name(type), names[type]);
}

static void the_digest_depends_on_the_string_but_not_its_encoding(void **state)
{
    struct value values[] = { value_of("12"), string_value_raw(BYTES("12")), value_of("13"), value_of(""), value_of("a") };
    uint8_t digests[5][20];

    for (size_t i = 0; i < 5; i++)
        value_digest(&values[i], digests[i]);
    assert_memory_equal(digests[0], digests[1], 20);
    for (size_t i = 1; i < 5; i++)
        for (size_t j = i + 1; j < 5; j++)
            assert_memory_not_equal(digests[i], digests[j], 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canonical_integers_are_stored_as_numbers),
        cmocka_unit_test(everything_else_is_stored_unchanged),
        cmocka_unit_test(what_was_changed_in_place_is_raw_but_may_be_read_as_a_number),
        cmocka_unit_test(size_decides_between_embstr_raw_and_big),
        cmocka_unit_test(types_have_the_names_of_redis),
        cmocka_unit_test(the_digest_depends_on_the_string_but_not_its_encoding),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
