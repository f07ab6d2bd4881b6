#include "support/unit.h"

#include <stdio.h>

#include "base/buffer.h"
#include "stats/error_stats.h"

static int open_stats(void **state)
{
    *state = error_stats_create();
    return 0;
}

static int close_stats(void **state)
{
    error_stats_destroy(*state);
    return 0;
}

static void write_down(void *context, struct bytes code, uint64_t count)
{
    buffer_append_format(context, "%.*s=%d,", (int)code.size, code.data, (int)count);
}

static void assert_stats(struct error_stats *stats, const char *expected)
{
    struct buffer text = { 0 };

    error_stats_each(stats, write_down, &text);
    buffer_append_u8(&text, 0);
    assert_string_equal(text.data, expected);
    buffer_release(&text);
}

static void codes_are_counted_by_their_first_word(void **state)
{
    error_stats_note(*state, BYTES("WRONGTYPE Operation against a key"));
    error_stats_note(*state, BYTES("ERR syntax error"));
    error_stats_note(*state, BYTES("ERR unknown command"));
    error_stats_note(*state, BYTES("NOAUTH Authentication required."));
    assert_stats(*state, "ERR=2,NOAUTH=1,WRONGTYPE=1,");
    error_stats_reset(*state);
    assert_stats(*state, "");
}

static void a_text_without_a_code_is_err(void **state)
{
    error_stats_note(*state, BYTES("oneword"));
    error_stats_note(*state, BYTES(""));
    error_stats_note(*state, BYTES("abcdefghijklmnopqrstuvwxyzabcdefghijklmn is too long for a code"));
    assert_stats(*state, "ERR=3,");
}

static void the_number_of_codes_is_bounded(void **state)
{
    struct buffer text = { 0 };
    char error[32];
    int commas = 0;

    for (int i = 0; i < 1000; i++)
        error_stats_note(*state, bytes_of(error, (size_t)snprintf(error, sizeof(error), "MADE%03d up", i)));
    error_stats_note(*state, BYTES("MADE000 up"));
    error_stats_each(*state, write_down, &text);
    buffer_append_u8(&text, 0);
    for (size_t i = 0; i < text.size; i++)
        commas += text.data[i] == ',';
    assert_int_equal(commas, ERROR_CODES_MAX + 1);
    assert_non_null(strstr(text.data, "ERRORSTATS_OVERFLOW=872,"));
    assert_non_null(strstr(text.data, "MADE000=2,"));
    assert_non_null(strstr(text.data, "MADE127=1,"));
    assert_null(strstr(text.data, "MADE128"));
    buffer_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(codes_are_counted_by_their_first_word, open_stats, close_stats),
        cmocka_unit_test_setup_teardown(a_text_without_a_code_is_err, open_stats, close_stats),
        cmocka_unit_test_setup_teardown(the_number_of_codes_is_bounded, open_stats, close_stats),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
