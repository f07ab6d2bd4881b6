#include "support/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "resp/reply.h"

/* Checks what was written since the last call, and removes it. */
static void wrote(struct reply *reply, struct bytes expected)
{
    if (!bytes_equal(buffer_bytes(&reply->out), expected))
        fail_msg("\"%.*s\" instead of \"%.*s\"", (int)reply->out.size, reply->out.data, (int)expected.size,
            expected.data);
    reply->out.size = 0;
}

static int make(void **state)
{
    static struct reply replies[2];

    reply_init(&replies[0], 2);
    reply_init(&replies[1], 3);
    *state = replies;
    return 0;
}

static int unmake(void **state)
{
    struct reply *replies = *state;

    reply_release(&replies[0]);
    reply_release(&replies[1]);
    return 0;
}

static void lines_are_the_same_in_both_protocols(void **state)
{
    for (struct reply *reply = *state; reply < (struct reply *)*state + 2; reply++) {
        reply_ok(reply);
        wrote(reply, BYTES("+OK\r\n"));
        reply_status(reply, BYTES("PONG"));
        wrote(reply, BYTES("+PONG\r\n"));
        reply_error_text(reply, BYTES("ERR no"));
        wrote(reply, BYTES("-ERR no\r\n"));
        reply_integer(reply, 0);
        reply_integer(reply, 9);
        reply_integer(reply, -1);
        reply_integer(reply, 10);
        wrote(reply, BYTES(":0\r\n:9\r\n:-1\r\n:10\r\n"));
        reply_integer(reply, INT64_MIN);
        reply_integer(reply, INT64_MAX);
        wrote(reply, BYTES(":-9223372036854775808\r\n:9223372036854775807\r\n"));
    }
}

/* As Redis replies to EVAL "return redis.error_reply('ERR a\r\nb')" and similar. */
static void the_text_of_a_line_cannot_end_it(void **state)
{
    struct reply *reply = *state;

    reply_error_text(reply, BYTES("ERR a\r\nb"));
    wrote(reply, BYTES("-ERR a  b\r\n"));
    reply_error_text(reply, BYTES("ERR a\r\n"));
    wrote(reply, BYTES("-ERR a\r\n"));
    reply_error_text(reply, BYTES("\r\n"));
    wrote(reply, BYTES("-\r\n"));
    reply_status(reply, BYTES("a\r\n:1\n"));
    wrote(reply, BYTES("+a  :1 \r\n"));
    reply_big_number(reply + 1, BYTES("1\r\n2"));
    wrote(reply + 1, BYTES("(1  2\r\n"));
}

static void bulks_are_the_same_in_both_protocols(void **state)
{
    char big[1000];

    memset(big, 'x', sizeof(big));
    for (struct reply *reply = *state; reply < (struct reply *)*state + 2; reply++) {
        char *at;

        reply_bulk(reply, BYTES("a\r\n\0b"));
        wrote(reply, BYTES("$5\r\na\r\n\0b\r\n"));
        reply_bulk(reply, bytes_of(NULL, 0));
        wrote(reply, BYTES("$0\r\n\r\n"));
        reply_bulk(reply, BYTES("0123456789"));
        wrote(reply, BYTES("$10\r\n0123456789\r\n"));
        reply_bulk(reply, bytes_of(big, sizeof(big)));
        assert_int_equal(reply->out.size, 7 + sizeof(big) + 2);
        assert_memory_equal(reply->out.data, "$1000\r\nx", 8);
        assert_memory_equal(reply->out.data + reply->out.size - 3, "x\r\n", 3);
        reply->out.size = 0;
        reply_bulk_string(reply, "abc");
        wrote(reply, BYTES("$3\r\nabc\r\n"));
        reply_bulk_integer(reply, -42);
        wrote(reply, BYTES("$3\r\n-42\r\n"));
        reply_bulk_format(reply, "%s:%d", "k", 12);
        wrote(reply, BYTES("$4\r\nk:12\r\n"));
        reply_bulk_format(reply, "%s", "");
        wrote(reply, BYTES("$0\r\n\r\n"));
        at = reply_bulk_reserve(reply, 3);
        memcpy(at, "xyz", 3);
        wrote(reply, BYTES("$3\r\nxyz\r\n"));
        assert_non_null(reply_bulk_reserve(reply, 0));
        wrote(reply, BYTES("$0\r\n\r\n"));
    }
}

