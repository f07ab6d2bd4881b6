#include "support/unit.h"

#include <string.h>

#include "call/command_keys.h"

#define RO (KEY_RO | KEY_ACCESS)
#define RW (KEY_RW | KEY_ACCESS | KEY_UPDATE)
#define OW (KEY_OW | KEY_UPDATE)

static const struct command get = { .name = "get", .keys = KEYS(KEY_RANGE(1, 0, 1, RO)) };
static const struct command mget = { .name = "mget", .keys = KEYS(KEY_RANGE(1, -1, 1, RO)) };
static const struct command mset = { .name = "mset", .keys = KEYS(KEY_RANGE(1, -1, 2, OW)) };
static const struct command lcs = { .name = "lcs", .keys = KEYS(KEY_RANGE(1, 1, 1, RO)) };
static const struct command copy = { .name = "copy", .keys = KEYS(KEY_RANGE(1, 0, 1, RO), KEY_RANGE(2, 0, 1, OW)) };
static const struct command eval = { .name = "eval", .flags = COMMAND_NO_MANDATORY_KEYS, .keys = KEYS(KEY_NUMBERED(2, 1, RW)) };
static const struct command zunionstore = { .name = "zunionstore", .keys = KEYS(KEY_RANGE(1, 0, 1, OW), KEY_NUMBERED(2, 1, RO)) };
static const struct command blpop = { .name = "blpop", .keys = KEYS(KEY_RANGE(1, -2, 1, RW)) };
static const struct command xread = { .name = "xread", .keys = KEYS(KEY_AFTER("STREAMS", 1, -1, 1, 2, RO)) };
static const struct command xreadgroup = { .name = "xreadgroup", .keys = KEYS(KEY_AFTER("STREAMS", 4, -1, 1, 2, RO)) };
static const struct command migrate = { .name = "migrate",
    .keys = KEYS(KEY_RANGE(3, 0, 1, RW), KEY_AFTER("KEYS", -2, -1, 1, 0, RW | KEY_INCOMPLETE)) };
static const struct command sort = { .name = "sort",
    .keys = KEYS(KEY_RANGE(1, 0, 1, RO), { .flags = KEY_RO | KEY_ACCESS }, { .flags = OW }) };
static const struct command spublish = { .name = "spublish", .keys = KEYS(KEY_RANGE(1, 0, 1, KEY_NOT_KEY)) };
static const struct command set = { .name = "set", .keys = KEYS(KEY_RANGE(1, 0, 1, RW | KEY_VARIABLE_FLAGS)) };
static const struct command delex = { .name = "delex", .keys = KEYS(KEY_RANGE(1, 0, 1, KEY_RW | KEY_DELETE | KEY_VARIABLE_FLAGS)) };
static const struct command msetex = { .name = "msetex", .keys = KEYS(KEY_NUMBERED(1, 2, OW | KEY_BY_OPTIONS)) };
static const struct command bitfield = { .name = "bitfield", .keys = KEYS(KEY_RANGE(1, 0, 1, RW | KEY_VARIABLE_FLAGS)) };
static const struct command ping = { .name = "ping", .keys = NO_KEYS };

/* Splits at spaces. */
static int keys_of(const struct command *command, const char *line, struct call_key *keys, int capacity)
{
    struct bytes args[32];
    int count = 0;

    while (*line != '\0') {
        size_t size = strcspn(line, " ");

        args[count++] = bytes_of(line, size);
        line += size + (line[size] == ' ');
    }
    return command_keys(command, args, count, keys, capacity);
}

static void assert_keys(const struct command *command, const char *line, int expected, const int *args, const uint32_t *flags)
{
    struct call_key keys[16];

    assert_int_equal(keys_of(command, line, keys, 16), expected);
    for (int i = 0; i < expected; i++) {
        assert_int_equal(keys[i].arg, args[i]);
        assert_int_equal(keys[i].flags, flags[i]);
    }
}

#define ARGS(...) ((const int[]){ __VA_ARGS__ })
#define FLAGS(...) ((const uint32_t[]){ __VA_ARGS__ })

