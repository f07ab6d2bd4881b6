#include "support/unit.h"

#include "call/streamed.h"

static const struct command
    set = { .name = "set", .flags = COMMAND_WRITE },
    publish = { .name = "publish", .flags = COMMAND_PUBSUB | COMMAND_MAY_REPLICATE },
    migrate = { .name = "migrate", .flags = COMMAND_WRITE | COMMAND_OWNS_KEYS },
    get = { .name = "get", .flags = COMMAND_READONLY },
    shutdown = { .name = "shutdown", .flags = COMMAND_ADMIN },
    any = { .name = "" };

static enum streamed_kind kind_of(const struct command *command, const char *name, int arg_count)
{
    struct bytes args[2] = { bytes_of_string(name), BYTES("x") };

    return streamed_kind(command, args, arg_count);
}

static void what_changes_data_is_run(void **state)
{
    (void)state;
    assert_int_equal(kind_of(&set, "SET", 3), STREAMED_CHANGE);
    assert_int_equal(kind_of(&publish, "publish", 3), STREAMED_CHANGE);
    assert_int_equal(kind_of(&any, "SELECT", 2), STREAMED_CHANGE);
}

static void what_changes_the_server_is_not_run(void **state)
{
    (void)state;
    assert_int_equal(kind_of(&get, "get", 2), STREAMED_FOREIGN);
    assert_int_equal(kind_of(&shutdown, "shutdown", 1), STREAMED_FOREIGN);
    assert_int_equal(kind_of(&migrate, "migrate", 6), STREAMED_FOREIGN);
    assert_int_equal(kind_of(NULL, "unknown", 1), STREAMED_FOREIGN);
}

static void groups_have_brackets(void **state)
{
    (void)state;
    assert_int_equal(kind_of(&any, "multi", 1), STREAMED_BRACKET);
    assert_int_equal(kind_of(&any, "EXEC", 1), STREAMED_BRACKET);
    assert_int_equal(kind_of(&any, "discard", 1), STREAMED_FOREIGN);
}

static void signs_count_as_bytes_only(void **state)
{
    (void)state;
    assert_int_equal(kind_of(&any, "ping", 1), STREAMED_SIGN);
    assert_int_equal(kind_of(&any, "REPLCONF", 2), STREAMED_SIGN);
    assert_int_equal(kind_of(&any, "replconf", 1), STREAMED_FOREIGN);
}

static void getack_is_a_replconf_of_at_least_two_words(void **state)
{
    struct bytes getack[] = { BYTES("replconf"), BYTES("GETACK"), BYTES("*") }, ack[] = { BYTES("replconf"), BYTES("ack"), BYTES("1") };

    (void)state;
    assert_true(streamed_is_getack(getack, 3));
    assert_true(streamed_is_getack(getack, 2));
    assert_false(streamed_is_getack(getack, 1));
    assert_false(streamed_is_getack(ack, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_changes_data_is_run),
        cmocka_unit_test(what_changes_the_server_is_not_run),
        cmocka_unit_test(groups_have_brackets),
        cmocka_unit_test(signs_count_as_bytes_only),
        cmocka_unit_test(getack_is_a_replconf_of_at_least_two_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
