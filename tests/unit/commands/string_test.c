/* What the tests over the wire do not see of the string and bitmap commands: events, counted changes, what is logged. */
#include "commands/rows.h"

#include "support/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "support/command_box.h"
#include "support/seed.h"

#define NOW "1700000000000"         /* the box's clock */

static int open_box(void **state, const struct command *commands)
{
    struct command_box *box = mem_alloc(sizeof(*box));
    uint64_t seed = seed_new();

    command_box_create(box, commands, seed);
    box->turn.string_size_max = 1 << 20;
    *state = box;
    return 0;
}

static int open_string_box(void **state)
{
    return open_box(state, string_commands);
}

static int open_bitmap_box(void **state)
{
    return open_box(state, bitmap_commands);
}

static int close_box(void **state)
{
    command_box_destroy(*state);
    mem_free(*state);
    return 0;
}

/* `log` is empty if the command's own words are logged, which is the case if it changed something and propagated nothing else. */
static void assert_did(struct command_box *box, const char *line, const char *reply, const char *events, const char *log)
{
    assert_string_equal(command_box_say(box, line), reply);
    assert_string_equal(box->events.data, events);
    assert_string_equal(box->propagated.data, log);
    assert_int_equal(box->change_count > 0, events[0] != 0);
}

static void an_expiry_is_logged_as_an_absolute_time(void **state)
{
    struct command_box *box = *state;

    assert_did(box, "SET k v EX 10", "+OK\n", "set k, expire k", "SET k v PXAT 1700000010000");
    assert_did(box, "SET k v PX 10", "+OK\n", "set k, expire k", "SET k v PXAT 1700000000010");
    assert_did(box, "SET k v EXAT 1800000000", "+OK\n", "set k, expire k", "SET k v PXAT 1800000000000");
    assert_did(box, "SETEX k 7 v", "+OK\n", "set k, expire k", "SET k v PXAT 1700000007000");
    assert_did(box, "PSETEX k 7 v", "+OK\n", "set k, expire k", "SET k v PXAT 1700000000007");
    assert_did(box, "GETEX k EX 10", "$1\nv\n", "expire k", "PEXPIREAT k 1700000010000");
    assert_did(box, "GETEX k PERSIST", "$1\nv\n", "persist k", "PERSIST k");
    assert_did(box, "GETEX k PERSIST", "$1\nv\n", "", "");
    assert_did(box, "GETEX k", "$1\nv\n", "", "");
    assert_did(box, "GETEX k PXAT " NOW, "$1\nv\n", "del k", "DEL k");
    assert_did(box, "GET k", "$-1\n", "", "");
}

static void options_are_logged_without_the_old_value(void **state)
{
    struct command_box *box = *state;

    assert_did(box, "SET k v NX", "+OK\n", "set k", "");
    assert_did(box, "SET k w NX", "$-1\n", "", "");
    assert_did(box, "SET k w XX", "+OK\n", "set k", "SET k w");
    assert_did(box, "SET k x GET", "$1\nw\n", "set k", "SET k x");
    assert_did(box, "SET k y NX GET", "$1\nx\n", "", "");
    assert_did(box, "SET k y XX GET KEEPTTL", "$1\nx\n", "set k", "SET k y KEEPTTL");
    assert_did(box, "SET k z XX EX 1", "+OK\n", "set k, expire k", "SET k z PXAT 1700000001000");
    assert_did(box, "GETSET k a", "$1\nz\n", "set k", "SET k a");
    assert_did(box, "SETNX k b", ":0\n", "", "");
    assert_did(box, "GETDEL k", "$1\na\n", "del k", "DEL k");
    assert_did(box, "GETDEL k", "$-1\n", "", "");
}

static void a_time_already_past_removes_nothing_while_replaying(void **state)
{
    struct command_box *box = *state;

    box->turn.clock_stopped = true;
    assert_did(box, "SET k v PXAT 5", "+OK\n", "set k, expire k", "SET k v PXAT 5");
    assert_did(box, "GETEX k PXAT 6", "$1\nv\n", "expire k", "PEXPIREAT k 6");
    box->turn.clock_stopped = false;
    assert_string_equal(command_box_say(box, "GET k"), "$-1\n");
    assert_string_equal(box->propagated.data, "DEL k");
}

static void a_float_sum_is_logged_instead_of_its_increment(void **state)
{
    struct command_box *box = *state;

    assert_did(box, "SET f 1 EX 10", "+OK\n", "set f, expire f", "SET f 1 PXAT 1700000010000");
    assert_did(box, "INCRBYFLOAT f 0.5", "$3\n1.5\n", "incrbyfloat f", "SET f 1.5 KEEPTTL");
    assert_did(box, "INCRBYFLOAT f x", "-ERR value is not a valid float\n", "", "");
    assert_did(box, "GETEX f PERSIST", "$3\n1.5\n", "persist f", "PERSIST f");
}

static void each_of_several_keys_is_counted(void **state)
{
    struct command_box *box = *state;

    assert_did(box, "MSET a 1 b 2 a 3", "+OK\n", "set a, set b, set a", "");
    assert_int_equal(box->change_count, 3);
    assert_did(box, "MSETNX c 1 a 2", ":0\n", "", "");
    assert_did(box, "MSETNX c 1 d 2 c 3", ":1\n", "set c, set d, set c", "");
    assert_did(box, "MGET a b c d", "*4\n$1\n3\n$1\n2\n$1\n3\n$1\n2\n", "", "");
}

