#include "support/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "commands/rows.h"
#include "keyspace/partition.h"
#include "support/command_box.h"
#include "support/seed.h"
#include "value/string.h"

enum { ROWS_MAX = 128 };

struct box {
    struct command_box box;
    struct command rows[ROWS_MAX];
};

/* PUT key value: the simplest way to create a string. */
static void put_command(struct call *call)
{
    struct key key;

    key_open(call, 1, KEY_FOR_OVERWRITING, &key);
    key_set_string(&key, call->args[2]);
    key.expire_ms = -1;
    key_changed(&key, EVENT_SET);
    reply_ok(call->reply);
}

/* SEE key: its value, if it is a string. */
static void see_command(struct call *call)
{
    char digits[TEXT_INT_SIZE];
    struct key key;

    if (!key_open_as(call, 1, KEY_FOR_LOOKING, VALUE_STRING, &key))
        return;
    if (key.present)
        reply_bulk(call->reply, string_bytes(&key.value, digits));
    else
        reply_null(call->reply);
}

static const struct command own_rows[] = {
    { .name = "put", .run = put_command, .arity = 3, .keys = KEYS(KEY_RANGE(1, 0, 1, KEY_OW)) },
    { .name = "see", .run = see_command, .arity = 2, .keys = KEYS(KEY_RANGE(1, 0, 1, KEY_RO)) },
    { .name = NULL }
};

static int add_rows(struct command *rows, int count, const struct command *more)
{
    for (; more->name != NULL; more++) {
        if (more->run != NULL && strchr(more->name, '|') == NULL)
            rows[count++] = *more;
    }
    rows[count].name = NULL;
    CHECK(count < ROWS_MAX);
    return count;
}

static int open_box(void **state)
{
    struct box *box = mem_zalloc(sizeof(*box));
    uint64_t seed = seed_new();

    add_rows(box->rows, add_rows(box->rows, add_rows(box->rows, 0, keys_commands), hash_commands), own_rows);
    command_box_create(&box->box, box->rows, seed);
    *state = box;
    return 0;
}

static int close_box(void **state)
{
    struct box *box = *state;

    for (uint32_t i = 0; i < box->box.partitions->count; i++) {
        for (int db = 0; db < box->box.partitions->db_count; db++) {
            if (box->box.partitions->partitions[i].keyspaces[db] != NULL)
                keyspace_verify(box->box.partitions->partitions[i].keyspaces[db]);
        }
    }
    command_box_destroy(&box->box);
    mem_free(box);
    return 0;
}

static void assert_says(void **state, const char *line, const char *reply)
{
    assert_string_equal(command_box_say(*state, line), reply);
}

/* `propagated` empty: the command's own words, if there are changes. */
static void assert_did(void **state, const char *line, const char *reply, const char *events, uint64_t changes,
    const char *propagated)
{
    struct command_box *box = *state;

    assert_says(state, line, reply);
    assert_string_equal(box->events.data, events);
    assert_int_equal(box->change_count, changes);
    assert_string_equal(box->propagated.data, propagated);
}

static void later(void **state, int64_t ms)
{
    struct command_box *box = *state;

    box->turn.now_ms += ms;
    box->turn.minutes = heat_minutes(box->turn.now_ms);
}

static void del_counts_each_key_once(void **state)
{
    command_box_say(*state, "PUT a 1");
    command_box_say(*state, "PUT b 2");
    command_box_say(*state, "HSET h f v");
    assert_did(state, "DEL a a missing h", ":2\n", "del a, del h", 2, "");
    assert_did(state, "DEL a", ":0\n", "", 0, "");
    assert_did(state, "UNLINK b", ":1\n", "del b", 1, "");
}

static void exists_counts_a_key_as_often_as_it_is_given(void **state)
{
    command_box_say(*state, "PUT a 1");
    assert_says(state, "EXISTS a a b", ":2\n");
    assert_says(state, "TOUCH a a b", ":2\n");
    assert_says(state, "TYPE a", "+string\n");
    assert_says(state, "TYPE b", "+none\n");
}

