/* A primary's stream, applied to an engine without tier and log. */
#include "replication/applier.h"

#include "support/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "support/applier_box.h"

enum { INBOX = 64 << 20, SMALL_INBOX = 8 << 20, UNITS_MAX = 32 };

static int open_box(void **state)
{
    struct applier_box *box = mem_zalloc(sizeof(*box));

    applier_box_create(box, INBOX);
    applier_box_start(box, 0, 0);
    *state = box;
    return 0;
}

static int close_box(void **state)
{
    applier_box_destroy(*state);
    mem_free(*state);
    return 0;
}

static void feed_lines(struct applier_box *box, struct buffer *all, const char *const *lines)
{
    size_t from = all->size;

    for (int i = 0; lines[i] != NULL; i++)
        applier_box_print(all, lines[i]);
    applier_box_feed(box, bytes_of(all->data + from, all->size - from));
}

static void same_history(struct applier_box *box, struct bytes wanted)
{
    struct buffer out = { 0 };

    applier_box_output(box, &out);
    assert_int_equal(out.size, wanted.size);
    assert_memory_equal(out.data, wanted.data, out.size);
    buffer_release(&out);
}

/* At each cut the position is the end of the last unit, and no key shows more. */
static void units_are_applied_whole_at_any_cut(void **state)
{
    static const char *const lines[] = { "SELECT 1", "SET k 0", "MULTI", "INCR k", "SELECT 2", "INCR other", "SELECT 1", "INCR k", "EXEC", "PING",
        "REPLCONF GETACK *", "INCR k", "MULTI", "EXEC" };
    static const bool ends_unit[] = { true, true, false, false, false, false, false, false, true, true, true, true, false, true };
    enum { LINES = sizeof(lines) / sizeof(lines[0]) };
    struct buffer text = { 0 };
    size_t ends[UNITS_MAX], unit_count = 0;

    for (int i = 0; i < LINES; i++) {
        applier_box_print(&text, lines[i]);
        if (ends_unit[i])
            ends[unit_count++] = text.size;
    }
    for (size_t cut = 0; cut <= text.size; cut++) {
        struct applier_box box;
        struct applier_end end;
        size_t unit = 0;

        while (unit < unit_count && ends[unit] <= cut)
            unit++;
        applier_box_create(&box, SMALL_INBOX);
        applier_box_start(&box, 0, 0);
        applier_box_feed(&box, bytes_of(text.data, cut));
        assert_true(applier_box_await(&box, unit > 0 ? (int64_t)ends[unit - 1] : 0));
        /* A new one continues there, with the database that was selected. */
        end = applier_box_stop(&box);
        assert_int_equal(end.offset, unit > 0 ? ends[unit - 1] : 0);
        assert_int_equal(end.db, unit > 0 ? 1 : 0);
        same_history(&box, bytes_of(text.data, (size_t)end.offset));
        applier_box_start(&box, end.offset, end.db);
        applier_box_feed(&box, bytes_of(text.data + cut, text.size - cut));
        assert_true(applier_box_await(&box, (int64_t)text.size));
        applier_box_say(&box, "SELECT 1");
        assert_string_equal(applier_box_say(&box, "GET k"), "$1\n3\n");
        applier_box_say(&box, "SELECT 2");
        assert_string_equal(applier_box_say(&box, "GET other"), "$1\n1\n");
        assert_int_equal(applier_errors(box.applier), 0);
        applier_box_destroy(&box);
    }
    buffer_release(&text);
}

static void a_request_for_an_ack_is_passed_on_after_what_came_before(void **state)
{
    struct applier_box *box = *state;
    struct buffer text = { 0 };
    int64_t first;

    feed_lines(box, &text, (const char *const[]){ "SET a 1", "REPLCONF GETACK *", NULL });
    first = (int64_t)text.size;
    while (box->acks < 1)
        assert_true(applier_box_await(box, first));
    assert_int_equal(box->acked, first);
    feed_lines(box, &text, (const char *const[]){ "MULTI", "SET a 2", "REPLCONF GETACK *", "SET a 3", "EXEC", NULL });
    while (box->acks < 2)
        assert_true(applier_box_await(box, (int64_t)text.size));
    assert_int_equal(box->acked, text.size);
    buffer_release(&text);
}

