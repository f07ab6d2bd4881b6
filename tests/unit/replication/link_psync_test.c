#include "replication/link_psync.h"

#include "support/unit.h"

#define ID "0123456789abcdef0123456789abcdef01234567"

static enum psync_result parse(const char *line, struct psync_reply *reply)
{
    return psync_parse(bytes_of_string(line), reply);
}

static void valid_replies(void **state)
{
    struct psync_reply reply;

    assert_int_equal(parse("+CONTINUE", &reply), PSYNC_CONTINUE);
    assert_string_equal(reply.id, "");
    assert_int_equal(parse("+CONTINUE " ID, &reply), PSYNC_CONTINUE);
    assert_string_equal(reply.id, ID);
    assert_int_equal(parse("+FULLRESYNC " ID " 0", &reply), PSYNC_FULL);
    assert_string_equal(reply.id, ID);
    assert_int_equal(reply.offset, 0);
    assert_int_equal(parse("+FULLRESYNC " ID " 2305843009213693952", &reply), PSYNC_FULL);
    assert_int_equal(reply.offset, HISTORY_OFFSET_MAX);
}

static void replies_that_are_not_valid(void **state)
{
    static const char *const lines[] = {
        "", "+", "+OK", "+CONTINUE ", "+CONTINUE x", "+CONTINUE " ID " ", "+CONTINUE " ID "0", "+CONTINUE" ID, "+FULLRESYNC", "+FULLRESYNC ",
        "+FULLRESYNC " ID, "+FULLRESYNC " ID " ", "+FULLRESYNC " ID " -1", "+FULLRESYNC " ID " 1 ", "+FULLRESYNC " ID " 2305843009213693953",
        "+FULLRESYNC " ID " 99999999999999999999", "+FULLRESYNC g123456789abcdef0123456789abcdef01234567 1", "+FULLRESYNC 01234 1", "$5",
    };
    struct psync_reply reply;

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        assert_int_equal(parse(lines[i], &reply), PSYNC_INVALID);
}

static void errors(void **state)
{
    struct psync_reply reply;

    assert_int_equal(parse("-NOMASTERLINK Can't SYNC while not connected with my master", &reply), PSYNC_NOT_YET);
    assert_int_equal(parse("-LOADING Redis is loading the dataset in memory", &reply), PSYNC_NOT_YET);
    assert_int_equal(parse("-NOPERM this user has no permissions", &reply), PSYNC_DENIED);
    assert_int_equal(parse("-NOAUTH Authentication required.", &reply), PSYNC_DENIED);
    assert_int_equal(parse("-ERR unknown command", &reply), PSYNC_REFUSED);
    assert_int_equal(parse("-ERR PSYNC FAILOVER can't be sent to a master.", &reply), PSYNC_IS_PRIMARY);
    assert_int_equal(parse("-", &reply), PSYNC_REFUSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_replies),
        cmocka_unit_test(replies_that_are_not_valid),
        cmocka_unit_test(errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
