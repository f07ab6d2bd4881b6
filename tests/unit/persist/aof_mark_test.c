#include "persist/aof_mark.h"

#include "support/unit.h"

#include <string.h>

static const struct history_point point = {
    .offset = ((int64_t)1 << 62), .db = 2147483647,
    .identity = { "0123456789abcdef0123456789abcdef01234567", "fedcba9876543210fedcba9876543210fedcba98", (int64_t)1 << 62 },
};

static enum aof_mark_kind parse(const char *line, struct history_point *found)
{
    uint64_t size;

    return aof_mark_parse(bytes_of_string(line), found, &size);
}

static void what_is_printed_is_parsed(void **state)
{
    char line[AOF_MARK_SIZE];
    struct history_point found, none = point;
    size_t size = aof_mark_print(&point, line);

    (void)state;
    assert_in_range(size, 1, 159);
    assert_int_equal(parse(line, &found), AOF_MARK_STREAM);
    assert_int_equal(found.offset, point.offset);
    assert_int_equal(found.db, point.db);
    assert_memory_equal(&found.identity, &point.identity, sizeof(found.identity));
    none.db = -1;
    none.offset = 0;
    none.identity.second_offset = -1;
    aof_mark_print(&none, line);
    assert_int_equal(parse(line, &found), AOF_MARK_STREAM);
    assert_int_equal(found.db, -1);
    assert_int_equal(found.identity.second_offset, -1);
}

static void local_bytes_have_a_size(void **state)
{
    char line[AOF_MARK_LOCAL_SIZE];
    struct history_point found;
    size_t line_size = aof_mark_print_local(23, line);
    uint64_t size = 0;

    (void)state;
    assert_int_equal(aof_mark_parse(bytes_of(line, line_size), &found, &size), AOF_MARK_LOCAL);
    assert_int_equal(size, 23);
}

static void no_damaged_byte_is_taken_for_another_position(void **state)
{
    char line[AOF_MARK_SIZE];
    size_t size = aof_mark_print(&point, line);
    struct history_point found;
    uint64_t local;

    (void)state;
    for (size_t at = 8; at < size; at++) {
        for (int bit = 0; bit < 8; bit++) {
            line[at] = (char)(line[at] ^ (1 << bit));
            assert_int_equal(aof_mark_parse(bytes_of(line, size), &found, &local), AOF_MARK_BAD);
            line[at] = (char)(line[at] ^ (1 << bit));
        }
        assert_int_equal(aof_mark_parse(bytes_of(line, at), &found, &local), AOF_MARK_BAD);
    }
}

static void other_annotations_are_none(void **state)
{
    struct history_point found;

    (void)state;
    assert_int_equal(parse("#TS:1700000000\r\n", &found), AOF_MARK_NONE);
    assert_int_equal(parse("#\r\n", &found), AOF_MARK_NONE);
    assert_int_equal(parse("# STREAM:\r\n", &found), AOF_MARK_NONE);
    assert_int_equal(parse("#STREAM:\r\n", &found), AOF_MARK_BAD);
    assert_int_equal(parse("#LOCAL:1\r\n", &found), AOF_MARK_BAD);
}

static void positions_that_are_none_are_refused(void **state)
{
    static const char *const texts[] = {
        "", "0123456789abcdef0123456789abcdef01234567", "0123456789abcdef0123456789abcdef01234567 1 0",
        "0123456789abcdef0123456789abcdef0123456 1 0 fedcba9876543210fedcba9876543210fedcba98 -1",
        "0123456789abcdef0123456789abcdef0123456x 1 0 fedcba9876543210fedcba9876543210fedcba98 -1",
        "0123456789abcdef0123456789abcdef01234567 -1 0 fedcba9876543210fedcba9876543210fedcba98 -1",
        "0123456789abcdef0123456789abcdef01234567 1 -2 fedcba9876543210fedcba9876543210fedcba98 -1",
        "0123456789abcdef0123456789abcdef01234567 1 0 fedcba9876543210fedcba9876543210fedcba98 -2",
        "0123456789abcdef0123456789abcdef01234567 1 0 fedcba9876543210fedcba9876543210fedcba98 -1 0",
        "0123456789abcdef0123456789abcdef01234567 9223372036854775807 0 fedcba9876543210fedcba9876543210fedcba98 -1",
    };
    struct history_point found;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_false(aof_mark_parse_point(bytes_of_string(texts[i]), &found));
    assert_true(aof_mark_parse_point(
        BYTES("0123456789abcdef0123456789abcdef01234567 1 0 fedcba9876543210fedcba9876543210fedcba98 -1"), &found));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_printed_is_parsed),
        cmocka_unit_test(local_bytes_have_a_size),
        cmocka_unit_test(no_damaged_byte_is_taken_for_another_position),
        cmocka_unit_test(other_annotations_are_none),
        cmocka_unit_test(positions_that_are_none_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