static void fill_group(struct buffer *text, int count, size_t size)
{
    char *value = mem_alloc(size);

    memset(value, 'x', size);
    for (int i = 0; i < count; i++) {
        char key[20];
        int length = snprintf(key, sizeof(key), "big:%d", i);

        buffer_append_format(text, "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%zu\r\n", length, key, size);
        buffer_append(text, value, size);
        buffer_append(text, "\r\n", 2);
    }
    mem_free(value);
}

static void a_large_group_is_applied_as_one(void **state)
{
    struct applier_box *box = *state;
    struct buffer text = { 0 };
    size_t cut;

    applier_box_print(&text, "SET before 1");
    cut = text.size;
    applier_box_print(&text, "MULTI");
    applier_box_print(&text, "SELECT 3");
    fill_group(&text, 300, 50000);
    applier_box_feed(box, buffer_bytes(&text));
    assert_true(applier_box_await(box, (int64_t)cut));
    assert_int_equal(applier_offset(box->applier), cut);
    cut = text.size;
    applier_box_print(&text, "EXEC");
    applier_box_print(&text, "SET after 1");
    applier_box_feed(box, bytes_of(text.data + cut, text.size - cut));
    assert_true(applier_box_await(box, (int64_t)text.size));
    assert_int_equal(applier_errors(box->applier), 0);
    assert_string_equal(applier_box_say(box, "EXISTS before big:1"), ":1\n");
    applier_box_say(box, "SELECT 3");
    assert_string_equal(applier_box_say(box, "DBSIZE"), ":301\n");
    assert_string_equal(applier_box_say(box, "STRLEN big:299"), ":50000\n");
    same_history(box, buffer_bytes(&text));
    buffer_release(&text);
}

/* Two counters that each group changes together, beside a client. */
static void clients_see_all_of_a_group_or_nothing(void **state)
{
    enum { GROUPS = 3000 };
    struct applier_box *box = *state;
    struct buffer text = { 0 };
    long last = 0;

    applier_box_print(&text, "MSET one 0 two 0");
    for (int i = 0; i < GROUPS; i++) {
        applier_box_print(&text, "MULTI");
        applier_box_print(&text, "INCR one");
        applier_box_print(&text, "INCR two");
        applier_box_print(&text, "EXEC");
    }
    applier_box_feed(box, buffer_bytes(&text));
    do {
        const char *reply = applier_box_say(box, "MGET one two");
        long one = 0, two = 0;

        if (sscanf(reply, "*2\n$%*d\n%ld\n$%*d\n%ld\n", &one, &two) != 2)
            continue;               /* not there yet */
        assert_int_equal(one, two);
        assert_true(one >= last);
        last = one;
    } while (last < GROUPS && !box->failed);
    assert_true(applier_box_await(box, (int64_t)text.size));
    assert_int_equal(box->base.engine.partitions->obstacle_count, 0);
    buffer_release(&text);
}

static void commands_that_fail_or_are_not_a_primarys_are_counted(void **state)
{
    struct applier_box *box = *state;
    struct buffer text = { 0 };

    feed_lines(box, &text, (const char *const[]){ "SET k v", "INCR k", "NOSUCH x", "GET k", "AUTH x", "MULTI", "INCR k", "NOSUCH", "SET k w", "EXEC",
        "MIGRATE 127.0.0.1 1 k 0 10", "SET", NULL });
    assert_true(applier_box_await(box, (int64_t)text.size));
    assert_int_equal(applier_errors(box->applier), 8);
    assert_string_equal(applier_box_say(box, "GET k"), "$1\nw\n");
    same_history(box, buffer_bytes(&text));         /* the offsets stay the primary's */
    buffer_release(&text);
}

/* Versions of Redis before 7 send them. A single one, one in a group, one that fails in the middle, one that is named by its SHA-1. */
static void scripts_are_run_as_they_are(void **state)
{
    struct applier_box *box = *state;
    struct buffer text = { 0 };

    feed_lines(box, &text, (const char *const[]){ "EVAL return{redis.call('set',KEYS[1],ARGV[1]),redis.call('incr',KEYS[1])} 1 one 5", "SELECT 1", "MULTI",
        "SET two 1", "EVAL redis.call('incr',KEYS[1]);redis.call('select',0);redis.call('incr','undeclared') 1 two", "INCR two", "EXEC",
        "EVAL redis.call('incr','two');redis.call('lpush','two','x') 0", "SCRIPT LOAD return(redis.call('incr','two'))",
        "EVALSHA 00d931bfc76dde6816eebbb327f19869d19646eb 0", "SELECT 0", "SET last 1", NULL });
    assert_true(applier_box_await(box, (int64_t)text.size));
    assert_int_equal(applier_errors(box->applier), 1);          /* LPUSH on a string */
    assert_string_equal(applier_box_say(box, "MGET one undeclared last"), "*3\n$1\n6\n$1\n1\n$1\n1\n");
    applier_box_say(box, "SELECT 1");
    assert_string_equal(applier_box_say(box, "GET two"), "$1\n5\n");
    same_history(box, buffer_bytes(&text));         /* the scripts, not what they did */
    assert_int_equal(box->base.engine.partitions->obstacle_count, 0);
    buffer_release(&text);
}