static void ranges_of_keys_are_found(void **state)
{
    assert_keys(&get, "get k", 1, ARGS(1), FLAGS(RO));
    assert_keys(&mget, "mget a b c", 3, ARGS(1, 2, 3), FLAGS(RO, RO, RO));
    assert_keys(&mset, "mset a 1 b 2", 2, ARGS(1, 3), FLAGS(OW, OW));
    assert_keys(&lcs, "lcs a b IDX", 2, ARGS(1, 2), FLAGS(RO, RO));
    assert_keys(&copy, "copy a b DB 1", 2, ARGS(1, 2), FLAGS(RO, OW));
    assert_keys(&blpop, "blpop a b 0", 2, ARGS(1, 2), FLAGS(RW, RW));
    assert_keys(&ping, "ping x", 0, NULL, NULL);
}

static void counted_keys_are_counted(void **state)
{
    assert_keys(&eval, "eval s 2 a b arg", 2, ARGS(3, 4), FLAGS(RW, RW));
    assert_keys(&eval, "eval s 0 arg", 0, NULL, NULL);
    assert_int_equal(keys_of(&zunionstore, "zunionstore d 0", NULL, 0), -1);
    assert_keys(&zunionstore, "zunionstore d 2 a b WEIGHTS 1 2", 3, ARGS(1, 3, 4), FLAGS(OW, RO, RO));
}

static void an_invalid_count_is_refused(void **state)
{
    static const char *const lines[] = {
        "eval s 3 a b", "eval s -1 a", "eval s x a", "eval s 99999999999 a", "eval s 9223372036854775807", "eval s 1", "eval s",
    };

    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
        assert_int_equal(keys_of(&eval, lines[i], NULL, 0), -1);
}

static void missing_arguments_are_refused(void **state)
{
    struct call_key keys[4];

    assert_int_equal(keys_of(&get, "get", keys, 4), -1);
    assert_int_equal(keys_of(&get, "get", keys, 0), -1);
    assert_int_equal(keys_of(&lcs, "lcs a", keys, 4), -1);
    assert_int_equal(keys_of(&copy, "copy a", keys, 4), -1);
    assert_int_equal(keys_of(&mget, "mget", keys, 4), 0);
}

static void keywords_are_searched_in_any_case_and_both_ways(void **state)
{
    assert_keys(&xread, "xread count 2 streams a b 0 0", 2, ARGS(4, 5), FLAGS(RO, RO));
    assert_keys(&xread, "xread count 2", 0, NULL, NULL);
    assert_keys(&xread, "xread streams", 0, NULL, NULL);
    assert_keys(&migrate, "migrate h 1 k 0 10", 1, ARGS(3), FLAGS(RW));
    assert_keys(&migrate, "migrate h 1 k 0 10 AUTH keys KEYS a b", 3, ARGS(3, 9, 10),
        FLAGS(RW, RW | KEY_INCOMPLETE, RW | KEY_INCOMPLETE));
}

static void names_of_a_group_and_of_a_consumer_are_no_keyword(void **state)
{
    assert_keys(&xreadgroup, "xreadgroup GROUP g c STREAMS a b > >", 2, ARGS(5, 6), FLAGS(RO, RO));
    assert_keys(&xreadgroup, "xreadgroup GROUP streams STREAMS STREAMS k >", 1, ARGS(5), FLAGS(RO));
    assert_keys(&xreadgroup, "xreadgroup COUNT 1 GROUP streams c STREAMS k >", 1, ARGS(7), FLAGS(RO));
    assert_keys(&xreadgroup, "xreadgroup NOACK group g streams streams k >", 1, ARGS(6), FLAGS(RO));
    assert_keys(&xreadgroup, "xreadgroup GROUP group c GROUP streams c STREAMS k >", 1, ARGS(8), FLAGS(RO));
    assert_keys(&xreadgroup, "xreadgroup STREAMS a b GROUP STREAMS c >", 0, NULL, NULL);
    assert_keys(&xreadgroup, "xreadgroup nosuch option c STREAMS k >", 1, ARGS(5), FLAGS(RO));
}

static void sort_stores_into_its_last_store(void **state)
{
    assert_keys(&sort, "sort k", 1, ARGS(1), FLAGS(RO));
    assert_keys(&sort, "sort k store a", 2, ARGS(1, 3), FLAGS(RO, OW));
    assert_keys(&sort, "sort k STORE a DESC store b", 2, ARGS(1, 6), FLAGS(RO, OW));
    assert_keys(&sort, "sort k BY store GET store LIMIT store store STORE d", 2, ARGS(1, 10), FLAGS(RO, OW));
    assert_keys(&sort, "sort k store", 1, ARGS(1), FLAGS(RO));
}

static void arguments_that_are_not_keys_are_left_out(void **state)
{
    assert_keys(&spublish, "spublish channel m", 0, NULL, NULL);
}

