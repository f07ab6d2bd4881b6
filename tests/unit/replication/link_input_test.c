#include "replication/link_input.h"

#include "support/unit.h"

#include <string.h>

#define MARK "0123456789012345678901234567890123456789"

/* The sessions that are cut anywhere are in tests/fuzz/link_fuzz.c; here is what the header promises, one by one. */

static enum link_event_kind next(struct link_input *input, struct bytes *in, struct link_event *event)
{
    *event = (struct link_event){ .total = -2 };
    return link_input_next(input, in, event);
}

static void expect_bytes(const struct link_event *event, const char *text)
{
    assert_int_equal(event->bytes.size, strlen(text));
    assert_memory_equal(event->bytes.data, text, event->bytes.size);
}

static void lines_end_with_a_newline_and_lose_one_return(void **state)
{
    struct link_input input;
    struct link_event event;
    struct bytes in = BYTES("\n\r\n+OK\r\n-ERR\n+cu"), more = BYTES("t\r\r\n");

    link_input_init(&input);
    assert_int_equal(next(&input, &in, &event), LINK_EVENT_ALIVE);
    assert_int_equal(next(&input, &in, &event), LINK_EVENT_ALIVE);
    assert_int_equal(next(&input, &in, &event), LINK_EVENT_LINE);
    expect_bytes(&event, "+OK");
    assert_int_equal(next(&input, &in, &event), LINK_EVENT_LINE);
    expect_bytes(&event, "-ERR");
    assert_int_equal(next(&input, &in, &event), LINK_EVENT_NONE);
    assert_int_equal(in.size, 0);
    assert_int_equal(next(&input, &more, &event), LINK_EVENT_LINE);
    expect_bytes(&event, "+cut\r");
}

static void a_line_that_is_too_long_is_bad_for_ever(void **state)
{
    struct link_input input;
    struct link_event event;
    char line[LINK_LINE_MAX + 1];
    struct bytes in = bytes_of(line, LINK_LINE_MAX), one = BYTES("x"), end = BYTES("\n+OK\r\n");

    memset(line, 'x', sizeof(line));
    link_input_init(&input);
    assert_int_equal(next(&input, &in, &event), LINK_EVENT_NONE);
    assert_int_equal(next(&input, &one, &event), LINK_EVENT_BAD);
    assert_string_equal(event.problem, "a line is too long");
    assert_int_equal(next(&input, &end, &event), LINK_EVENT_BAD);
    assert_string_equal(event.problem, "a line is too long");
}

static void headers_of_an_rdb(void **state)
{
    static const struct {
        const char *line;
        enum link_event_kind kind;
        int64_t total;
    } cases[] = {
        { "$0\r\n", LINK_EVENT_RDB_BEGIN, 0 },
        { "$12\n", LINK_EVENT_RDB_BEGIN, 12 },
        { "$9223372036854775807\r\n", LINK_EVENT_RDB_BEGIN, INT64_MAX },
        { "$EOF:" MARK "\r\n", LINK_EVENT_RDB_BEGIN, -1 },
        { "$IMAGE:0\r\n", LINK_EVENT_IMAGE_BEGIN, 0 },
        { "$IMAGE:77\r\n", LINK_EVENT_IMAGE_BEGIN, 77 },
        { "$IMAGE:\r\n", LINK_EVENT_BAD, -2 },
        { "$IMAGE:-1\r\n", LINK_EVENT_BAD, -2 },
        { "$IMAGE:9223372036854775808\r\n", LINK_EVENT_BAD, -2 },
        { "$9223372036854775808\r\n", LINK_EVENT_BAD, -2 },
        { "$-1\r\n", LINK_EVENT_BAD, -2 },
        { "$ 1\r\n", LINK_EVENT_BAD, -2 },
        { "$\r\n", LINK_EVENT_BAD, -2 },
        { "12\r\n", LINK_EVENT_BAD, -2 },
        { "$EOF:" MARK "x\r\n", LINK_EVENT_BAD, -2 },
        { "$EOF:short\r\n", LINK_EVENT_BAD, -2 },
        { "+OK\r\n", LINK_EVENT_BAD, -2 },
        { "-ERR no\r\n", LINK_EVENT_LINE, -2 },
        { "\n", LINK_EVENT_ALIVE, -2 },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct link_input input;
        struct link_event event;
        struct bytes in = bytes_of_string(cases[i].line);

        link_input_init(&input);
        link_input_expect_rdb(&input);
        assert_int_equal(next(&input, &in, &event), cases[i].kind);
        assert_int_equal(event.total, cases[i].total);
    }
}

static void an_empty_rdb_has_an_end(void **state)
{
    struct link_input input;
    struct link_event event;
    struct bytes in = BYTES("$0\r\n"), stream = BYTES("s");

    link_input_init(&input);
    link_input_expect_rdb(&input);
    assert_int_equal(next(&input, &in, &event), LINK_EVENT_RDB_BEGIN);
    assert_int_equal(next(&input, &in, &event), LINK_EVENT_RDB_END);
    assert_int_equal(next(&input, &stream, &event), LINK_EVENT_STREAM);
    expect_bytes(&event, "s");
}

/* All events of `in` are bytes of the RDB: appends them. */
static void expect_rdb_bytes(struct link_input *input, struct bytes in, const char *text)
{
    char got[100];
    size_t size = 0;
    struct link_event event;

    while (next(input, &in, &event) == LINK_EVENT_RDB_BYTES) {
        assert_true(size + event.bytes.size <= sizeof(got));
        memcpy(got + size, event.bytes.data, event.bytes.size);
        size += event.bytes.size;
    }
    assert_int_equal(in.size, 0);
    assert_int_equal(size, strlen(text));
    assert_memory_equal(got, text, size);
}

/* The mark repeats itself after ten bytes: what looked like its begin was data, but its last bytes are a begin again. */
static void the_begin_of_a_mark_can_be_data(void **state)
{
    struct link_input input;
    struct link_event event;
    struct bytes in = BYTES("$EOF:" MARK "\r\n");

    link_input_init(&input);
    link_input_expect_rdb(&input);
    assert_int_equal(next(&input, &in, &event), LINK_EVENT_RDB_BEGIN);
    expect_rdb_bytes(&input, BYTES("RDB0123456789012345"), "RDB");
    expect_rdb_bytes(&input, BYTES("0123456789"), "0123456789012345");
    expect_rdb_bytes(&input, BYTES("x"), "0123456789x");
    expect_rdb_bytes(&input, bytes_of(MARK, LINK_MARK_SIZE - 1), "");
    expect_rdb_bytes(&input, BYTES("x"), "012345678901234567890123456789012345678x");
    in = BYTES(MARK "s");
    assert_int_equal(next(&input, &in, &event), LINK_EVENT_RDB_END);
    assert_int_equal(next(&input, &in, &event), LINK_EVENT_STREAM);
    expect_bytes(&event, "s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_end_with_a_newline_and_lose_one_return),
        cmocka_unit_test(a_line_that_is_too_long_is_bad_for_ever),
        cmocka_unit_test(headers_of_an_rdb),
        cmocka_unit_test(an_empty_rdb_has_an_end),
        cmocka_unit_test(the_begin_of_a_mark_can_be_data),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
