#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "resp/request.h"

static const struct request_limits usual = { 512 << 20, INT32_MAX, 64 << 10, true };
static const struct request_limits stranger = { 512 << 20, INT32_MAX, 64 << 10, false };

/* The arguments as text, "<a><b>"; "..." when more is needed; the error's text. */
static void describe(const struct request_parser *parser, enum request_result result, struct buffer *out)
{
    if (result == REQUEST_MORE)
        buffer_append_string(out, "...");
    if (result == REQUEST_ERROR)
        buffer_append_string(out, parser->error);
    for (int i = 0; result == REQUEST_COMPLETE && i < parser->arg_count; i++) {
        buffer_append_string(out, "<");
        buffer_append_bytes(out, parser->args[i]);
        buffer_append_string(out, ">");
    }
}

/* Parses all requests of `input`, each followed by ';', up to the end or an error; the input arrives in pieces of
 * `step` bytes, at a different address each time. */
static void parse_all(const struct request_limits *limits, struct bytes input, size_t step, struct buffer *out)
{
    struct request_parser parser;
    size_t at = 0;              /* where the request begins */
    size_t size = 0;            /* how much of it has arrived */

    request_init(&parser);
    for (;;) {
        char *copy = malloc(size + 1);      /* the exact size, so that the sanitizer detects a read beyond it */
        char *exact = realloc(copy, size > 0 ? size : 1);
        size_t consumed = 0, wanted = 0;
        enum request_result result;

        memcpy(exact, input.data + at, size);
        result = request_parse(&parser, limits, exact, size, &consumed, &wanted);
        if (result == REQUEST_COMPLETE) {
            assert_in_range(consumed, 1, size);
            describe(&parser, result, out);
            buffer_append_string(out, ";");
            at += consumed;
            size -= consumed;
        }
        free(exact);
        if (result == REQUEST_ERROR || (result == REQUEST_MORE && at + size == input.size)) {
            describe(&parser, result, out);
            break;
        }
        if (result == REQUEST_MORE) {
            assert_true(wanted >= 1);
            size += input.size - at - size < step ? input.size - at - size : step;
        }
    }
    request_release(&parser);
}

static void gives_with(const struct request_limits *limits, struct bytes input, struct bytes expected)
{
    static const size_t steps[] = { SIZE_MAX, 1, 2, 3, 7 };

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct buffer out = { 0 };

        parse_all(limits, input, steps[i], &out);
        if (!bytes_equal(buffer_bytes(&out), expected))
            fail_msg("\"%.*s\" gave \"%.*s\" instead of \"%s\" in steps of %zu",
                (int)(input.size < 200 ? input.size : 200), input.data, (int)out.size, out.data, expected.data,
                steps[i]);
        buffer_release(&out);
    }
}

#define GIVES(input, expected) gives_with(&usual, BYTES(input), BYTES(expected))

static void arrays_of_bulks_are_parsed(void **state)
{
    GIVES("", "...");
    GIVES("*1\r\n$4\r\nPING\r\n", "<PING>;...");
    GIVES("*2\r\n$3\r\nGET\r\n$1\r\na\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$5\r\nx\r\n\0y\r\n",
        "<GET><a>;<SET><a><x\r\n\0y>;...");
    GIVES("*2\r\n$4\r\nPING\r\n$0\r\n\r\n", "<PING><>;...");
    GIVES("*1\r\n$12\r\n012345678901\r\n", "<012345678901>;...");
    GIVES("*2\r\n$3\r\nGET\r\n$1\r\na\r", "...");
    GIVES("*2\r\n$3\r\nGET\r\n", "...");
    GIVES("*1\r\n$4\r\nPIN", "...");
}

static void empty_requests_are_consumed_silently(void **state)
{
    GIVES("*0\r\n*-1\r\n*-5\r\n\r\n\n   \r\n*1\r\n$1\r\na\r\n", ";;;;;;<a>;...");
    GIVES("*-2147483649\r\n", ";...");
}

/* Each was sent to redis-server, with the same bytes. */
static void counts_are_read_strictly(void **state)
{
    static const char *const bad[] = { "*01\r\n", "*+1\r\n", "*1 \r\n", "* 1\r\n", "*\r\n", "*-0\r\n", "*abc\r\n",
        "*1a\r\n", "*1\n$4\r\nPING\r\n", "*2147483648\r\n", "*-9999999999999999999999\r\n", "*9999999999\r\n" };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        gives_with(&usual, bytes_of_string(bad[i]), BYTES("Protocol error: invalid multibulk length"));
    GIVES("*2147483647\r\n", "...");
}

