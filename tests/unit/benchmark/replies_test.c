/* The tools are no part of the library, so the file under test is included. */
#include "../utils/benchmark/replies.c"

#include "support/unit.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/random.h"

static const char *const whole[] = {
    "+OK\r\n", "+\r\n", "-ERR no\r\n", ":-12\r\n", "$0\r\n\r\n", "$3\r\na\r\n\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n",
    "*2\r\n$1\r\nx\r\n$-1\r\n", "*2\r\n*2\r\n:1\r\n:2\r\n*0\r\n", "_\r\n", "#t\r\n", ",1.5\r\n", "(123456789012345678901\r\n",
    "!5\r\nERR x\r\n", "=7\r\ntxt:abc\r\n", "%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n_\r\n", "~1\r\n+a\r\n", ">2\r\n+a\r\n+b\r\n",
    "|1\r\n+ttl\r\n:3\r\n*1\r\n+a\r\n", "$11\r\n+OK\r\n$3\r\nab\r\n",
};

enum { WHOLE = sizeof(whole) / sizeof(whole[0]) };

/* A copy of exactly these bytes, so that a sanitizer detects a read past their end. */
static enum status scan_exactly(struct reply_scan *scan, const char *text, size_t size)
{
    char *copy = mem_alloc(size ? size : 1);
    enum status status;

    memcpy(copy, text, size);
    status = reply_scan(scan, copy, size);
    mem_free(copy);
    return status;
}

static void the_end_of_a_reply_is_found(void **state)
{
    for (int i = 0; i < WHOLE; i++) {
        struct reply_scan scan = { 0 };
        char text[128];

        snprintf(text, sizeof(text), "%s+more\r\n", whole[i]);
        assert_int_equal(reply_scan(&scan, text, strlen(text)), STATUS_OK);
        assert_int_equal(scan.size, strlen(whole[i]));
    }
}

static void a_reply_can_arrive_in_pieces(void **state)
{
    for (int i = 0; i < WHOLE; i++) {
        struct reply_scan scan = { 0 };
        size_t size = strlen(whole[i]);

        for (size_t crumb = 0; crumb < size; crumb++)
            assert_int_equal(scan_exactly(&scan, whole[i], crumb), STATUS_TRUNCATED);
        assert_int_equal(scan_exactly(&scan, whole[i], size), STATUS_OK);
        assert_int_equal(scan.size, size);
    }
}

static void invalid_replies_are_refused(void **state)
{
    static const char *const bad[] = {
        "hello\r\n", "\r\n", "+a\n", "$\r\n", "$a\r\n", "$-2\r\n", "$1x\r\n", "$3\r\nabcd\r\n", "*1\r\n?\r\n", "$4294967297\r\n",
        "$99999999999999999999999\r\n", "*-1x\r\n", "*?\r\n", "$+1\r\na\r\n",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct reply_scan scan = { 0 };

        assert_int_equal(scan_exactly(&scan, bad[i], strlen(bad[i])), STATUS_CORRUPT);
    }
}

static void damaged_replies_are_never_read_past_their_end(void **state)
{
    struct random random;

    random_init(&random, 7);
    for (int round = 0; round < 200000; round++) {
        struct reply_scan scan = { 0 };
        const char *from = whole[random_below(&random, WHOLE)];
        size_t size = strlen(from);
        char text[128];
        enum status status;

        memcpy(text, from, size);
        for (uint64_t i = random_below(&random, 4); i > 0; i--)
            text[random_below(&random, size)] = "+-:$*_%~>|0129\r\nx"[random_below(&random, 17)];
        status = scan_exactly(&scan, text, size);
        assert_true(scan.size <= size);
        if (status == STATUS_OK) {          /* an accepted reply can be iterated over, element by element */
            struct bytes rest = bytes_of(text, scan.size);

            while (rest.size > 0) {
                struct reply_element element = reply_next(&rest);

                assert_true(element.text.data + element.text.size <= text + size);
            }
        }
    }
}

static void elements_are_returned_one_by_one(void **state)
{
    const char text[] = "*4\r\n$2\r\nab\r\n$-1\r\n:7\r\n_\r\n";
    struct bytes rest = bytes_of(text, sizeof(text) - 1);
    struct reply_element element = reply_next(&rest);

    assert_int_equal(element.type, '*');
    assert_int_equal(element.count, 4);
    element = reply_next(&rest);
    assert_true(bytes_equal(element.text, BYTES("ab")) && !element.is_nil);
    element = reply_next(&rest);
    assert_true(element.is_nil);
    element = reply_next(&rest);
    assert_true(bytes_equal(element.text, BYTES("7")) && !element.is_nil);
    element = reply_next(&rest);
    assert_true(element.is_nil);
    assert_int_equal(rest.size, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_of_a_reply_is_found),
        cmocka_unit_test(a_reply_can_arrive_in_pieces),
        cmocka_unit_test(invalid_replies_are_refused),
        cmocka_unit_test(damaged_replies_are_never_read_past_their_end),
        cmocka_unit_test(elements_are_returned_one_by_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