/* Many of them, so that the buffer grows at every position at which a reply can begin. */
static void replies_of_a_pipeline_follow_each_other(void **state)
{
    struct reply *reply = *state;
    size_t at = 0;

    for (int i = 0; i < 20000; i++) {
        reply_bulk(reply, bytes_of("abcdefghijklmnopqrstuvwxyz", (size_t)(i % 10)));
        reply_integer(reply, i % 10);
        reply_ok(reply);
    }
    for (int i = 0; i < 20000; i++) {
        char expected[64];
        struct buffer *out = &reply->out;
        int size = i % 10;

        memcpy(expected, "$0\r\n", 4);
        expected[1] = (char)('0' + size);
        memcpy(expected + 4, "abcdefghij", (size_t)size);
        memcpy(expected + 4 + size, "\r\n:0\r\n+OK\r\n", 11);
        expected[4 + size + 3] = (char)('0' + size);
        assert_memory_equal(out->data + at, expected, (size_t)size + 15);
        at += (size_t)size + 15;
    }
    assert_int_equal(reply->out.size, at);
}

static void types_of_resp3_fall_back_in_resp2(void **state)
{
    struct reply *reply = *state;

    reply_null(reply);
    reply_null_array(reply);
    wrote(reply, BYTES("$-1\r\n*-1\r\n"));
    reply_array(reply, 12);
    reply_map(reply, 2);
    reply_set(reply, 3);
    reply_push(reply, 4);
    wrote(reply, BYTES("*12\r\n*4\r\n*3\r\n*4\r\n"));
    reply_double(reply, 0.1);
    reply_double(reply, -INFINITY);
    wrote(reply, BYTES("$3\r\n0.1\r\n$4\r\n-inf\r\n"));
    reply_bool(reply, true);
    reply_bool(reply, false);
    wrote(reply, BYTES(":1\r\n:0\r\n"));
    reply_big_number(reply, BYTES("1234567999999999999999999999999999999"));
    wrote(reply, BYTES("$37\r\n1234567999999999999999999999999999999\r\n"));
    reply_verbatim(reply, "txt", BYTES("a\nb"));
    wrote(reply, BYTES("$3\r\na\nb\r\n"));
}

static void types_of_resp3_are_written_in_resp3(void **state)
{
    struct reply *reply = (struct reply *)*state + 1;

    reply_null(reply);
    reply_null_array(reply);
    wrote(reply, BYTES("_\r\n_\r\n"));
    reply_array(reply, 12);
    reply_map(reply, 2);
    reply_set(reply, 3);
    reply_push(reply, 4);
    reply_attribute(reply, 1);
    wrote(reply, BYTES("*12\r\n%2\r\n~3\r\n>4\r\n|1\r\n"));
    reply_double(reply, 3.0);
    reply_double(reply, 1e21);
    reply_double(reply, INFINITY);
    reply_double(reply, NAN);
    wrote(reply, BYTES(",3\r\n,1e+21\r\n,inf\r\n,nan\r\n"));
    reply_bool(reply, true);
    reply_bool(reply, false);
    wrote(reply, BYTES("#t\r\n#f\r\n"));
    reply_big_number(reply, BYTES("1234567999999999999999999999999999999"));
    wrote(reply, BYTES("(1234567999999999999999999999999999999\r\n"));
    reply_verbatim(reply, "txt", BYTES("a\nb"));
    wrote(reply, BYTES("=7\r\ntxt:a\nb\r\n"));
}