static void lengths_are_read_strictly(void **state)
{
    static const char *const bad[] = { "$-1\r\n", "$ 4\r\n", "$04\r\n", "$+4\r\n", "$\r\n", "$4 \r\n", "$4\nPING\r\n",
        "$536870913\r\n", "$99999999999999999999\r\n", "$4x\r\n" };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct buffer input = { 0 };

        buffer_append_format(&input, "*2\r\n$1\r\na\r\n%s", bad[i]);
        gives_with(&usual, buffer_bytes(&input), BYTES("Protocol error: invalid bulk length"));
        buffer_release(&input);
    }
    GIVES("*1\r\n$536870912\r\n", "...");
}

static void a_bulk_begins_with_a_dollar(void **state)
{
    GIVES("*1\r\nxPING\r\n", "Protocol error: expected '$', got 'x'");
    GIVES("*1\r\n*1\r\n", "Protocol error: expected '$', got '*'");
    GIVES("*1\r\n\r\n", "Protocol error: expected '$', got ' '");
    GIVES("*1\r\n\n\r\n", "Protocol error: expected '$', got ' '");
    GIVES("*1\r\n'\r\n", "Protocol error: expected '$', got '''");
    GIVES("*1\r\n\xff\r\n", "Protocol error: expected '$', got '\xff'");
    GIVES("*1\r\n\0\r\n", "Protocol error: expected '$', got ' '");
    GIVES("*1\r\nx", "...");
}

/* Redis looks for the CR only, and accepts any byte after it. */
static void line_ends_are_checked_no_more_than_by_redis(void **state)
{
    GIVES("*1\r\n$4\r\nPINGxx*1\r\n$1\r\na\r\n", "<PING>;<a>;...");
    GIVES("*1\rx$4\ryPINGzz", "<PING>;...");
    GIVES("*1\r$4\r\nPING\r\n", "Protocol error: expected '$', got '4'");
}

static void unauthenticated_clients_have_low_limits(void **state)
{
    gives_with(&stranger, BYTES("*10\r\n"), BYTES("..."));
    gives_with(&stranger, BYTES("*11\r\n"), BYTES("Protocol error: unauthenticated multibulk length"));
    gives_with(&stranger, BYTES("*2147483648\r\n"), BYTES("Protocol error: invalid multibulk length"));
    gives_with(&stranger, BYTES("*1\r\n$16384\r\n"), BYTES("..."));
    gives_with(&stranger, BYTES("*1\r\n$16385\r\n"), BYTES("Protocol error: unauthenticated bulk length"));
    gives_with(&stranger, BYTES("*1\r\n$536870913\r\n"), BYTES("Protocol error: invalid bulk length"));
    gives_with(&stranger, BYTES("PING\r\n"), BYTES("<PING>;..."));
}

static void limits_are_set_by_the_caller(void **state)
{
    struct request_limits tight = { 10, 3, 64, true };

    gives_with(&tight, BYTES("*3\r\n"), BYTES("..."));
    gives_with(&tight, BYTES("*4\r\n"), BYTES("Protocol error: invalid multibulk length"));
    gives_with(&tight, BYTES("*1\r\n$10\r\n"), BYTES("..."));
    gives_with(&tight, BYTES("*1\r\n$11\r\n"), BYTES("Protocol error: invalid bulk length"));
}

/* `prefix`, then as many `fill` as make up `size` bytes, then `suffix`. */
static void long_line_gives(const char *prefix, char fill, size_t size, const char *suffix, struct bytes expected)
{
    struct buffer input = { 0 };
    struct buffer out = { 0 };

    for (int step = 0; step < 2; step++) {
        input.size = out.size = 0;
        buffer_append_string(&input, prefix);
        memset(buffer_reserve(&input, size), fill, size);
        input.size += size;
        buffer_append_string(&input, suffix);
        parse_all(&usual, buffer_bytes(&input), step == 0 ? SIZE_MAX : 1000, &out);
        if (!bytes_equal(buffer_bytes(&out), expected))
            fail_msg("%s with %zu: \"%.*s\"", prefix, size, (int)(out.size < 100 ? out.size : 100), out.data);
    }
    buffer_release(&input);
    buffer_release(&out);
}

static void lines_without_an_end_are_refused(void **state)
{
    long_line_gives("*", '1', 65535, "", BYTES("..."));
    long_line_gives("*", '1', 65536, "", BYTES("Protocol error: too big mbulk count string"));
    long_line_gives("*1\r\n$", '1', 65535, "", BYTES("..."));
    long_line_gives("*1\r\n$", '1', 65536, "", BYTES("Protocol error: too big bulk count string"));
    long_line_gives("*1\r\n", 'x', 65537, "", BYTES("Protocol error: too big bulk count string"));
    long_line_gives("", 'a', 65536, "", BYTES("..."));
    long_line_gives("", 'a', 65537, "", BYTES("Protocol error: too big inline request"));
    long_line_gives("*", '1', 65536, "\r\n", BYTES("Protocol error: too big mbulk count string"));
    long_line_gives("*", '1', 60000, "\r\n", BYTES("Protocol error: invalid multibulk length"));
    long_line_gives("*1\r\n$", '1', 60000, "\r\n", BYTES("Protocol error: invalid bulk length"));
    long_line_gives("", ' ', 65536, "\nx\n", BYTES(";<x>;..."));
    long_line_gives("", ' ', 65537, "\n", BYTES("Protocol error: too big inline request"));
}

