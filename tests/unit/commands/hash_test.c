#include "support/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "commands/rows.h"
#include "support/command_box.h"
#include "support/seed.h"

static int open_box(void **state)
{
    struct command_box *box = mem_alloc(sizeof(*box));
    uint64_t seed = seed_new();

    command_box_create(box, hash_commands, seed);
    *state = box;
    return 0;
}

static int close_box(void **state)
{
    command_box_destroy(*state);
    mem_free(*state);
    return 0;
}

static void assert_did(struct command_box *box, const char *line, const char *reply, const char *events, uint64_t changes)
{
    assert_string_equal(command_box_say(box, line), reply);
    assert_string_equal(box->events.data, events);
    assert_int_equal(box->change_count, changes);
}

static void every_pair_set_counts_as_a_change(void **state)
{
    struct command_box *box = *state;

    assert_did(box, "HSET h a 1 b 2", ":2\n", "hset h", 2);
    assert_did(box, "HSET h b 2 c 3 c 4", ":1\n", "hset h", 3);
    assert_did(box, "HMSET h d 4", "+OK\n", "hset h", 1);
    assert_did(box, "HGET h c", "$1\n4\n", "", 0);
    assert_did(box, "HLEN h", ":4\n", "", 0);
}

static void hsetnx_of_an_existing_field_changes_nothing(void **state)
{
    struct command_box *box = *state;

    assert_did(box, "HSETNX h a 1", ":1\n", "hset h", 1);
    assert_did(box, "HSETNX h a 2", ":0\n", "", 0);
    assert_did(box, "HGET h a", "$1\n1\n", "", 0);
}

static void an_empty_hash_is_removed(void **state)
{
    struct command_box *box = *state;

    command_box_say(box, "HSET h a 1 b 2 c 3");
    assert_did(box, "HDEL h x", ":0\n", "", 0);
    assert_did(box, "HDEL h a b a", ":2\n", "hdel h", 2);
    assert_did(box, "HDEL h c c x", ":1\n", "hdel h, del h", 1);
    assert_did(box, "HDEL h c", ":0\n", "", 0);
    assert_int_equal(partitions_entry_count(box->partitions, 0), 0);
}

static void an_empty_table_is_removed_too(void **state)
{
    struct command_box *box = *state;

    box->turn.limits.hash_listpack_entries_max = 1;
    command_box_say(box, "HSET h a 1 b 2 c 3");
    assert_did(box, "HDEL h b a c", ":3\n", "hdel h, del h", 3);
    assert_int_equal(partitions_entry_count(box->partitions, 0), 0);
}

static void an_increment_that_fails_creates_no_key(void **state)
{
    struct command_box *box = *state;

    command_box_say(box, "HINCRBY h a x");
    assert_true(box->failed);
    command_box_say(box, "HINCRBYFLOAT h a inf");
    assert_true(box->failed);
    assert_int_equal(partitions_entry_count(box->partitions, 0), 0);
    command_box_say(box, "HSET h a 9223372036854775807");
    assert_did(box, "HINCRBY h a 1", "-ERR increment or decrement would overflow\n", "", 0);
    assert_did(box, "HINCRBY h a -1", ":9223372036854775806\n", "hincrby h", 1);
    assert_string_equal(box->propagated.data, "");
}

static void a_float_increment_is_logged_as_its_sum(void **state)
{
    struct command_box *box = *state;

    assert_did(box, "HINCRBYFLOAT h a 0.1", "$3\n0.1\n", "hincrbyfloat h", 1);
    assert_string_equal(box->propagated.data, "HSET h a 0.1");
    assert_did(box, "HINCRBYFLOAT h a 0.2", "$3\n0.3\n", "hincrbyfloat h", 1);
    assert_string_equal(box->propagated.data, "HSET h a 0.3");
    command_box_say(box, "HSET h a x");
    assert_did(box, "HINCRBYFLOAT h a 1", "-ERR hash value is not a float\n", "", 0);
    assert_string_equal(box->propagated.data, "");
}

static void a_change_keeps_the_expiry_and_an_expired_hash_is_new(void **state)
{
    struct command_box *box = *state;
    uint64_t hash = key_hash(&box->partitions->seed, BYTES("h"));
    struct keyspace *keyspace;
    uint32_t handle;

    command_box_say(box, "HSET h a 1");
    keyspace = box->partitions->partitions[partition_index(box->partitions, hash)].keyspaces[0];
    handle = keyspace_find(keyspace, hash, BYTES("h"));
    keyspace_set_expire(keyspace, hash, handle, box->turn.now_ms + 10, box->turn.now_ms);
    command_box_say(box, "HSET h b 2");
    handle = keyspace_find(keyspace, hash, BYTES("h"));
    assert_int_equal(entry_expire_ms(keyspace_entry(keyspace, handle)), box->turn.now_ms + 10);
    box->turn.now_ms += 10;
    assert_did(box, "HSETNX h a 5", ":1\n", "expired h, hset h", 1);
    assert_string_equal(box->propagated.data, "DEL h");
    assert_did(box, "HGETALL h", "*2\n$1\na\n$1\n5\n", "", 0);
}

