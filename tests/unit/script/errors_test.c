#include "support/unit.h"

#include "support/script_cases.h"

static const struct script_case cases[] = {
    SCRIPT_CASE("return foo",
                "-ERR user_script:1: Script attempted to access nonexistent global variable 'foo' script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("x=1", "-ERR user_script:1: Attempt to modify a readonly table script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("string.x=1", "-ERR user_script:1: Attempt to modify a readonly table script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return redis.call()",
                "-ERR Please specify at least one argument for this redis lib call script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("redis.call({})",
                "-ERR Lua redis lib command arguments must be strings or integers script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return redis.call(\"foo\")",
                "-ERR Unknown Redis command called from script script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("error(\"x\")", "-ERR user_script:1: x script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("error({})", "-ERR unknown error script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("error({err=\"My err\"})", "-My err script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("error()", "-ERR nil script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("error(5)", "-ERR user_script:1: 5 script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("error(\"x\",0)", "-ERR x script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("error(\"x\",2)", "-ERR x script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("local a=nil; a.b=1",
                "-ERR user_script:1: attempt to index local 'a' (a nil value) script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return", "$-1\r\n"),
    SCRIPT_CASE("return redis[1]", "$-1\r\n"),
    SCRIPT_CASE("return redis.call(\"ping\")", "+PONG\r\n"),
    SCRIPT_CASE("return redis.call(\"ping\",1)", "$1\r\n1\r\n"),
    SCRIPT_CASE("return redis.call(\"ping\",1.5)", "$3\r\n1.5\r\n"),
    SCRIPT_CASE("return redis.call(\"echo\",0.1)", "$3\r\n0.1\r\n"),
    SCRIPT_CASE("return redis.call(\"echo\",1e100)", "$6\r\n1e+100\r\n"),
    SCRIPT_CASE("return redis.call(\"echo\",1e15)", "$16\r\n1000000000000000\r\n"),
    SCRIPT_CASE("return redis.call(\"echo\",1e17)", "$18\r\n100000000000000000\r\n"),
    SCRIPT_CASE("return redis.call(\"echo\",123456789012345678)", "$18\r\n123456789012345680\r\n"),
    SCRIPT_CASE("return redis.call(\"echo\",-math.abs(0/0))", "$4\r\n-nan\r\n"),      /* 0/0 has the sign that the processor gives it */
    SCRIPT_CASE("return redis.call(\"echo\",-1/0)", "$4\r\n-inf\r\n"),
    SCRIPT_CASE("return redis.call(\"echo\",true)",
                "-ERR Lua redis lib command arguments must be strings or integers script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return redis.call(\"echo\",nil)",
                "-ERR Lua redis lib command arguments must be strings or integers script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return _VERSION", "$7\r\nLua 5.1\r\n"),
    SCRIPT_CASE("syntax error here", "-ERR Error compiling script (new function): user_script:1: '=' expected near 'error'\r\n"),
    SCRIPT_CASE("return (", "-ERR Error compiling script (new function): user_script:1: unexpected symbol near '<eof>'\r\n"),
    SCRIPT_CASE("return \"a", "-ERR Error compiling script (new function): user_script:1: unfinished string near '<eof>'\r\n"),
    SCRIPT_CASE("goto x", "-ERR Error compiling script (new function): user_script:1: '=' expected near 'x'\r\n"),
    SCRIPT_CASE("--", "$-1\r\n"),
    SCRIPT_CASE("return ...", "$-1\r\n"),
    SCRIPT_CASE("return {...}", "*0\r\n"),
    SCRIPT_CASE("while 1 do local x = {} x[nil]=1 end",
                "-ERR user_script:1: table index is nil script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return {[\"1\"]=1}", "*0\r\n"),
    SCRIPT_CASE("return {{},{{}}}", "*2\r\n*0\r\n*1\r\n*0\r\n"),
    SCRIPT_CASE("error(\"a\\nb\")", "-ERR user_script:1: a b script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("error({err=\"\"})", "- script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("error({err=\"x\",source=\"f\",line=3})", "-x script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("error({err=5})", "-5 script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return __redis__err__handler", "$-1\r\n"),
    SCRIPT_CASE("local x=\"a\"+1",
                "-ERR user_script:1: attempt to perform arithmetic on a string value script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("local x={}..\"\"",
                "-ERR user_script:1: attempt to concatenate a table value script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("local x=1<\"a\"",
                "-ERR user_script:1: attempt to compare number with string script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("#nil", "-ERR Error compiling script (new function): user_script:1: unexpected symbol near '#'\r\n"),
    SCRIPT_CASE("local x=#nil",
                "-ERR user_script:1: attempt to get length of a nil value script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("local t={} t.x.y=1",
                "-ERR user_script:1: attempt to index field 'x' (a nil value) script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("foo()",
                "-ERR user_script:1: Script attempted to access nonexistent global variable 'foo' script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("local t={} t:foo()",
                "-ERR user_script:1: attempt to call method 'foo' (a nil value) script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("string.foo()",
                "-ERR user_script:1: attempt to call field 'foo' (a nil value) script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("error(nil)", "-ERR nil script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("error(true)", "-ERR true script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("error(1.5)", "-ERR user_script:1: 1.5 script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return ('x'):foo()",
                "-ERR user_script:1: attempt to call method 'foo' (a nil value) script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return ('x').y", "$-1\r\n"),
    SCRIPT_CASE("return #'abc'", ":3\r\n"),
    SCRIPT_CASE("return rawequal(1,1)", ":1\r\n"),
};

static void errors_are_as_in_redis(void **state)
{
    assert_int_equal(script_cases_run(cases, sizeof(cases) / sizeof(cases[0]), 2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_as_in_redis),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