/* Each was sent to redis-server; ECHO and PING showed the arguments. */
static void inline_commands_are_split(void **state)
{
    GIVES("PING\n", "<PING>;...");
    GIVES("PING\r\n", "<PING>;...");
    GIVES("PING\r\r\n", "<PING>;...");
    GIVES("PING", "...");
    GIVES("  set  a\tb \r \r\n", "<set><a><b>;...");
    GIVES("PI\rNG\r\n", "<PI><NG>;...");
    GIVES("a\x0b" "b\x0c" "c d\r\n", "<a\x0b" "b\x0c" "c><d>;...");
    GIVES("\x0b\x0c a\r\n", "<a>;...");
    GIVES("a\\nb\r\n", "<a\\nb>;...");
    GIVES("a\r\n*1\r\n$1\r\nb\r\nc\n", "<a>;<b>;<c>;...");
}

static void inline_quotes_are_removed(void **state)
{
    GIVES("PING \"a\\x41\\n\\q\\\"b\"\r\n", "<PING><aA\nq\"b>;...");
    GIVES("\"\\t\\a\\b\\v\\0\\\\\\r\"\r\n", "<\t\x07\x08v0\\\r>;...");
    GIVES("\"\\x4\" \"\\xzz\" \"\\xFFa\" \"\\x4g\"\r\n", "<x4><xzz><\xff" "a><x4g>;...");
    GIVES("'a\\'b\\n\"'\r\n", "<a'b\\n\">;...");
    GIVES("\"a'b\" '\"' '\\x41'\r\n", "<a'b><\"><\\x41>;...");
    GIVES("\"\" ''\r\n", "<><>;...");
    GIVES("\"\"\r\n", "<>;...");
    GIVES("a\"b\" c\r\n", "<ab><c>;...");
    GIVES("a'b c'\r\n", "<ab c>;...");
    GIVES("\"a\" \"b\"\x0b" "c\r\n", "<a><b><c>;...");
}

static void unbalanced_quotes_are_an_error(void **state)
{
    static const char *const bad[] = { "PING \"a\r\n", "PING 'a\r\n", "\"a\"b\r\n", "'a'b\r\n", "a\"b c\"d\r\n",
        "a\\\"b\r\n", "\"a\\\r\n", "\"a\\\"\r\n", "'\\\\'\r\n", "'a\\\r\n", "\"\"\"\"\r\n", "'\n", "x \"\n" };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        gives_with(&usual, bytes_of_string(bad[i]), BYTES("Protocol error: unbalanced quotes in request"));
}

static void arguments_point_into_the_data(void **state)
{
    static const char array[] = "*2\r\n$3\r\nGET\r\n$1\r\na\r\n";
    static const char line[] = "GET a\r\n";
    struct request_parser parser;
    size_t consumed, wanted;

    request_init(&parser);
    assert_int_equal(request_parse(&parser, &usual, array, sizeof(array) - 1, &consumed, &wanted), REQUEST_COMPLETE);
    assert_ptr_equal(parser.args[0].data, array + 8);
    assert_ptr_equal(parser.args[1].data, array + 17);
    assert_int_equal(consumed, sizeof(array) - 1);
    assert_int_equal(request_parse(&parser, &usual, line, sizeof(line) - 1, &consumed, &wanted), REQUEST_COMPLETE);
    assert_ptr_equal(parser.args[0].data, line);
    assert_ptr_equal(parser.args[1].data, line + 4);
    request_release(&parser);
}

static void the_wanted_size_is_what_is_missing_of_a_bulk(void **state)
{
    static const char data[] = "*1\r\n$100000\r\nabc";
    struct request_parser parser;
    size_t consumed, wanted;

    request_init(&parser);
    assert_int_equal(request_parse(&parser, &usual, data, sizeof(data) - 1, &consumed, &wanted), REQUEST_MORE);
    assert_int_equal(wanted, 100000 + 2 - 3);
    request_release(&parser);
}

