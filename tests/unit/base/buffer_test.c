#include "support/unit.h"

#include <string.h>

#include "base/buffer.h"

static void an_empty_buffer_holds_no_memory(void **state)
{
    struct buffer buffer;

    buffer_init(&buffer);
    assert_null(buffer.data);
    assert_int_equal(buffer.size, 0);
    assert_int_equal(buffer_bytes(&buffer).size, 0);
    buffer_append(&buffer, NULL, 0);
    assert_null(buffer.data);
    buffer_shrink(&buffer, 0);
    buffer_release(&buffer);
}

static void appended_bytes_are_kept_in_order(void **state)
{
    struct buffer buffer = { 0 };

    buffer_append(&buffer, "ab\0c", 4);
    buffer_append_bytes(&buffer, BYTES("-d"));
    buffer_append_u8(&buffer, 0xff);
    buffer_append_string(&buffer, "ef");
    buffer_append_format(&buffer, "<%d %s>", 42, "x");
    assert_true(bytes_equal(buffer_bytes(&buffer), BYTES("ab\0c-d\xff" "ef<42 x>")));
    buffer_release(&buffer);
    assert_null(buffer.data);
    buffer_append_string(&buffer, "again");
    assert_true(bytes_equal(buffer_bytes(&buffer), BYTES("again")));
    buffer_release(&buffer);
}

static void growth_keeps_the_contents(void **state)
{
    struct buffer buffer = { 0 };

    for (uint32_t i = 0; i < 1000000; i++)
        buffer_append(&buffer, &i, sizeof(i));
    assert_int_equal(buffer.size, 4000000);
    for (uint32_t i = 0; i < 1000000; i++) {
        uint32_t read;

        memcpy(&read, buffer.data + i * sizeof(read), sizeof(read));
        assert_int_equal(read, i);
    }
    buffer_release(&buffer);
}

/* Appending a megabyte byte by byte takes few reallocations, and the spare capacity is bounded. */
static void growth_is_geometric_and_bounded(void **state)
{
    struct buffer buffer = { 0 };
    size_t capacity = 0;
    int growths = 0;

    for (size_t i = 0; i < (8u << 20); i++) {
        buffer_append_u8(&buffer, (uint8_t)i);
        growths += buffer.capacity != capacity;
        capacity = buffer.capacity;
    }
    assert_true(growths < 40);
    assert_true(buffer.capacity <= buffer.size + buffer.size / 3);
    buffer_release(&buffer);
}

static void reserve_makes_room_for_all_bytes(void **state)
{
    struct buffer buffer = { 0 };
    char *at;

    buffer_append_string(&buffer, "abc");
    at = buffer_reserve(&buffer, 100000);
    assert_ptr_equal(at, buffer.data + 3);
    assert_true(buffer.capacity >= 100003);
    memset(at, 'x', 100000);
    assert_int_equal(buffer.size, 3);       /* the caller may change it */
    assert_memory_equal(buffer.data, "abc", 3);
    buffer_release(&buffer);
}

static void a_long_format_fits(void **state)
{
    struct buffer buffer = { 0 };
    char text[5000];

    memset(text, 'y', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    buffer_append_format(&buffer, "%s%s", text, text);
    assert_int_equal(buffer.size, 2 * (sizeof(text) - 1));
    assert_int_equal(buffer.data[0], 'y');
    assert_int_equal(buffer.data[buffer.size - 1], 'y');
    buffer_release(&buffer);
}

static void shrink_frees_only_unused_memory(void **state)
{
    struct buffer buffer = { 0 };
    size_t capacity;

    buffer_reserve(&buffer, 100000);
    buffer_append_string(&buffer, "abc");
    buffer_shrink(&buffer, 4096);
    assert_int_equal(buffer.capacity, 4096);
    assert_true(bytes_equal(buffer_bytes(&buffer), BYTES("abc")));

    memset(buffer_reserve(&buffer, 8000), 'x', 8000);
    buffer.size += 8000;
    capacity = buffer.capacity;
    buffer_shrink(&buffer, 4096);           /* in use */
    assert_int_equal(buffer.capacity, capacity);
    assert_int_equal(buffer.size, 8003);

    buffer.size = 0;
    buffer_shrink(&buffer, 4096);
    assert_null(buffer.data);
    assert_int_equal(buffer.capacity, 0);
    buffer_release(&buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_buffer_holds_no_memory),
        cmocka_unit_test(appended_bytes_are_kept_in_order),
        cmocka_unit_test(growth_keeps_the_contents),
        cmocka_unit_test(growth_is_geometric_and_bounded),
        cmocka_unit_test(reserve_makes_room_for_all_bytes),
        cmocka_unit_test(a_long_format_fits),
        cmocka_unit_test(shrink_frees_only_unused_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
