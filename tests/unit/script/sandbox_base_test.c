#include "support/unit.h"

#include "support/script_cases.h"

static const struct script_case cases[] = {
    SCRIPT_CASE("KEYS=1", "-ERR user_script:1: Attempt to modify a readonly table script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("rawset(redis,\"x\",1)", "-ERR Attempt to modify a readonly table script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("rawset(_G,\"x\",1)", "-ERR Attempt to modify a readonly table script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("setmetatable(_G,{})", "-ERR Attempt to modify a readonly table script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return getmetatable(\"\").__index", "*0\r\n"),
    SCRIPT_CASE("getmetatable(\"\").__index=1",
                "-ERR user_script:1: Attempt to modify a readonly table script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return rawget(_G,\"foo\")", "$-1\r\n"),
    SCRIPT_CASE("return {tostring(rawget(_G,\"redis\")~=nil)}", "*1\r\n$4\r\ntrue\r\n"),
    SCRIPT_CASE("KEYS[1]=5 return KEYS[1]", ":5\r\n"),
    SCRIPT_CASE("return function() end", "$-1\r\n"),
    SCRIPT_CASE("os.clock()",
                "-ERR user_script:1: Script attempted to access nonexistent global variable 'os' script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return loadstring(string.dump(function() return 5 end))()",
                "-ERR user_script:1: attempt to call a nil value script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return loadstring(\"return 5\")()", ":5\r\n"),
    SCRIPT_CASE("return loadstring(\"return x\")()",
                "-ERR [string \"return x\"]:1: Script attempted to access nonexistent global variable 'x' script: {sha}, on "
                "return x:1.\r\n"),
    SCRIPT_CASE("return load(function() return nil end)", "$-1\r\n"),
    SCRIPT_CASE("return load(\"return 5\")",
                "-ERR user_script:1: bad argument #1 to 'load' (function expected, got string) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return {getmetatable(redis)==nil and 1 or 0, getmetatable(string)==nil and 1 or 0}", "*2\r\n:1\r\n:1\r\n"),
    SCRIPT_CASE("for k,v in pairs(getmetatable(_G)) do return k end", "$7\r\n__index\r\n"),
    SCRIPT_CASE("getmetatable(_G).__index=nil",
                "-ERR user_script:1: Attempt to modify a readonly table script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return pcall(error,{1})", "$-1\r\n"),
    SCRIPT_CASE("return {pcall(error)}", "*1\r\n$-1\r\n"),
    SCRIPT_CASE("return {pcall(error,{err=\"x\"})}", "*2\r\n$-1\r\n$1\r\nx\r\n"),
    SCRIPT_CASE("return {pcall(redis.call,\"foo\")}", "*2\r\n$-1\r\n$44\r\nERR Unknown Redis command called from script\r\n"),
    SCRIPT_CASE("return {xpcall(function() error(\"z\") end,function(e) return e..\"!\" end)}",
                "*2\r\n$-1\r\n$17\r\nuser_script:1: z!\r\n"),
    SCRIPT_CASE("local function f() return f() + 1 end return f()",
                "-ERR user_script:1: stack overflow script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return {pcall(function() local function f() return f()+1 end return f() end)}",
                "*2\r\n$-1\r\n$29\r\nuser_script:1: stack overflow\r\n"),
    SCRIPT_CASE("return tostring(1e15)", "$5\r\n1e+15\r\n"),
    SCRIPT_CASE("collectgarbage(\"stop\")", "$-1\r\n"),
    SCRIPT_CASE("return collectgarbage(\"count\")>0", ":1\r\n"),
    SCRIPT_CASE("return collectgarbage(\"xx\")",
                "-ERR user_script:1: bad argument #1 to 'collectgarbage' (invalid option 'xx') script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return type(gcinfo())", "$6\r\n" "number\r\n"),
    SCRIPT_CASE("local t=setmetatable({},{__index=function() error(\"q\") end}) return t", "*0\r\n"),
    SCRIPT_CASE("local t=setmetatable({},{__index=function(t,k) if k==1 then return 7 end end}) return t", "*0\r\n"),
    SCRIPT_CASE("return _G.foo",
                "-ERR user_script:1: Script attempted to access nonexistent global variable 'foo' script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return _G[\"KEYS\"]==KEYS", ":1\r\n"),
    SCRIPT_CASE("_G.foo=1", "-ERR user_script:1: Attempt to modify a readonly table script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("_G._G=1", "-ERR user_script:1: Attempt to modify a readonly table script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return next({})", "$-1\r\n"),
    SCRIPT_CASE("print(1)",
                "-ERR user_script:1: Script attempted to access nonexistent global variable 'print' script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return type(print)",
                "-ERR user_script:1: Script attempted to access nonexistent global variable 'print' script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return pcall(print)",
                "-ERR user_script:1: Script attempted to access nonexistent global variable 'print' script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("tonumber()",
                "-ERR user_script:1: bad argument #1 to 'tonumber' (value expected) script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("ipairs()",
                "-ERR user_script:1: bad argument #1 to 'ipairs' (table expected, got no value) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return getfenv",
                "-ERR user_script:1: Script attempted to access nonexistent global variable 'getfenv' script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return setfenv",
                "-ERR user_script:1: Script attempted to access nonexistent global variable 'setfenv' script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return newproxy",
                "-ERR user_script:1: Script attempted to access nonexistent global variable 'newproxy' script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return debug",
                "-ERR user_script:1: Script attempted to access nonexistent global variable 'debug' script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return require",
                "-ERR user_script:1: Script attempted to access nonexistent global variable 'require' script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return os",
                "-ERR user_script:1: Script attempted to access nonexistent global variable 'os' script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return io",
                "-ERR user_script:1: Script attempted to access nonexistent global variable 'io' script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return package",
                "-ERR user_script:1: Script attempted to access nonexistent global variable 'package' script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return type(redis.call('get','nokey'))", "$7\r\nboolean\r\n"),
    SCRIPT_CASE("pcall()", "$-1\r\n"),
    SCRIPT_CASE("xpcall()",
                "-ERR user_script:1: bad argument #2 to 'xpcall' (value expected) script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("xpcall(1)",
                "-ERR user_script:1: bad argument #2 to 'xpcall' (value expected) script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return {xpcall(error,function(e) return 'h' end)}", "*2\r\n$-1\r\n$1\r\nh\r\n"),
    SCRIPT_CASE("return {xpcall(error,5)}", "*2\r\n$-1\r\n$23\r\nerror in error handling\r\n"),
    SCRIPT_CASE("local function f() error('deep') end local function g() f() end g()",
                "-ERR user_script:1: deep script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("local function f() return redis.call('foo') end local x=f() return x",
                "-ERR Unknown Redis command called from script script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("local function f() redis.call('foo') end f()",
                "-ERR Unknown Redis command called from script script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return tostring(string)==tostring(string)", ":1\r\n"),
    SCRIPT_CASE("return type(string)", "$5\r\ntable\r\n"),
    SCRIPT_CASE("return tostring(print)",
                "-ERR user_script:1: Script attempted to access nonexistent global variable 'print' script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return select('#',1,2,nil)", ":3\r\n"),
    SCRIPT_CASE("select(0)",
                "-ERR user_script:1: bad argument #1 to 'select' (index out of range) script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return select(-1,1,2)", ":2\r\n"),
    SCRIPT_CASE("select(-5)",
                "-ERR user_script:1: bad argument #1 to 'select' (index out of range) script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("select('x')",
                "-ERR user_script:1: bad argument #1 to 'select' (number expected, got string) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return tonumber('10',2)", ":2\r\n"),
    SCRIPT_CASE("return tonumber('0x10')", ":16\r\n"),
    SCRIPT_CASE("return tonumber('  5  ')", ":5\r\n"),
    SCRIPT_CASE("return tonumber('5x')", "$-1\r\n"),
    SCRIPT_CASE("return tonumber('z',36)", ":35\r\n"),
    SCRIPT_CASE("tonumber('1',1)",
                "-ERR user_script:1: bad argument #2 to 'tonumber' (base out of range) script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return tostring(1e100)", "$6\r\n1e+100\r\n"),
    SCRIPT_CASE("return tostring(0.1)", "$3\r\n0.1\r\n"),
    SCRIPT_CASE("return tostring(-0)", "$2\r\n-0\r\n"),
    SCRIPT_CASE("return tostring(0.1+0.2)", "$3\r\n0.3\r\n"),
    SCRIPT_CASE("return math.floor(-3.5)", ":-4\r\n"),
    SCRIPT_CASE("return {math.min(1,2),math.max(1,2),math.abs(-3),math.fmod(7,3),math.mod(7,3),math.sqrt(16),math.pow(2,3)}",
                "*7\r\n:1\r\n:2\r\n:3\r\n:1\r\n:1\r\n:4\r\n:8\r\n"),
    SCRIPT_CASE("return {next({},nil)}", "*0\r\n"),
    SCRIPT_CASE("next({},1)", "-ERR invalid key to 'next' script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("next({a=1},'b')", "-ERR invalid key to 'next' script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("pairs()",
                "-ERR user_script:1: bad argument #1 to 'pairs' (table expected, got no value) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("pairs(1)",
                "-ERR user_script:1: bad argument #1 to 'pairs' (table expected, got number) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("ipairs(1)",
                "-ERR user_script:1: bad argument #1 to 'ipairs' (table expected, got number) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("rawget(1,2)",
                "-ERR user_script:1: bad argument #1 to 'rawget' (table expected, got number) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("rawset({},nil,1)", "-ERR table index is nil script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("getmetatable()",
                "-ERR user_script:1: bad argument #1 to 'getmetatable' (value expected) script: {sha}, on @user_script:1.\r"
                "\n"),
    SCRIPT_CASE("setmetatable({},1)",
                "-ERR user_script:1: bad argument #2 to 'setmetatable' (nil or table expected) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("setmetatable(1,{})",
                "-ERR user_script:1: bad argument #1 to 'setmetatable' (table expected, got number) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return getmetatable({})", "$-1\r\n"),
    SCRIPT_CASE("local t=setmetatable({},{__metatable='x'}) return getmetatable(t)", "$1\r\nx\r\n"),
    SCRIPT_CASE("local t=setmetatable({},{__metatable='x'}) setmetatable(t,{})",
                "-ERR user_script:1: cannot change a protected metatable script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("assert(false)", "-ERR user_script:1: assertion failed! script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("assert(nil,'msg')", "-ERR user_script:1: msg script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("assert(false,{err='E z'})",
                "-ERR user_script:1: bad argument #2 to 'assert' (string expected, got table) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return assert(5)", ":5\r\n"),
    SCRIPT_CASE("assert()",
                "-ERR user_script:1: bad argument #1 to 'assert' (value expected) script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return type(nil)", "$3\r\nnil\r\n"),
    SCRIPT_CASE("type()",
                "-ERR user_script:1: bad argument #1 to 'type' (value expected) script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return {loadstring('x x')}", "*0\r\n"),
    SCRIPT_CASE("return {loadstring('return 1','=name')}", "*1\r\n$-1\r\n"),
    SCRIPT_CASE("loadstring('error(\"q\")','=name')()", "-ERR name:1: q script: {sha}, on =name:1.\r\n"),
    SCRIPT_CASE("loadstring('error(\"q\")','@name')()", "-ERR name:1: q script: {sha}, on @name:1.\r\n"),
    SCRIPT_CASE("loadstring('error(\"q\")','name')()", "-ERR [string \"name\"]:1: q script: {sha}, on name:1.\r\n"),
    SCRIPT_CASE("loadstring()",
                "-ERR user_script:1: bad argument #1 to 'loadstring' (string expected, got no value) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return {load(function() return 'x x' end)}", "*0\r\n"),
    SCRIPT_CASE("local n=0 return load(function() n=n+1 if n<3 then return 'return 7 ' end if n==3 then return nil end end)",
                "$-1\r\n"),
    SCRIPT_CASE("local n=0 return {load(function() n=n+1 if n==1 then return 'return ' end if n==2 then return '7' end "
                "end)()}",
                "*1\r\n:7\r\n"),
    SCRIPT_CASE("return {load(function() return {} end)}", "*0\r\n"),
    SCRIPT_CASE("return {load(function() error('in') end)}", "*0\r\n"),
    SCRIPT_CASE("return {loadstring('\\27Lua')}", "*0\r\n"),
    SCRIPT_CASE("collectgarbage('count',1)", "$-1\r\n"),
    SCRIPT_CASE("return type(collectgarbage())", "$6\r\n" "number\r\n"),
    SCRIPT_CASE("return collectgarbage('step')", "$-1\r\n"),
    SCRIPT_CASE("return collectgarbage('setpause',100)", ":200\r\n"),
    SCRIPT_CASE("return collectgarbage('setstepmul',100)", ":200\r\n"),
    SCRIPT_CASE("return collectgarbage('restart')", ":0\r\n"),
    SCRIPT_CASE("return {KEYS[1],KEYS[2],KEYS[3],ARGV[1],#KEYS,#ARGV}", "*2\r\n$2\r\nk1\r\n$2\r\nk2\r\n"),
    SCRIPT_CASE("KEYS=nil", "-ERR user_script:1: Attempt to modify a readonly table script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("KEYS[1]='z' return KEYS", "*2\r\n$1\r\nz\r\n$2\r\nk2\r\n"),
    SCRIPT_CASE("return KEYS", "*2\r\n$2\r\nk1\r\n$2\r\nk2\r\n"),
    SCRIPT_CASE("math.randomseed()",
                "-ERR user_script:1: bad argument #1 to 'randomseed' (number expected, got no value) script: {sha}, on "
                "@user_script:1.\r\n"),
};

static void the_globals_are_as_in_redis(void **state)
{
    assert_int_equal(script_cases_run(cases, sizeof(cases) / sizeof(cases[0]), 2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_globals_are_as_in_redis),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
