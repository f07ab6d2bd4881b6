#include "support/unit.h"

#include "support/script_cases.h"

static const struct script_case cases[] = {
    SCRIPT_CASE("return coroutine.create(print)",
                "-ERR user_script:1: Script attempted to access nonexistent global variable 'print' script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("local co=coroutine.wrap(function() redis.call(\"foo\") end) co()",
                "-ERR Unknown Redis command called from script script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("local co=coroutine.create(function() redis.call(\"foo\") end) return {coroutine.resume(co)}",
                "*2\r\n$-1\r\n-ERR Unknown Redis command called from script\r\n"),
    SCRIPT_CASE("local co=coroutine.create(function() x=1 end) return {coroutine.resume(co)}",
                "*2\r\n$-1\r\n$49\r\nuser_script:1: Attempt to modify a readonly table\r\n"),
    SCRIPT_CASE("coroutine.yield(1)",
                "-ERR attempt to yield across metamethod/C-call boundary script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return coroutine.resume(coroutine.running())",
                "-ERR user_script:1: bad argument #1 to 'resume' (coroutine expected) script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return tostring(coroutine.running())", "$3\r\nnil\r\n"),
    SCRIPT_CASE("return coroutine.wrap(function() return 5 end)()", ":5\r\n"),
    SCRIPT_CASE("local c=coroutine.wrap(function() return 5 end) c() c()",
                "-ERR user_script:1: cannot resume dead coroutine script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("local c=coroutine.create(function() coroutine.yield(1) end) return "
                "{coroutine.resume(c),coroutine.status(c),coroutine.resume(c),coroutine.status(c),select(2,coroutine.resume(c))}",
                "*5\r\n:1\r\n$9\r\nsuspended\r\n:1\r\n$4\r\ndead\r\n$28\r\ncannot resume dead coroutine\r\n"),
    SCRIPT_CASE("coroutine.wrap(function() error('q') end)()",
                "-ERR user_script:1: user_script:1: q script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("coroutine.wrap(function() error({err='q'}) end)()", "-q script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("coroutine.wrap(function() error({}) return 1 end)", "$-1\r\n"),
    SCRIPT_CASE("coroutine.resume(1)",
                "-ERR user_script:1: bad argument #1 to 'resume' (coroutine expected) script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("coroutine.create(1)",
                "-ERR user_script:1: bad argument #1 to 'create' (Lua function expected) script: {sha}, on @user_script:1.\r"
                "\n"),
    SCRIPT_CASE("coroutine.wrap(1)",
                "-ERR user_script:1: bad argument #1 to 'wrap' (Lua function expected) script: {sha}, on @user_script:1.\r\n"),
};

static void coroutines_are_as_in_redis(void **state)
{
    assert_int_equal(script_cases_run(cases, sizeof(cases) / sizeof(cases[0]), 2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coroutines_are_as_in_redis),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
