#include "support/unit.h"

#include "support/script_cases.h"

static const struct script_case cases[] = {
    SCRIPT_CASE("table.insert(redis,1)", "-ERR Attempt to modify a readonly table script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("table.insert(_G,1)", "-ERR Attempt to modify a readonly table script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return select(\"#\", unpack({},1,8000))",
                "-ERR user_script:1: too many results to unpack script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return select(\"#\", unpack({},1,7000))", ":7000\r\n"),
    SCRIPT_CASE("table.concat({{}})",
                "-ERR user_script:1: invalid value (table) at index 1 in table for 'concat' script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("local ok,r=pcall(redis.call,'get') local t={} for k,v in pairs(r) do t[#t+1]=k..'='..tostring(v) end "
                "table.sort(t) return t",
                "-ERR user_script:1: bad argument #1 to 'pairs' (table expected, got string) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return table.concat({1,2,3},',')", "$5\r\n1,2,3\r\n"),
    SCRIPT_CASE("return table.concat({1,2,3},',',2)", "$3\r\n2,3\r\n"),
    SCRIPT_CASE("return table.concat({1,2,3},',',2,5)",
                "-ERR user_script:1: invalid value (nil) at index 4 in table for 'concat' script: {sha}, on @user_script:1."
                "\r\n"),
    SCRIPT_CASE("return table.getn({1,2})", ":2\r\n"),
    SCRIPT_CASE("table.setn({},1)", "-ERR user_script:1: 'setn' is obsolete script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return {table.remove({1,2,3}),table.remove({1,2,3},1)}", "*2\r\n:3\r\n:1\r\n"),
    SCRIPT_CASE("local t={1,2,3} table.insert(t,2,9) return t", "*4\r\n:1\r\n:9\r\n:2\r\n:3\r\n"),
    SCRIPT_CASE("local t={} table.insert(t,5,9) return {t[5],#t}", "*2\r\n:9\r\n:0\r\n"),
    SCRIPT_CASE("table.insert({},1,2,3)",
                "-ERR user_script:1: wrong number of arguments to 'insert' script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("table.insert({})",
                "-ERR user_script:1: wrong number of arguments to 'insert' script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("table.insert(1,2)",
                "-ERR user_script:1: bad argument #1 to 'insert' (table expected, got number) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("local t={3,1,2} table.sort(t) return t", "*3\r\n:1\r\n:2\r\n:3\r\n"),
    SCRIPT_CASE("local t={3,1,2} table.sort(t,function(a,b) return a>b end) return t", "*3\r\n:3\r\n:2\r\n:1\r\n"),
    SCRIPT_CASE("local t={3,1,'a'} table.sort(t) return t",
                "-ERR attempt to compare string with number script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("table.sort({1,2,3,4,5},function(a,b) return true end)",
                "-ERR user_script:1: invalid order function for sorting script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("table.sort({3,1,2},5)",
                "-ERR user_script:1: bad argument #2 to 'sort' (function expected, got number) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("local t={} table.foreach({a=1},function(k,v) t[1]=k end) return t", "*1\r\n$1\r\na\r\n"),
    SCRIPT_CASE("local t={} table.foreachi({5,6},function(k,v) t[k]=v*2 end) return t", "*2\r\n:10\r\n:12\r\n"),
    SCRIPT_CASE("return table.maxn({1,2,[10]=5})", ":10\r\n"),
    SCRIPT_CASE("return unpack({1,2,3},2)", ":2\r\n"),
    SCRIPT_CASE("return {unpack({1,2,3},2)}", "*2\r\n:2\r\n:3\r\n"),
    SCRIPT_CASE("return {unpack({1,2,3},2,4)}", "*2\r\n:2\r\n:3\r\n"),
    SCRIPT_CASE("return {unpack({1,2,3},-1,1)}", "*0\r\n"),
    SCRIPT_CASE("unpack({},1,1e8)", "-ERR user_script:1: too many results to unpack script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("unpack({},-2147483648,2147483647)",
                "-ERR user_script:1: too many results to unpack script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("unpack()",
                "-ERR user_script:1: bad argument #1 to 'unpack' (table expected, got no value) script: {sha}, on "
                "@user_script:1.\r\n"),
};

static void tables_are_as_in_redis(void **state)
{
    assert_int_equal(script_cases_run(cases, sizeof(cases) / sizeof(cases[0]), 2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_as_in_redis),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