/* Values of every representation: inline, integer, large, an object; and each of them overwritten. */
static void a_renamed_key_keeps_value_and_expiry(void **state)
{
    static const char *const values[] = { "", "12", "hello", "a-string-of-more-than-forty-four-bytes-that-is-kept-in-line" };
    struct command_box *box = *state;
    char line[16384], big[8192];

    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = 0;
    for (int from = 0; from < 6; from++) {
        for (int to = 0; to < 7; to++) {
            for (int is_target = 0; is_target < 2; is_target++) {
                const char *key = is_target ? "t" : "s";
                int kind = is_target ? to : from;

                snprintf(line, sizeof(line), "DEL %s", key);
                command_box_say(box, line);
                if (kind < 4 || kind == 4)
                    snprintf(line, sizeof(line), "PUT %s %s", key, kind == 4 ? big : values[kind]);
                else
                    snprintf(line, sizeof(line), kind == 5 ? "HSET %s f v" : "DEL %s", key);
                command_box_say(box, line);
            }
            command_box_say(box, "PEXPIREAT t 1800000000000");
            command_box_say(box, "PEXPIREAT s 1900000000000");
            assert_did(state, "RENAME s t", "+OK\n", "rename_from s, rename_to t", 1, "");
            assert_says(state, "EXISTS s", ":0\n");
            assert_says(state, "PEXPIRETIME t", ":1900000000000\n");
            if (from == 5) {
                assert_says(state, "HGETALL t", "*2\n$1\nf\n$1\nv\n");
            } else {
                const char *value = from == 4 ? big : values[from];

                snprintf(line, sizeof(line), "$%zu\n%s\n", strlen(value), value);
                assert_says(state, "SEE t", line);
            }
        }
    }
}

static void rename_reads_the_target_only_if_needed(void **state)
{
    command_box_say(*state, "PUT a 1");
    command_box_say(*state, "PUT b 2");
    assert_did(state, "RENAME missing b", "-ERR no such key\n", "", 0, "");
    assert_did(state, "RENAMENX missing b", "-ERR no such key\n", "", 0, "");
    assert_did(state, "RENAMENX a b", ":0\n", "", 0, "");
    assert_did(state, "RENAME a a", "+OK\n", "", 0, "");
    assert_did(state, "RENAMENX a a", ":0\n", "", 0, "");
    assert_did(state, "RENAMENX a c", ":1\n", "rename_from a, rename_to c", 1, "");
    assert_says(state, "SEE c", "$1\n1\n");
}

static void an_expired_target_does_not_exist(void **state)
{
    command_box_say(*state, "PUT a a-value-that-is-kept-in-line");
    command_box_say(*state, "PUT b 2");
    command_box_say(*state, "PEXPIRE b 10");
    later(state, 11);
    assert_did(state, "RENAMENX a b", ":1\n", "expired b, rename_from a, rename_to b", 1, "DEL b");
    assert_says(state, "SEE b", "$28\na-value-that-is-kept-in-line\n");
    command_box_say(*state, "PUT c 2");
    command_box_say(*state, "PEXPIRE c 10");
    later(state, 11);
    assert_did(state, "COPY b c", ":1\n", "expired c, copy_to c", 1, "DEL c");
    assert_says(state, "SEE c", "$28\na-value-that-is-kept-in-line\n");
}

static void a_renamed_key_keeps_its_heat(void **state)
{
    struct command_box *box = *state;
    uint64_t hash = key_hash(&box->partitions->seed, BYTES("b"));
    struct partition *partition = &box->partitions->partitions[partition_index(box->partitions, hash)];
    struct keyspace *keyspace;

    command_box_say(box, "PUT a 1");
    for (int i = 0; i < 500; i++)
        command_box_say(box, "TOUCH a");
    command_box_say(box, "RENAME a b");
    keyspace = partition_keyspace_if(partition, 0);
    assert_true(keyspace_entry(keyspace, keyspace_find(keyspace, hash, BYTES("b")))->heat > HEAT_NEW);
}