static void all_pairs_are_a_map_in_resp3(void **state)
{
    struct command_box *box = *state;

    box->client.reply.protocol = 3;
    assert_did(box, "HGETALL h", "%0\n", "", 0);
    assert_did(box, "HKEYS h", "*0\n", "", 0);
    command_box_say(box, "HSET h a 1 b 2");
    assert_did(box, "HGETALL h", "%2\n$1\na\n$1\n1\n$1\nb\n$1\n2\n", "", 0);
    assert_did(box, "HRANDFIELD h 5 WITHVALUES", "*2\n*2\n$1\na\n$1\n1\n*2\n$1\nb\n$1\n2\n", "", 0);
    assert_did(box, "HMGET h b x", "*2\n$1\n2\n_\n", "", 0);
}

static void draws_are_bounded(void **state)
{
    struct command_box *box = *state;

    command_box_say(box, "HSET h a 1");
    assert_string_equal(command_box_say(box, "HRANDFIELD h -9223372036854775807"), "-ERR value is out of range\n");
    assert_string_equal(command_box_say(box, "HRANDFIELD h -3"), "*3\n$1\na\n$1\na\n$1\na\n");
}

/* Fills the hash with f0 ... and counts how often each field was drawn in `rounds` draws of `count`; the fields of one draw must
 * all be different. */
static void draw(struct command_box *box, int fields, int count, int rounds, int *drawn)
{
    char line[64];

    for (int i = 0; i < fields; i++) {
        snprintf(line, sizeof(line), "HSET h f%d v%d", i, i);
        command_box_say(box, line);
        drawn[i] = 0;
    }
    for (int round = 0; round < rounds; round++) {
        int found = 0;

        snprintf(line, sizeof(line), "HRANDFIELD h %d WITHVALUES", count);
        for (const char *at = command_box_say(box, line); (at = strstr(at, "\nf")) != NULL; found++) {
            int field, length, value;

            assert_int_equal(sscanf(at, "\nf%d\n$%d\nv%d", &field, &length, &value), 3);
            assert_int_equal(field, value);
            assert_in_range(field, 0, fields - 1);
            drawn[field] += 1;
            assert_in_range(drawn[field], 1, round + 1);
            at += 2;
        }
        assert_int_equal(found, count);
    }
}

/* Every field is within 8 standard deviations of the expected count. */
static void every_field_is_drawn_as_often_as_any_other(void **state)
{
    static const struct { int fields, count, rounds; } cases[] = { { 10, 3, 20000 }, { 300, 40, 5000 }, { 300, 200, 5000 } };
    struct command_box *box = *state;
    int drawn[300];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        double chance = (double)cases[i].count / cases[i].fields, expected = cases[i].rounds * chance;
        double variance = expected * (1 - chance);

        draw(box, cases[i].fields, cases[i].count, cases[i].rounds, drawn);
        for (int field = 0; field < cases[i].fields; field++) {
            double off = drawn[field] - expected;

            assert_true(off * off < 64 * variance);
        }
    }
}

static void a_scan_with_any_cursor_and_count_is_safe(void **state)
{
    static const char *const lines[] = {
        "HSCAN h 18446744073709551615", "HSCAN h -1", "HSCAN h +7 COUNT 9223372036854775807",
        "HSCAN h 3 COUNT 1844674407370955162", "HSCAN h 1000000 MATCH *", "HSCAN h 0 MATCH [",
    };
    struct command_box *box = *state;
    int drawn[300];

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        assert_string_equal(command_box_say(box, lines[i]), "*2\n$1\n0\n*0\n");
    }
    draw(box, 300, 1, 1, drawn);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        command_box_say(box, lines[i]);
        assert_false(box->failed);
    }
    assert_string_equal(command_box_say(box, "HSCAN h 18446744073709551616"), "-ERR invalid cursor\n");
    assert_string_equal(command_box_say(box, "HSCAN h 1x"), "-ERR invalid cursor\n");
    assert_string_equal(command_box_say(box, "HSCAN h -"), "-ERR invalid cursor\n");
    assert_string_equal(command_box_say(box, "HSCAN h 0 MATCH f299 COUNT 9223372036854775807"),
        "*2\n$1\n0\n*2\n$4\nf299\n$4\nv299\n");
}

#define BOX_TEST(test) cmocka_unit_test_setup_teardown(test, open_box, close_box)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOX_TEST(every_pair_set_counts_as_a_change),
        BOX_TEST(hsetnx_of_an_existing_field_changes_nothing),
        BOX_TEST(an_empty_hash_is_removed),
        BOX_TEST(an_empty_table_is_removed_too),
        BOX_TEST(an_increment_that_fails_creates_no_key),
        BOX_TEST(a_float_increment_is_logged_as_its_sum),
        BOX_TEST(a_change_keeps_the_expiry_and_an_expired_hash_is_new),
        BOX_TEST(all_pairs_are_a_map_in_resp3),
        BOX_TEST(draws_are_bounded),
        BOX_TEST(every_field_is_drawn_as_often_as_any_other),
        BOX_TEST(a_scan_with_any_cursor_and_count_is_safe),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