static void set_needs_the_old_value_only_when_an_option_asks_for_it(void **state)
{
    assert_keys(&set, "set k v", 1, ARGS(1), FLAGS(OW));
    assert_keys(&set, "set k v EX 10", 1, ARGS(1), FLAGS(OW));
    assert_keys(&set, "set get nx", 1, ARGS(1), FLAGS(OW));
    assert_keys(&set, "set k v NX", 1, ARGS(1), FLAGS(OW | KEY_RESIDENT));
    assert_keys(&set, "set k v PX 5 xx", 1, ARGS(1), FLAGS(OW | KEY_RESIDENT));
    assert_keys(&set, "set k v KeepTTL", 1, ARGS(1), FLAGS(OW | KEY_RESIDENT));
    assert_keys(&set, "set k v get", 1, ARGS(1), FLAGS(RW));
    assert_keys(&set, "set k v nx get", 1, ARGS(1), FLAGS(RW));
    assert_keys(&set, "set k v IFEQ w", 1, ARGS(1), FLAGS(RW));
    assert_keys(&set, "set k v EX 5 ifdne w", 1, ARGS(1), FLAGS(RW));
    assert_keys(&delex, "delex k", 1, ARGS(1), FLAGS(KEY_RM | KEY_DELETE));
    assert_keys(&delex, "delex k IFNE v", 1, ARGS(1), FLAGS(KEY_RW | KEY_DELETE));
    assert_keys(&msetex, "msetex 2 a 1 b 2", 2, ARGS(2, 4), FLAGS(OW, OW));
    assert_keys(&msetex, "msetex 2 a nx b xx EX 5", 2, ARGS(2, 4), FLAGS(OW, OW));
    assert_keys(&msetex, "msetex 2 a 1 b 2 EX 5 nx", 2, ARGS(2, 4), FLAGS(OW | KEY_RESIDENT, OW | KEY_RESIDENT));
    assert_keys(&msetex, "msetex 1 a 1 KEEPTTL", 1, ARGS(2), FLAGS(OW | KEY_RESIDENT));
    assert_keys(&msetex, "msetex 3 a 1 b 2", -1, NULL, NULL);
    assert_keys(&msetex, "msetex 0 a 1", -1, NULL, NULL);
    assert_keys(&msetex, "msetex x a 1", -1, NULL, NULL);
}

static void bitfield_reads_only_when_it_does_nothing_but_get(void **state)
{
    assert_keys(&bitfield, "bitfield k", 1, ARGS(1), FLAGS(RO));
    assert_keys(&bitfield, "bitfield k GET u8 0 get u8 8", 1, ARGS(1), FLAGS(RO));
    assert_keys(&bitfield, "bitfield k OVERFLOW SAT GET u8 0", 1, ARGS(1), FLAGS(RO));
    assert_keys(&bitfield, "bitfield k GET u8 0 SET u8 0 1", 1, ARGS(1), FLAGS(RW));
    assert_keys(&bitfield, "bitfield k GET u8", 1, ARGS(1), FLAGS(RW));
    assert_keys(&bitfield, "bitfield k INCRBY u8 0 1", 1, ARGS(1), FLAGS(RW));
}

static void keys_over_the_capacity_are_counted_but_not_written(void **state)
{
    struct call_key keys[3] = { { .arg = 0 }, { .arg = 0 }, { .arg = -7 } };

    assert_int_equal(keys_of(&mget, "mget a b c d e", keys, 2), 5);
    assert_int_equal(keys[1].arg, 2);
    assert_int_equal(keys[2].arg, -7);
    assert_int_equal(keys_of(&get, "get k", NULL, 0), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_of_keys_are_found),
        cmocka_unit_test(counted_keys_are_counted),
        cmocka_unit_test(an_invalid_count_is_refused),
        cmocka_unit_test(missing_arguments_are_refused),
        cmocka_unit_test(keywords_are_searched_in_any_case_and_both_ways),
        cmocka_unit_test(names_of_a_group_and_of_a_consumer_are_no_keyword),
        cmocka_unit_test(sort_stores_into_its_last_store),
        cmocka_unit_test(arguments_that_are_not_keys_are_left_out),
        cmocka_unit_test(set_needs_the_old_value_only_when_an_option_asks_for_it),
        cmocka_unit_test(bitfield_reads_only_when_it_does_nothing_but_get),
        cmocka_unit_test(keys_over_the_capacity_are_counted_but_not_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
