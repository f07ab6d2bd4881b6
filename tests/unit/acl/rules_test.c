#include "support/unit.h"

#include "acl/rules.h"
#include "support/acl_box.h"

static int setup(void **state)
{
    static struct acl_box box;

    acl_box_create(&box);
    *state = &box;
    return 0;
}

static int teardown(void **state)
{
    acl_box_destroy(*state);
    return 0;
}

#define SET(words) assert_null(acl_box_set(box, "u", "reset " words))
#define SAYS(call, verdict) assert_string_equal(acl_box_check(box, "u", call), verdict)

static void a_new_user_may_do_nothing(void **state)
{
    struct acl_box *box = *state;

    SET("on");
    SAYS("get a", "command");
    SAYS("auth x", "ok");           /* what is allowed before AUTH is always allowed */
    assert_string_equal(acl_box_line(box, "u"), "user u on sanitize-payload resetchannels -@all");
}

static void the_default_user_is_not_checked(void **state)
{
    struct acl_box *box = *state;
    struct acl_user *user = acl_default(box->acl);

    assert_true(acl_rules_allow_all(acl_user_rules(user)));
    assert_null(acl_box_set(box, "default", "-get"));
    assert_false(acl_rules_allow_all(acl_user_rules(user)));
    assert_null(acl_box_set(box, "default", "+get"));
    assert_true(acl_rules_allow_all(acl_user_rules(user)));
    assert_null(acl_box_set(box, "default", "off"));
    assert_false(acl_rules_allow_all(acl_user_rules(user)));
    assert_null(acl_box_set(box, "default", "on resetkeys ~*"));
    assert_true(acl_rules_allow_all(acl_user_rules(user)));
}

static void a_key_needs_a_pattern_that_allows_all_that_is_done_to_it(void **state)
{
    struct acl_box *box = *state;

    SET("+@all ~a* %R~r* %W~w* %R~x1 %W~x*");
    SAYS("get a1", "ok");
    SAYS("get b", "key b");
    SAYS("get r1", "ok");
    SAYS("get w1", "key w1");
    SAYS("set w1 v", "ok");
    SAYS("set w1 v get", "key w1");
    SAYS("set a v get", "ok");
    SAYS("set x1 v get", "key x1");         /* one pattern has to allow both */
    SAYS("exists r1 w1", "ok");             /* the value does not matter */
    SAYS("exists r1 q", "key q");
    SAYS("bitfield r1 get u8 0", "ok");
    SAYS("bitfield r1 set u8 0 1", "key r1");
    SAYS("mget a r b", "key b");
    SAYS("sort r store w", "ok");
    SAYS("sort r store r", "key r");
    SAYS("eval x abc", "ok");     /* the handler replies the error */
}

static void patterns_match_as_those_of_keys_do(void **state)
{
    struct acl_box *box = *state;

    SET("+get ~a ~b* ~c?d ~[ef]* ~g\\*");
    SAYS("get a", "ok");
    SAYS("get ab", "key ab");
    SAYS("get b", "ok");
    SAYS("get bb", "ok");
    SAYS("get cxd", "ok");
    SAYS("get cd", "key cd");
    SAYS("get f", "ok");
    SAYS("get g*", "ok");
    SAYS("get gx", "key gx");
}

static void one_selector_allows_command_and_keys(void **state)
{
    struct acl_box *box = *state;

    SET("+get ~a* (+set ~b*) (+@all %R~*)");
    SAYS("get a", "ok");
    SAYS("set b v", "ok");
    SAYS("set a v", "key a");
    SAYS("get q", "ok");
    SET("+get ~a* (+set ~b*)");
    SAYS("set a v", "key a");
    SAYS("del a", "command");
    SAYS("get b", "key b");
}

static void channels(void **state)
{
    struct acl_box *box = *state;

    SET("+@pubsub &a* &[b] &p*x");
    SAYS("subscribe a1 a2", "ok");
    SAYS("subscribe a1 c", "channel c");
    SAYS("publish b c", "ok");
    SAYS("spublish c a", "channel c");
    SAYS("ssubscribe b", "ok");
    SAYS("psubscribe a1", "channel a1");        /* literally one of the patterns */
    SAYS("psubscribe a* p*x", "ok");
    SAYS("psubscribe *", "channel *");
    SAYS("unsubscribe c", "ok");
    SET("+subscribe +get ~k (+subscribe &a)");
    SAYS("subscribe a", "ok");
    SAYS("subscribe b", "channel b");
    SAYS("get q", "key q");
}

static void subcommands_and_first_arguments(void **state)
{
    struct acl_box *box = *state;

    SET("+config|get +client -client|kill +select|0 +SELECT|Two ~*");
    SAYS("config get x", "ok");
    SAYS("config set x y", "command");
    SAYS("client id", "ok");
    SAYS("client kill x", "command");
    SAYS("select 0", "ok");
    SAYS("select 1", "command");
    SAYS("select tWO", "ok");
    SET("+select|0 -select");
    SAYS("select 0", "command");
    SET("+select|0 -@connection");
    SAYS("select 0", "command");
}