/* APPEND from inline to large, and SETRANGE within and beyond it, compared with a plain copy. */
static void a_string_that_grows_past_its_entry_keeps_its_bytes(void **state)
{
    struct command_box *box = *state;
    char expected[20000] = "", reply[20100];
    size_t size = 0;

    for (int i = 0; size < 9000; i++) {
        char piece[40], line[60];

        snprintf(piece, sizeof(piece), "<%d>", i * 7919);
        snprintf(line, sizeof(line), "APPEND k %s", piece);
        memcpy(expected + size, piece, strlen(piece));
        size += strlen(piece);
        snprintf(reply, sizeof(reply), ":%zu\n", size);
        assert_string_equal(command_box_say(box, line), reply);
    }
    command_box_say(box, "SETRANGE k 4090 0123456789");
    memcpy(expected + 4090, "0123456789", 10);
    command_box_say(box, "SETRANGE k 15000 end");
    memset(expected + size, 0, 15000 - size);
    memcpy(expected + 15000, "end", 3);
    assert_string_equal(command_box_say(box, "STRLEN k"), ":15003\n");
    command_box_say(box, "GET k");
    assert_int_equal(box->reply.size, strlen("$15003\n") + 15003 + 1);
    assert_memory_equal(box->reply.data + strlen("$15003\n"), expected, 15003);
}

static void a_string_over_the_limit_is_refused_except_in_replay(void **state)
{
    struct command_box *box = *state;

    box->turn.string_size_max = 5000;
    assert_did(box, "SETRANGE k 4999 a", ":5000\n", "setrange k", "");
    assert_did(box, "APPEND k b", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\n", "", "");
    assert_did(box, "SETRANGE k 5000 b", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\n", "", "");
    box->client.caller = CALLER_REPLAY;
    assert_did(box, "APPEND k b", ":5001\n", "append k", "");
}

static void an_unchanged_bit_is_no_change(void **state)
{
    struct command_box *box = *state;

    assert_did(box, "SETBIT k 9 0", ":0\n", "setbit k", "");
    assert_did(box, "SETBIT k 9 0", ":0\n", "", "");
    assert_did(box, "SETBIT k 9 1", ":0\n", "setbit k", "");
    assert_did(box, "SETBIT k 9 1", ":1\n", "", "");
    assert_did(box, "SETBIT k 100000 0", ":0\n", "setbit k", "");
    assert_did(box, "SETBIT k 100000 0", ":0\n", "", "");
    assert_did(box, "SETBIT k 99999 1", ":0\n", "setbit k", "");
    assert_did(box, "BITCOUNT k", ":2\n", "", "");
}

static void fields_that_change_are_counted(void **state)
{
    struct command_box *box = *state;

    assert_did(box, "BITFIELD k SET u8 0 1 SET u8 8 2 INCRBY u8 0 3 GET u8 0", "*4\n:0\n:0\n:4\n:4\n", "setbit k", "");
    assert_int_equal(box->change_count, 3);
    assert_did(box, "BITFIELD k SET u8 0 4 INCRBY u8 8 0", "*2\n:4\n:2\n", "", "");
    assert_did(box, "BITFIELD k OVERFLOW FAIL INCRBY u2 0 9", "*1\n$-1\n", "", "");
    assert_did(box, "BITFIELD k GET u16 0", "*1\n:1026\n", "", "");
}

static void bitop_of_nothing_removes_its_destination(void **state)
{
    struct command_box *box = *state;

    command_box_say(box, "SETBIT a 7 1");
    assert_did(box, "BITOP OR d a a", ":1\n", "set d", "");
    assert_did(box, "BITOP NOT a a", ":1\n", "set a", "");
    assert_did(box, "BITCOUNT a", ":7\n", "", "");
    assert_did(box, "BITOP AND d x y", ":0\n", "del d", "");
    assert_did(box, "BITOP AND d x y", ":0\n", "", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_expiry_is_logged_as_an_absolute_time, open_string_box, close_box),
        cmocka_unit_test_setup_teardown(options_are_logged_without_the_old_value, open_string_box, close_box),
        cmocka_unit_test_setup_teardown(a_time_already_past_removes_nothing_while_replaying, open_string_box, close_box),
        cmocka_unit_test_setup_teardown(a_float_sum_is_logged_instead_of_its_increment, open_string_box, close_box),
        cmocka_unit_test_setup_teardown(each_of_several_keys_is_counted, open_string_box, close_box),
        cmocka_unit_test_setup_teardown(a_string_that_grows_past_its_entry_keeps_its_bytes, open_string_box, close_box),
        cmocka_unit_test_setup_teardown(a_string_over_the_limit_is_refused_except_in_replay, open_string_box, close_box),
        cmocka_unit_test_setup_teardown(an_unchanged_bit_is_no_change, open_bitmap_box, close_box),
        cmocka_unit_test_setup_teardown(fields_that_change_are_counted, open_bitmap_box, close_box),
        cmocka_unit_test_setup_teardown(bitop_of_nothing_removes_its_destination, open_bitmap_box, close_box),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
