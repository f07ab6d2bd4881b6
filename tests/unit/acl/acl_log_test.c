#include "support/unit.h"

#include <stdio.h>
#include <string.h>

#include "acl/acl_log.h"

static int open_log(void **state)
{
    *state = acl_log_create();
    return 0;
}

static int close_log(void **state)
{
    acl_log_destroy(*state);
    return 0;
}

static void note(struct acl_log *log, enum acl_log_reason reason, const char *object, int64_t now_ms)
{
    acl_log_note(log, 100, &(struct acl_log_event){ .reason = reason, .object = bytes_of_string(object), .user = BYTES("u"), .client = BYTES("id=1"),
        .now_ms = now_ms });
}

static void append(void *context, const struct acl_log_entry *entry)
{
    char *text = context;

    sprintf(text + strlen(text), "%.*s%d*%d ", (int)entry->last.object.size, entry->last.object.data, (int)entry->id, (int)entry->count);
}

static void assert_log(struct acl_log *log, const char *expected)
{
    char text[2000] = "";

    acl_log_each(log, SIZE_MAX, append, text);
    assert_string_equal(text, expected);
}

static void what_resembles_a_recent_entry_counts_as_it(void **state)
{
    struct acl_log *log = *state;

    note(log, ACL_LOG_KEY, "a", 1000);
    note(log, ACL_LOG_KEY, "b", 2000);
    note(log, ACL_LOG_KEY, "a", 61000);
    assert_log(log, "a0*2 b1*1 ");
    note(log, ACL_LOG_KEY, "a", 121001);        /* a minute after the last one */
    note(log, ACL_LOG_COMMAND, "a", 121002);
    assert_log(log, "a3*1 a2*1 a0*2 b1*1 ");
    assert_int_equal(acl_log_total(log, ACL_LOG_KEY), 4);
    acl_log_reset_totals(log);
    assert_int_equal(acl_log_total(log, ACL_LOG_KEY), 0);
}

static void long_names_are_cut(void **state)
{
    struct acl_log *log = *state;
    char name[3000] = "", text[2000] = "", expected[1024 + sizeof("0*2 ")] = "";

    memset(name, 'x', sizeof(name) - 1);
    note(log, ACL_LOG_KEY, name, 1000);
    note(log, ACL_LOG_KEY, name + 1, 1000);         /* the same as far as it is kept */
    memset(expected, 'x', 1024);
    strcpy(expected + 1024, "0*2 ");
    acl_log_each(log, SIZE_MAX, append, text);
    assert_string_equal(text, expected);
}

static void only_ten_entries_are_compared(void **state)
{
    struct acl_log *log = *state;
    char name[2] = "a";

    for (int i = 0; i < 11; i++, name[0]++)
        note(log, ACL_LOG_KEY, name, 1);
    note(log, ACL_LOG_KEY, "b", 1);
    note(log, ACL_LOG_KEY, "a", 1);
    assert_log(log, "a11*1 b1*2 k10*1 j9*1 i8*1 h7*1 g6*1 f5*1 e4*1 d3*1 c2*1 a0*1 ");
}

static void the_oldest_are_dropped(void **state)
{
    struct acl_log *log = *state;

    note(log, ACL_LOG_KEY, "a", 1);
    note(log, ACL_LOG_KEY, "b", 1);
    acl_log_note(log, 2, &(struct acl_log_event){ .object = BYTES("c"), .user = BYTES("u") });
    assert_log(log, "c2*1 b1*1 ");
    acl_log_note(log, 0, &(struct acl_log_event){ .object = BYTES("d"), .user = BYTES("u") });
    assert_log(log, "");
    note(log, ACL_LOG_AUTH, "e", 1);
    acl_log_reset(log);
    assert_log(log, "");
    note(log, ACL_LOG_AUTH, "f", 1);
    assert_log(log, "f5*1 ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_resembles_a_recent_entry_counts_as_it, open_log, close_log),
        cmocka_unit_test_setup_teardown(long_names_are_cut, open_log, close_log),
        cmocka_unit_test_setup_teardown(only_ten_entries_are_compared, open_log, close_log),
        cmocka_unit_test_setup_teardown(the_oldest_are_dropped, open_log, close_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