static void a_copy_is_independent_of_its_source(void **state)
{
    command_box_say(*state, "HSET h f v");
    command_box_say(*state, "PEXPIREAT h 1900000000000");
    assert_did(state, "COPY h i", ":1\n", "copy_to i", 1, "");
    assert_did(state, "COPY h i", ":0\n", "", 0, "");
    assert_did(state, "COPY missing i REPLACE", ":0\n", "", 0, "");
    command_box_say(*state, "HSET i f other");
    assert_says(state, "HGET h f", "$1\nv\n");
    assert_says(state, "PEXPIRETIME i", ":1900000000000\n");
    assert_did(state, "COPY h i REPLACE", ":1\n", "copy_to i", 1, "");
    assert_says(state, "HGET i f", "$1\nv\n");
    assert_says(state, "COPY h h", "-ERR source and destination objects are the same\n");
    assert_says(state, "COPY h h DB 1", ":1\n");
    assert_says(state, "COPY h x DB 2", "-ERR DB index is out of range\n");
    assert_says(state, "COPY h x DB", "-ERR syntax error\n");
}

static void move_moves_the_key_to_the_other_database(void **state)
{
    command_box_say(*state, "HSET h f v");
    command_box_say(*state, "PEXPIREAT h 1900000000000");
    assert_did(state, "MOVE h 1", ":1\n", "move_from h, move_to h", 1, "");
    assert_did(state, "MOVE h 1", ":0\n", "", 0, "");
    command_box_say(*state, "PUT h again");
    assert_did(state, "MOVE h 1", ":0\n", "", 0, "");
    assert_says(state, "MOVE h 0", "-ERR source and destination objects are the same\n");
    assert_says(state, "MOVE h -1", "-ERR DB index is out of range\n");
    assert_says(state, "MOVE h 2147483648", "-ERR value is out of range, value must between -2147483648 and 2147483647\n");
    assert_says(state, "SELECT 1", "+OK\n");
    assert_says(state, "HGETALL h", "*2\n$1\nf\n$1\nv\n");
    assert_says(state, "PEXPIRETIME h", ":1900000000000\n");
}

static void the_log_gets_absolute_times(void **state)
{
    command_box_say(*state, "PUT k v");
    assert_did(state, "EXPIRE k 100 NX", ":1\n", "expire k", 1, "PEXPIREAT k 1700000100000");
    assert_did(state, "PEXPIRE k 7", ":1\n", "expire k", 1, "PEXPIREAT k 1700000000007");
    assert_did(state, "EXPIREAT k 1800000000", ":1\n", "expire k", 1, "PEXPIREAT k 1800000000000");
    assert_did(state, "PEXPIREAT k 1800000000001 GT", ":1\n", "expire k", 1, "PEXPIREAT k 1800000000001");
    assert_did(state, "PEXPIREAT k 1800000000001 GT", ":0\n", "", 0, "");
    assert_did(state, "PERSIST k", ":1\n", "persist k", 1, "");
    assert_did(state, "PERSIST k", ":0\n", "", 0, "");
}

static void a_time_in_the_past_deletes_the_key(void **state)
{
    command_box_say(*state, "PUT k v");
    assert_did(state, "EXPIRE k 0", ":1\n", "del k", 1, "DEL k");
    assert_did(state, "EXPIRE k 0", ":0\n", "", 0, "");
}

/* The log says when a key expires, by DEL; the clock is ignored while it is replayed. */
static void nothing_expires_while_the_clock_is_stopped(void **state)
{
    struct command_box *box = *state;

    box->turn.clock_stopped = true;
    command_box_say(box, "PUT k v");
    assert_did(state, "PEXPIREAT k 5", ":1\n", "expire k", 1, "PEXPIREAT k 5");
    assert_did(state, "PEXPIREAT k -5", ":1\n", "expire k", 1, "PEXPIREAT k 0");
    assert_says(state, "EXISTS k", ":1\n");
    box->turn.clock_stopped = false;
    assert_says(state, "EXISTS k", ":0\n");
}