/* What a script that is not known would have done is missing. */
static void a_script_that_is_not_known_ends_the_stream(void **state)
{
    static const char *const missing[] = { "EVALSHA ffffffffffffffffffffffffffffffffffffffff 0", "FCALL nosuch 0" };

    for (int i = 0; i < 4; i++) {
        struct applier_box box;
        struct buffer text = { 0 };
        struct history_point before, after;
        size_t end;

        applier_box_create(&box, SMALL_INBOX);
        applier_box_start(&box, 0, 0);
        feed_lines(&box, &text, (const char *const[]){ "SET k 1", NULL });
        end = text.size;
        history_point(&box.base.engine.history, &before);
        if (i >= 2)
            feed_lines(&box, &text, (const char *const[]){ "MULTI", "INCR k", missing[i % 2], "INCR k", "EXEC", NULL });
        else
            feed_lines(&box, &text, (const char *const[]){ missing[i % 2], "INCR k", NULL });
        applier_box_await_failure(&box);
        assert_non_null(strstr(box.reason.text, "a script that is not known here"));
        assert_int_equal(applier_offset(box.applier), end);
        applier_box_stop(&box);
        same_history(&box, bytes_of(text.data, end));
        /* A part of a group is not a state of the primary's history. */
        history_point(&box.base.engine.history, &after);
        assert_string_not_equal(before.identity.id, after.identity.id);
        applier_box_destroy(&box);
        buffer_release(&text);
    }
}

/* The second reading of a large group ends in the middle: what is in the log of it is closed. */
static void a_large_group_that_fails_in_the_middle_is_closed(void **state)
{
    struct applier_box *box = *state;
    struct buffer text = { 0 }, out = { 0 };
    struct bytes exec = BYTES("*1\r\n$4\r\nEXEC\r\n");

    applier_box_print(&text, "MULTI");
    fill_group(&text, 300, 50000);
    applier_box_print(&text, "FCALL nosuch 0");
    applier_box_print(&text, "EXEC");
    applier_box_feed(box, buffer_bytes(&text));
    applier_box_await_failure(box);
    assert_int_equal(applier_offset(box->applier), 0);
    applier_box_stop(box);
    applier_box_output(box, &out);
    assert_true(out.size > exec.size && out.size < text.size);
    assert_memory_equal(out.data, text.data, out.size - exec.size);
    assert_memory_equal(out.data + out.size - exec.size, exec.data, exec.size);
    buffer_release(&text);
    buffer_release(&out);
}

static void time_removes_nothing(void **state)
{
    struct applier_box *box = *state;
    struct buffer text = { 0 };

    feed_lines(box, &text, (const char *const[]){ "SET k 5 PXAT 1", "SET gone 5 PXAT 1", NULL });
    assert_true(applier_box_await(box, (int64_t)text.size));
    assert_string_equal(applier_box_say(box, "GET k"), "$-1\n");
    feed_lines(box, &text, (const char *const[]){ "MULTI", "INCR k", "PERSIST k", "EXEC", "DEL gone", NULL });
    assert_true(applier_box_await(box, (int64_t)text.size));
    assert_string_equal(applier_box_say(box, "GET k"), "$1\n6\n");
    assert_string_equal(applier_box_say(box, "DBSIZE"), ":1\n");
    buffer_release(&text);
}

/* Ends the stream: what came before it is applied, and nothing else is. */
static void end_it(const char *bytes, size_t size, const char *reason)
{
    struct applier_box box;
    struct buffer text = { 0 };
    size_t end;

    applier_box_create(&box, SMALL_INBOX);
    applier_box_start(&box, 0, 0);
    applier_box_print(&text, "SET k 1");
    end = text.size;
    buffer_append(&text, bytes, size);
    applier_box_print(&text, "SET k 2");
    applier_box_feed(&box, buffer_bytes(&text));
    applier_box_await_failure(&box);
    if (strstr(box.reason.text, reason) == NULL)
        fail_msg("%.40s: %s", bytes, box.reason.text);
    assert_int_equal(applier_offset(box.applier), end);
    assert_string_equal(applier_box_say(&box, "GET k"), "$1\n1\n");
    same_history(&box, bytes_of(text.data, end));
    applier_box_destroy(&box);
    buffer_release(&text);
}

