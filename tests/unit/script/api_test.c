#include "support/unit.h"

#include "support/script_cases.h"

static const struct script_case cases[] = {
    SCRIPT_CASE("redis.x=1", "-ERR user_script:1: Attempt to modify a readonly table script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return redis.pcall()", "-ERR Please specify at least one argument for this redis lib call\r\n"),
    SCRIPT_CASE("return redis.pcall(\"foo\")", "-ERR Unknown Redis command called from script\r\n"),
    SCRIPT_CASE("return redis.error_reply(\"x\")", "-ERR x\r\n"),
    SCRIPT_CASE("return redis.error_reply(\"ERR x\")", "-ERR x\r\n"),
    SCRIPT_CASE("return redis.error_reply(\"-ERR x\")", "-ERR x\r\n"),
    SCRIPT_CASE("return redis.error_reply(\"\")", "-ERR \r\n"),
    SCRIPT_CASE("return redis.error_reply()", "-ERR wrong number or type of arguments\r\n"),
    SCRIPT_CASE("return redis.error_reply(1)", "-ERR wrong number or type of arguments\r\n"),
    SCRIPT_CASE("return redis.error_reply(\"My Err\")", "-My Err\r\n"),
    SCRIPT_CASE("return redis.status_reply(\"x\")", "+x\r\n"),
    SCRIPT_CASE("return redis.status_reply()", "-ERR wrong number or type of arguments\r\n"),
    SCRIPT_CASE("redis.setresp()", "-ERR redis.setresp() requires one argument. script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("redis.setresp(4)", "-ERR RESP version must be 2 or 3. script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("redis.setresp(\"3\")", "$-1\r\n"),
    SCRIPT_CASE("redis.setresp(2.5)", "$-1\r\n"),
    SCRIPT_CASE("return redis.set_repl()",
                "-ERR redis.set_repl() requires two arguments. script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return redis.set_repl(9)",
                "-ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE. script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return redis.set_repl(\"x\")", "$-1\r\n"),
    SCRIPT_CASE("return redis.set_repl(1)", "$-1\r\n"),
    SCRIPT_CASE("return redis.replicate_commands()", ":1\r\n"),
    SCRIPT_CASE("return redis.breakpoint()", "$-1\r\n"),
    SCRIPT_CASE("return redis.debug(\"x\")", "$-1\r\n"),
    SCRIPT_CASE("return redis.log(1)", "-ERR redis.log() requires two arguments or more. script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return redis.log(\"a\",\"b\")",
                "-ERR First argument must be a number (log level). script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return redis.log(9,\"b\")", "-ERR Invalid debug level. script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return redis.log(1,{})", "$-1\r\n"),
    SCRIPT_CASE("return redis.log(1,\"b\")", "$-1\r\n"),
    SCRIPT_CASE("return redis.sha1hex()", "-ERR wrong number of arguments script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return redis.sha1hex(1)", "$40\r\n356a192b7913b04c54574d18c28d46e6395428ab\r\n"),
    SCRIPT_CASE("return redis.sha1hex({})", "$40\r\nda39a3ee5e6b4b0d3255bfef95601890afd80709\r\n"),
    SCRIPT_CASE("return redis.sha1hex(\"\")", "$40\r\nda39a3ee5e6b4b0d3255bfef95601890afd80709\r\n"),
    SCRIPT_CASE("return redis.sha1hex(\"a\",\"b\")", "-ERR wrong number of arguments script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return redis.acl_check_cmd()",
                "-ERR Please specify at least one argument for this redis lib call script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return redis.acl_check_cmd(\"foo\")",
                "-ERR Invalid command passed to redis.acl_check_cmd() script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return redis.acl_check_cmd(\"get\",\"a\")", ":1\r\n"),
    SCRIPT_CASE("return redis.acl_check_cmd(\"get\")", ":1\r\n"),
    SCRIPT_CASE("return redis.acl_check_cmd({})",
                "-ERR Lua redis lib command arguments must be strings or integers script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("redis.register_function(\"a\",function() end)",
                "-ERR user_script:1: attempt to call field 'register_function' (a nil value) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return redis.foo", "$-1\r\n"),
    SCRIPT_CASE("return redis.error_reply(\"a\\r\\nb\")", "-ERR a  b\r\n"),
    SCRIPT_CASE("return redis.status_reply(\"a\\r\\nb\")", "+a  b\r\n"),
    SCRIPT_CASE("redis.foo()",
                "-ERR user_script:1: attempt to call field 'foo' (a nil value) script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("redis.setresp(3) return true", ":1\r\n"),
    SCRIPT_CASE("redis.setresp(3) return false", ":0\r\n"),
    SCRIPT_CASE("redis.setresp(3) return nil", "$-1\r\n"),
    SCRIPT_CASE("redis.setresp(3) return {true,false,1.5}", "*3\r\n:1\r\n:0\r\n:1\r\n"),
    SCRIPT_CASE("redis.setresp(3) return {double=3.5}", "$3\r\n3.5\r\n"),
    SCRIPT_CASE("redis.setresp(3) return redis.call('get','nokey')", "$-1\r\n"),
    SCRIPT_CASE("redis.setresp(3) return type(redis.call('get','nokey'))", "$3\r\nnil\r\n"),
    SCRIPT_CASE("local r=redis.pcall('get') local t={} for k,v in pairs(r) do t[#t+1]=k..'='..tostring(v) end table.sort(t) "
                "return t",
                "*2\r\n$62\r\nerr=ERR Wrong number of args calling Redis command from script\r\n$30\r\n"
                "ignore_error_stats_update=true\r\n"),
    SCRIPT_CASE("local r=redis.pcall() local t={} for k,v in pairs(r) do t[#t+1]=k..'='..tostring(v) end table.sort(t) "
                "return t",
                "*1\r\n$68\r\nerr=ERR Please specify at least one argument for this redis lib call\r\n"),
    SCRIPT_CASE("for i,v in ipairs({1,2,nil,3}) do redis.log(0,i) end return 'ok'", "$2\r\nok\r\n"),
    SCRIPT_CASE("return redis.sha1hex('abc')", "$40\r\na9993e364706816aba3e25717850c26c9cd0d89d\r\n"),
    SCRIPT_CASE("redis.log(redis.LOG_WARNING,'a','b',1,{}) return 1", ":1\r\n"),
    SCRIPT_CASE("redis.log(4,'x')", "-ERR Invalid debug level. script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("redis.log(-1,'x')", "-ERR Invalid debug level. script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return redis.set_repl(redis.REPL_ALL)", "$-1\r\n"),
    SCRIPT_CASE("redis.set_repl(-1)",
                "-ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE. script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("redis.set_repl(1,2)", "-ERR redis.set_repl() requires two arguments. script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return {redis.acl_check_cmd('set','x','y')}", "*1\r\n:1\r\n"),
    SCRIPT_CASE("return redis.REDIS_VERSION_NUM", ":459269\r\n"),
};

static void the_functions_of_redis_reply_as_in_redis(void **state)
{
    assert_int_equal(script_cases_run(cases, sizeof(cases) / sizeof(cases[0]), 2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_functions_of_redis_reply_as_in_redis),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