static void times_left_are_rounded(void **state)
{
    command_box_say(*state, "PUT k v");
    command_box_say(*state, "PEXPIRE k 1499");
    assert_says(state, "TTL k", ":1\n");
    assert_says(state, "PTTL k", ":1499\n");
    command_box_say(*state, "PEXPIRE k 1500");
    assert_says(state, "TTL k", ":2\n");
    assert_says(state, "EXPIRETIME k", ":1700000002\n");
    command_box_say(*state, "PEXPIREAT k 9223372036854775807");
    assert_says(state, "EXPIRETIME k", ":9223372036854776\n");
    command_box_say(*state, "PERSIST k");
    assert_says(state, "TTL k", ":-1\n");
    assert_says(state, "TTL missing", ":-2\n");
}

static void times_out_of_range_are_refused(void **state)
{
    static const char *const names[] = { "expire", "pexpire", "expireat" };
    char line[128], reply[128];

    command_box_say(*state, "PUT k v");
    for (size_t i = 0; i < 3; i++) {
        snprintf(line, sizeof(line), "%s k 9223372036854775807", names[i]);
        snprintf(reply, sizeof(reply), "-ERR invalid expire time in '%s' command\n", names[i]);
        assert_did(state, line, reply, "", 0, "");
    }
    assert_says(state, "EXPIRE k -9223372036854775808", "-ERR invalid expire time in 'expire' command\n");
    assert_says(state, "EXPIRE k x", "-ERR value is not an integer or out of range\n");
    assert_says(state, "EXPIRE k x foo", "-ERR Unsupported option foo\n");
}

/* The payload of DUMP, between the reply's header and the end of its last line. */
static struct bytes dumped(struct command_box *box, const char *key, char *copy, size_t room)
{
    struct bytes args[] = { BYTES("DUMP"), bytes_of_string(key) };
    const struct buffer *out = &box->client.reply.out;
    const char *start;

    command_box_run(box, args, 2);
    start = memchr(out->data, '\n', out->size);
    assert_non_null(start);
    start++;
    assert_true((size_t)(out->data + out->size - start) - 2 <= room);
    memcpy(copy, start, (size_t)(out->data + out->size - start) - 2);
    return bytes_of(copy, (size_t)(out->data + out->size - start) - 2);
}

static const char *restore(struct command_box *box, const char *ttl, struct bytes dump, const char *option)
{
    struct bytes args[] = { BYTES("RESTORE"), BYTES("new"), bytes_of_string(ttl), dump,
                            bytes_of_string(option == NULL ? "" : option) };

    return command_box_run(box, args, option == NULL ? 4 : 5);
}

static void dumped_values_can_be_restored(void **state)
{
    struct command_box *box = *state;
    char copy[256];
    struct bytes dump;

    command_box_say(box, "HSET h f v");
    dump = dumped(box, "h", copy, sizeof(copy));
    assert_string_equal(restore(box, "0", dump, NULL), "+OK\n");
    assert_string_equal(box->events.data, "restore new");
    assert_string_equal(box->propagated.data, "");
    assert_string_equal(restore(box, "0", dump, NULL), "-BUSYKEY Target key name already exists.\n");
    assert_int_equal(box->change_count, 0);
    assert_string_equal(restore(box, "5000", dump, "REPLACE"), "+OK\n");
    assert_non_null(strstr(box->propagated.data, "RESTORE new 1700000005000 "));
    assert_string_equal(box->propagated.data + box->propagated.size - strlen(" REPLACE ABSTTL"), " REPLACE ABSTTL");
    assert_says(state, "PTTL new", ":5000\n");
    assert_says(state, "HGETALL new", "*2\n$1\nf\n$1\nv\n");
}