#define END_IT(bytes, reason) end_it(bytes, sizeof(bytes) - 1, reason)

static void what_is_no_stream_ends_it(void **state)
{
    END_IT("PING\r\n", "does not begin with '*'");
    END_IT("\r\n", "does not begin with '*'");
    END_IT("\0\0\0", "does not begin with '*'");
    END_IT("*0\r\n", "no arguments");
    END_IT("*-1\r\n", "no arguments");
    END_IT("*x\r\n", "Protocol error");
    END_IT("*1\r\n$4611686018427387904\r\n", "invalid bulk length");
    END_IT("*1\r\n$-5\r\n", "invalid bulk length");
    END_IT("*4611686018427387904\r\n", "invalid multibulk length");
    END_IT("*1\r\n$4\r\nEXEC\r\n", "an EXEC without a MULTI");
    END_IT("*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\n3\r\n*1\r\n$5\r\nmulti\r\n", "a MULTI inside a MULTI");
}

/* The inbox has no disk. Its appender stops before something would be given up, as the link does. */
static void a_group_that_does_not_fit_into_the_inbox_ends_it(void **state)
{
    struct applier_box box;
    struct buffer text = { 0 }, part = { 0 };
    int64_t end;

    applier_box_create(&box, SMALL_INBOX);
    applier_box_start(&box, 0, 0);
    applier_box_print(&text, "SET k 1");
    end = (int64_t)text.size;
    applier_box_print(&text, "MULTI");
    applier_box_feed(&box, buffer_bytes(&text));
    fill_group(&part, 1, 100000);
    while (backlog_room(box.inbox) > (1 << 20) + part.size)
        applier_box_feed(&box, buffer_bytes(&part));
    applier_box_await_failure(&box);
    assert_non_null(strstr(box.reason.text, "does not fit into repl-backlog-disk-size"));
    assert_int_equal(applier_offset(box.applier), end);
    assert_string_equal(applier_box_say(&box, "DBSIZE"), ":1\n");
    applier_box_destroy(&box);
    buffer_release(&text);
    buffer_release(&part);
}

/* Bytes that have left the inbox before they were read. */
static void lost_bytes_end_it(void **state)
{
    struct applier_box box;
    struct buffer text = { 0 };

    applier_box_create(&box, SMALL_INBOX);
    applier_box_start(&box, 0, 0);
    applier_box_print(&text, "SET k 1");
    applier_box_feed(&box, buffer_bytes(&text));
    assert_true(applier_box_await(&box, (int64_t)text.size));
    fill_group(&text, 1, 32 << 20);
    applier_box_feed(&box, bytes_of(text.data, text.size - 1));     /* at once: no reader is as fast */
    applier_box_await_failure(&box);
    assert_non_null(strstr(box.reason.text, "have left memory"));
    applier_box_destroy(&box);
    buffer_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_are_applied_whole_at_any_cut),
        cmocka_unit_test_setup_teardown(a_request_for_an_ack_is_passed_on_after_what_came_before, open_box, close_box),
        cmocka_unit_test_setup_teardown(a_large_group_is_applied_as_one, open_box, close_box),
        cmocka_unit_test_setup_teardown(clients_see_all_of_a_group_or_nothing, open_box, close_box),
        cmocka_unit_test_setup_teardown(commands_that_fail_or_are_not_a_primarys_are_counted, open_box, close_box),
        cmocka_unit_test_setup_teardown(scripts_are_run_as_they_are, open_box, close_box),
        cmocka_unit_test(a_script_that_is_not_known_ends_the_stream),
        cmocka_unit_test_setup_teardown(a_large_group_that_fails_in_the_middle_is_closed, open_box, close_box),
        cmocka_unit_test_setup_teardown(time_removes_nothing, open_box, close_box),
        cmocka_unit_test(what_is_no_stream_ends_it),
        cmocka_unit_test(a_group_that_does_not_fit_into_the_inbox_ends_it),
        cmocka_unit_test(lost_bytes_end_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