static void after_an_error_a_parser_is_in_its_initial_state(void **state)
{
    static const char bad[] = "*2\r\n$1\r\na\r\nx\r\n";
    static const char good[] = "*1\r\n$1\r\na\r\n";
    struct request_parser parser;
    size_t consumed, wanted;

    request_init(&parser);
    assert_int_equal(request_parse(&parser, &usual, bad, sizeof(bad) - 1, &consumed, &wanted), REQUEST_ERROR);
    assert_int_equal(parser.arg_count, 0);
    assert_int_equal(request_parse(&parser, &usual, good, sizeof(good) - 1, &consumed, &wanted), REQUEST_COMPLETE);
    assert_int_equal(parser.arg_count, 1);
    request_release(&parser);
}

static void a_restarted_parser_starts_at_the_first_byte(void **state)
{
    static const char whole[] = "*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nECHO\r\n$100000\r\nabc";
    struct request_parser parser;
    size_t consumed = 0, wanted = 0;

    request_init(&parser);
    assert_int_equal(request_parse(&parser, &usual, whole, sizeof(whole) - 1, &consumed, &wanted), REQUEST_COMPLETE);
    assert_int_equal(request_parse(&parser, &usual, whole + consumed, sizeof(whole) - 1 - consumed, &consumed, &wanted),
        REQUEST_MORE);
    request_restart(&parser);
    assert_int_equal(request_parse(&parser, &usual, whole, sizeof(whole) - 1, &consumed, &wanted), REQUEST_COMPLETE);
    assert_int_equal(parser.arg_count, 1);
    assert_true(bytes_equal(parser.args[0], BYTES("PING")));
    request_release(&parser);
}

static void memory_follows_what_has_arrived_not_what_was_announced(void **state)
{
    static const char data[] = "*1000000000\r\n$1\r\na\r\n$400000000\r\n";
    struct request_parser parser;
    size_t consumed, wanted;

    request_init(&parser);
    assert_int_equal(request_parse(&parser, &usual, data, sizeof(data) - 1, &consumed, &wanted), REQUEST_MORE);
    assert_true(parser.arg_capacity <= 64);
    request_release(&parser);
}

static void the_memory_of_a_million_arguments_in_small_pieces_is_freed(void **state)
{
    enum { COUNT = 1 << 20, PIECE = 100 };
    struct buffer input = { 0 };
    struct request_parser parser;
    size_t consumed = 0, wanted;
    enum request_result result = REQUEST_MORE;
    char text[16];

    buffer_append_format(&input, "*%d\r\n", COUNT);
    for (int i = 0; i < COUNT; i++)
        buffer_append_format(&input, "$7\r\n%07d\r\n", i);
    request_init(&parser);
    for (size_t size = 0; size < input.size && result == REQUEST_MORE;) {
        size = size + PIECE < input.size ? size + PIECE : input.size;
        result = request_parse(&parser, &usual, input.data, size, &consumed, &wanted);
    }
    assert_int_equal(result, REQUEST_COMPLETE);
    assert_int_equal(consumed, input.size);
    assert_int_equal(parser.arg_count, COUNT);
    for (int i = 0; i < COUNT; i += 1001) {
        snprintf(text, sizeof(text), "%07d", i);
        assert_true(bytes_equal(parser.args[i], bytes_of_string(text)));
    }
    assert_int_equal(request_parse(&parser, &usual, "a\n", 2, &consumed, &wanted), REQUEST_COMPLETE);
    assert_true(parser.arg_capacity <= 1024);
    request_trim(&parser);
    assert_null(parser.args);
    assert_int_equal(request_parse(&parser, &usual, "b\n", 2, &consumed, &wanted), REQUEST_COMPLETE);
    assert_true(bytes_equal(parser.args[0], BYTES("b")));
    request_release(&parser);
    buffer_release(&input);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_of_bulks_are_parsed),
        cmocka_unit_test(empty_requests_are_consumed_silently),
        cmocka_unit_test(counts_are_read_strictly),
        cmocka_unit_test(lengths_are_read_strictly),
        cmocka_unit_test(a_bulk_begins_with_a_dollar),
        cmocka_unit_test(line_ends_are_checked_no_more_than_by_redis),
        cmocka_unit_test(unauthenticated_clients_have_low_limits),
        cmocka_unit_test(limits_are_set_by_the_caller),
        cmocka_unit_test(lines_without_an_end_are_refused),
        cmocka_unit_test(inline_commands_are_split),
        cmocka_unit_test(inline_quotes_are_removed),
        cmocka_unit_test(unbalanced_quotes_are_an_error),
        cmocka_unit_test(arguments_point_into_the_data),
        cmocka_unit_test(the_wanted_size_is_what_is_missing_of_a_bulk),
        cmocka_unit_test(after_an_error_a_parser_is_in_its_initial_state),
        cmocka_unit_test(a_restarted_parser_starts_at_the_first_byte),
        cmocka_unit_test(memory_follows_what_has_arrived_not_what_was_announced),
        cmocka_unit_test(the_memory_of_a_million_arguments_in_small_pieces_is_freed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