static void expired_values_are_not_restored(void **state)
{
    struct command_box *box = *state;
    char copy[256];
    struct bytes dump, args[] = { BYTES("RESTORE"), BYTES("new"), BYTES("1"), { 0 }, BYTES("ABSTTL"), BYTES("REPLACE") };

    command_box_say(box, "PUT k v");
    args[3] = dump = dumped(box, "k", copy, sizeof(copy));
    assert_string_equal(restore(box, "1", dump, "ABSTTL"), "+OK\n");
    assert_int_equal(box->change_count, 0);
    assert_string_equal(command_box_run(box, args, 6), "+OK\n");
    assert_int_equal(box->change_count, 0);
    command_box_say(box, "PUT new v");
    assert_string_equal(command_box_run(box, args, 6), "+OK\n");
    assert_string_equal(box->events.data, "del new");
    assert_string_equal(box->propagated.data, "DEL new");
    assert_says(state, "EXISTS new", ":0\n");
}

static void a_damaged_dump_is_refused(void **state)
{
    struct command_box *box = *state;
    char copy[256];
    struct bytes dump;

    command_box_say(box, "PUT k value");
    dump = dumped(box, "k", copy, sizeof(copy));
    for (size_t i = 0; i < dump.size; i++) {
        copy[i] ^= 1;
        assert_string_equal(restore(box, "0", dump, NULL), "-ERR DUMP payload version or checksum are wrong\n");
        copy[i] ^= 1;
    }
    assert_string_equal(restore(box, "-1", dump, NULL), "-ERR Invalid TTL value, must be >= 0\n");
    assert_string_equal(restore(box, "0", dump, "IDLETIME"), "-ERR syntax error\n");
    assert_says(state, "EXISTS new", ":0\n");
}

static bool is_unreadable(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    return false;
}

/* To return "missing" would be wrong, and would overwrite the existing value. */
static void a_key_that_cannot_be_read_is_not_overwritten(void **state)
{
    static const char error[] = "-ERR the key's record can't be read from the store (see the log and INFO tiering)\n";
    struct command_box *box = *state;
    char copy[256];
    struct bytes dump;

    command_box_say(box, "PUT k v");
    dump = dumped(box, "k", copy, sizeof(copy));
    box->hooks.load_in_place = is_unreadable;
    assert_did(state, "MOVE k 1", error, "", 0, "");
    assert_did(state, "COPY k l", error, "", 0, "");
    assert_did(state, "COPY k l REPLACE", ":1\n", "copy_to l", 1, "");
    assert_string_equal(restore(box, "0", dump, NULL), error);
    assert_int_equal(box->change_count, 0);
    assert_string_equal(restore(box, "0", dump, "REPLACE"), "+OK\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(del_counts_each_key_once, open_box, close_box),
        cmocka_unit_test_setup_teardown(exists_counts_a_key_as_often_as_it_is_given, open_box, close_box),
        cmocka_unit_test_setup_teardown(a_renamed_key_keeps_value_and_expiry, open_box, close_box),
        cmocka_unit_test_setup_teardown(rename_reads_the_target_only_if_needed, open_box, close_box),
        cmocka_unit_test_setup_teardown(an_expired_target_does_not_exist, open_box, close_box),
        cmocka_unit_test_setup_teardown(a_renamed_key_keeps_its_heat, open_box, close_box),
        cmocka_unit_test_setup_teardown(a_copy_is_independent_of_its_source, open_box, close_box),
        cmocka_unit_test_setup_teardown(move_moves_the_key_to_the_other_database, open_box, close_box),
        cmocka_unit_test_setup_teardown(the_log_gets_absolute_times, open_box, close_box),
        cmocka_unit_test_setup_teardown(a_time_in_the_past_deletes_the_key, open_box, close_box),
        cmocka_unit_test_setup_teardown(nothing_expires_while_the_clock_is_stopped, open_box, close_box),
        cmocka_unit_test_setup_teardown(times_left_are_rounded, open_box, close_box),
        cmocka_unit_test_setup_teardown(times_out_of_range_are_refused, open_box, close_box),
        cmocka_unit_test_setup_teardown(dumped_values_can_be_restored, open_box, close_box),
        cmocka_unit_test_setup_teardown(expired_values_are_not_restored, open_box, close_box),
        cmocka_unit_test_setup_teardown(a_damaged_dump_is_refused, open_box, close_box),
        cmocka_unit_test_setup_teardown(a_key_that_cannot_be_read_is_not_overwritten, open_box, close_box),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