static void a_count_can_be_stated_later(void **state)
{
    static const size_t counts[] = { 0, 1, 9, 10, 99, 100, 12345 };
    struct reply *reply = *state;

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        struct reply expected;
        struct reply_later later;

        reply_init(&expected, 2);
        reply_ok(&expected);
        reply_array(&expected, counts[i]);
        reply_ok(reply);
        later = reply_later_begin(reply);
        for (size_t j = 0; j < counts[i]; j++) {
            reply_integer(reply, (int64_t)j);
            reply_integer(&expected, (int64_t)j);
        }
        reply_later_array(reply, later, counts[i]);
        reply_ok(reply);
        reply_ok(&expected);
        wrote(reply, buffer_bytes(&expected.out));
        reply_release(&expected);
    }
}

static void later_counts_nest(void **state)
{
    struct reply *two = *state;
    struct reply *three = two + 1;

    for (struct reply *reply = two; reply <= three; reply++) {
        struct reply_later outer = reply_later_begin(reply);
        struct reply_later inner = reply_later_begin(reply);

        for (int i = 0; i < 11; i++)
            reply_ok(reply);
        reply_later_set(reply, inner, 11);
        inner = reply_later_begin(reply);
        reply_later_map(reply, inner, 0);
        inner = reply_later_begin(reply);
        for (int i = 0; i < 2; i++)
            reply_integer(reply, i);
        reply_later_map(reply, inner, 1);
        reply_later_array(reply, outer, 3);
    }
#define OK11 "+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n"
    wrote(two, BYTES("*3\r\n*11\r\n" OK11 "*0\r\n*2\r\n:0\r\n:1\r\n"));
    wrote(three, BYTES("*3\r\n~11\r\n" OK11 "%0\r\n%1\r\n:0\r\n:1\r\n"));
#undef OK11
}

static void a_long_string_is_held_if_the_reader_sends_shares(void **state)
{
    struct reply *reply = *state;
    struct blob *blob = blob_create(REPLY_SHARE_MIN);
    struct reply_later later;
    char header[32];
    int size = snprintf(header, sizeof(header), "$%d\r\n", REPLY_SHARE_MIN);

    memset(blob->buffer.data, 'x', REPLY_SHARE_MIN);
    blob->buffer.size = REPLY_SHARE_MIN;
    reply_bulk_blob(reply, blob);               /* copied */
    assert_false(blob_is_shared(blob));
    assert_int_equal(reply_size(reply), size + REPLY_SHARE_MIN + 2);
    reply_truncate(reply, 0);
    reply->may_share = true;
    later = reply_later_begin(reply);
    reply_bulk_blob(reply, blob);
    assert_true(blob_is_shared(blob));
    reply_later_array(reply, later, 100);       /* the header is longer than the gap: what follows is moved */
    assert_int_equal(reply->share_count, 1);
    assert_int_equal(reply->shares[0].offset, 6 + size);
    assert_int_equal(reply_size(reply), 6 + size + REPLY_SHARE_MIN + 2);
    assert_memory_equal(reply->out.data, "*100\r\n", 6);
    reply_bulk_blob(reply, blob);
    reply_truncate(reply, 6 + (size_t)size + 2);       /* the second one is removed, and its hold released */
    assert_int_equal(reply->share_count, 1);
    assert_int_equal(reply->shared_size, REPLY_SHARE_MIN);
    reply_truncate(reply, 0);
    assert_false(blob_is_shared(blob));
    assert_int_equal(reply_size(reply), 0);
    blob_release(blob);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_are_the_same_in_both_protocols, make, unmake),
        cmocka_unit_test_setup_teardown(the_text_of_a_line_cannot_end_it, make, unmake),
        cmocka_unit_test_setup_teardown(bulks_are_the_same_in_both_protocols, make, unmake),
        cmocka_unit_test_setup_teardown(replies_of_a_pipeline_follow_each_other, make, unmake),
        cmocka_unit_test_setup_teardown(types_of_resp3_fall_back_in_resp2, make, unmake),
        cmocka_unit_test_setup_teardown(types_of_resp3_are_written_in_resp3, make, unmake),
        cmocka_unit_test_setup_teardown(a_count_can_be_stated_later, make, unmake),
        cmocka_unit_test_setup_teardown(later_counts_nest, make, unmake),
        cmocka_unit_test_setup_teardown(a_long_string_is_held_if_the_reader_sends_shares, make, unmake),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