static void sort_with_patterns_needs_all_keys_of_one_selector(void **state)
{
    struct acl_box *box = *state;
    struct acl_user *user;
    struct acl_box_call call;
    static const char *const rules[] = { "reset +sort ~a*", "reset +sort %R~*", "reset +sort ~a (%R~* +get)", "reset (+sort ~*)", "reset +sort %W~* ~a" };
    static const bool allowed[] = { false, true, false, true, false };

    for (int i = 0; i < 5; i++) {
        assert_null(acl_box_set(box, "u", rules[i]));
        user = acl_find(box->acl, BYTES("u"));
        acl_box_parse(box, "sort a by w_*", &call);
        assert_int_equal(acl_rules_read_every_key(acl_user_rules(user), &call.request), allowed[i]);
        acl_user_release(user);
    }
}

static void text_keeps_the_order_without_what_is_covered(void **state)
{
    struct acl_box *box = *state;

    SET("+get +@read -@write +@read ~b %R~a %W~a &x nopass on");
    assert_string_equal(acl_box_line(box, "u"), "user u on nopass sanitize-payload ~b ~a resetchannels &x -@all +get -@write +@read");
    SET("+@all -config +config|get -config|get +config +acl|save -acl +select|A");
    assert_string_equal(acl_box_line(box, "u"), "user u off sanitize-payload resetchannels +@all +config -acl +select|a");
    assert_string_equal(acl_box_set(box, "u", "-get|x"), "Error in ACL SETUSER modifier '-get|x': Unknown command or category name in ACL");
}

static void commands_of_redis_that_are_not_here_can_be_named(void **state)
{
    struct acl_box *box = *state;

    SET("+psync +replconf +ping -cluster +cluster|info +get");
    assert_string_equal(acl_box_line(box, "u"), "user u off sanitize-payload resetchannels -@all +psync +replconf +ping -cluster +cluster|info +get");
    SET("+@all ~* &* on -psync");
    SAYS("set a v", "ok");
    assert_non_null(acl_box_set(box, "u", "+psyncx"));
}

static void a_rule_that_is_wrong_changes_nothing(void **state)
{
    struct acl_box *box = *state;

    SET("on +get ~a");
    assert_string_equal(acl_box_set(box, "u", "off +set ~b foo"), "Error in ACL SETUSER modifier 'foo': Syntax error");
    assert_string_equal(acl_box_set(box, "u", "off (+set ~b"), "Unmatched parenthesis in acl selector starting at '(+set'.");
    assert_string_equal(acl_box_line(box, "u"), "user u on sanitize-payload ~a resetchannels -@all +get");
    assert_non_null(acl_box_set(box, "none", "foo"));
    assert_null(acl_box_line(box, "none"));
}

static void texts_can_be_applied_again(void **state)
{
    struct acl_box *box = *state;
    static const char *const rules[] = { "%RW~* ~b %R~c", "allkeys allchannels", "(~a +get|x) () (%W~* -@all)", ">a >b skip-sanitize-payload off",
        "+@all -@read +get", "%R~ & ~" };

    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        char line[512];

        assert_null(acl_box_set(box, "u", "reset"));
        assert_null(acl_box_set(box, "u", rules[i]));
        strcpy(line, acl_box_line(box, "u"));
        assert_null(acl_box_set(box, "u", "reset"));
        assert_null(acl_box_set(box, "u", line + sizeof("user u ") - 1));
        assert_string_equal(acl_box_line(box, "u"), line);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_new_user_may_do_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(the_default_user_is_not_checked, setup, teardown),
        cmocka_unit_test_setup_teardown(a_key_needs_a_pattern_that_allows_all_that_is_done_to_it, setup, teardown),
        cmocka_unit_test_setup_teardown(patterns_match_as_those_of_keys_do, setup, teardown),
        cmocka_unit_test_setup_teardown(one_selector_allows_command_and_keys, setup, teardown),
        cmocka_unit_test_setup_teardown(channels, setup, teardown),
        cmocka_unit_test_setup_teardown(subcommands_and_first_arguments, setup, teardown),
        cmocka_unit_test_setup_teardown(sort_with_patterns_needs_all_keys_of_one_selector, setup, teardown),
        cmocka_unit_test_setup_teardown(text_keeps_the_order_without_what_is_covered, setup, teardown),
        cmocka_unit_test_setup_teardown(commands_of_redis_that_are_not_here_can_be_named, setup, teardown),
        cmocka_unit_test_setup_teardown(a_rule_that_is_wrong_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(texts_can_be_applied_again, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
