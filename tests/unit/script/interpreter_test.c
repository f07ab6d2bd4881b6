#include "support/unit.h"

#include <stdio.h>

#include "resp/reply.h"
#include "support/fake_host.h"

enum { MIB = 1 << 20 };

static struct interpreter *create(size_t heap_size_max, size_t cached_scripts_max)
{
    struct interpreter_options options = { .heap_size_max = heap_size_max, .cached_scripts_max = cached_scripts_max };

    return interpreter_create(&options);
}

static enum script_result eval(struct interpreter *interpreter, const char *code, char *out, size_t size)
{
    struct fake_host fake;
    struct reply reply;
    enum script_result result;

    fake_host_init(&fake);
    reply_init(&reply, 2);
    result = fake_host_eval(&fake, interpreter, bytes_of_string(code), &reply);
    snprintf(out, size, "%.*s", (int)reply.out.size, reply.out.data != NULL ? reply.out.data : "");
    reply_release(&reply);
    fake_host_release(&fake);
    return result;
}

static void require_eval(struct interpreter *interpreter, const char *code, const char *expected)
{
    char out[512];

    eval(interpreter, code, out, sizeof(out));
    if (strcmp(out, expected) != 0)
        fail_msg("%s: %s", code, out);
}

/* Memory */

static void a_script_that_needs_too_much_memory_gets_an_error(void **state)
{
    static const char *const greedy[] = {
        "local t = {} for i = 1, 1e9 do t[i] = i end",
        "local t = {} for i = 1, 1e9 do t[i] = {i} end",
        "local s = 'x' while true do s = s..s end",
        "return ('x'):rep(1e9)",
        "return ('x'):rep(2147483647)",
        "return ('xy'):rep(2147483647)",
        "local s = ('x'):rep(1e6) local t = {} for i = 1, 1000 do t[i] = s end return table.concat(t)",
        "return ('x'):rep(1e6):gsub('x', ('y'):rep(1000))",
        "local s = ('x'):rep(1e6) local t = {} for i = 1, 1000 do t[i] = s end return cjson.encode(t)",
        "local s = ('x'):rep(1e6) local t = {} for i = 1, 1000 do t[i] = s end return cmsgpack.pack(t)",
        "local s = ('x'):rep(1e6) return cmsgpack.unpack(cmsgpack.pack(s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s))",
        "local s = ('x'):rep(1e6) return struct.pack(('c1000000'):rep(100), unpack({s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s}))",
        "return cjson.decode('['..('[],'):rep(1e6)..'1]')",
        "return loadstring('return '..('{'):rep(100)..('1,'):rep(5e6))",
        "return string.format(('%s'):rep(100), unpack({('x'):rep(1e6)}, 1, 1))",
        "return redis.call('echo', ('x'):rep(5e6))..redis.call('echo', ('y'):rep(5e6))..('z'):rep(5e6)",
        "local t = {} while true do t[#t+1] = coroutine.create(function() end) end",
        "local t = {} while true do t[#t+1] = function() return t end end",
        "local function f(n) local t = {n} return f(n + 1), t end return f(1)",
    };
    struct interpreter *interpreter = create(16 * MIB, 100);
    char out[512];

    for (size_t i = 0; i < sizeof(greedy) / sizeof(greedy[0]); i++) {
        enum script_result result = eval(interpreter, greedy[i], out, sizeof(out));

        if (result != SCRIPT_ERROR || out[0] != '-')
            fail_msg("%s: %d %s", greedy[i], result, out);
        assert_true(interpreter_memory(interpreter) < 12 * MIB);
        require_eval(interpreter, "return 'fine'", "$4\r\nfine\r\n");
    }
    interpreter_destroy(interpreter);
}

static void missing_memory_can_be_caught(void **state)
{
    struct interpreter *interpreter = create(16 * MIB, 100);

    for (int i = 0; i < 10; i++)
        require_eval(interpreter, "local n = 0 for i = 1, 3 do if not pcall(string.rep, 'x', 1e9) then n = n + 1 end end "
            "local ok, e = pcall(function() local t = {} for i = 1, 1e9 do t[i] = {} end end) return {n, tostring(ok), e}",
            "*3\r\n:3\r\n$5\r\nfalse\r\n$17\r\nnot enough memory\r\n");
    interpreter_destroy(interpreter);
}

/* The live data is half of the limit, the garbage many times of it. */
static void garbage_does_not_count(void **state)
{
    struct interpreter *interpreter = create(32 * MIB, 100);

    require_eval(interpreter, "local t = {} for i = 1, 150000 do t[i] = {i} end for i = 1, 200 do local s = ('x'):rep(1000000)..i end return #t",
                 ":150000\r\n");
    require_eval(interpreter, "local t = {} for i = 1, 150000 do t[i] = {i} end for i = 1, 1000000 do local s = {i} end return #t", ":150000\r\n");
    require_eval(interpreter, "local n = 0 for i = 1, 100 do local t = {} for j = 1, 20000 do t[j] = {j} end n = n + #t end return n", ":2000000\r\n");
    interpreter_destroy(interpreter);
}

static void a_reply_is_bounded(void **state)
{
    struct interpreter *interpreter = create(16 * MIB, 100);
    char out[512];
    static const char expected[] = "-ERR the reply of the script is too large\r\n";

    require_eval(interpreter, "local t = {} t[1] = t t[2] = t return t", expected);
    require_eval(interpreter, "local t = {} for i = 1, 100 do t = {t, t} end return t", expected);
    require_eval(interpreter, "local s = ('x'):rep(1000000) local t = {} for i = 1, 1000 do t[i] = s end return t", expected);
    require_eval(interpreter, "return {1}", "*1\r\n:1\r\n");
    assert_int_equal(eval(interpreter, "local t = {} t[1] = t return t", out, sizeof(out)), SCRIPT_OK);
    assert_int_equal(memcmp(out, "*1\r\n*1\r\n", 8), 0);
    interpreter_destroy(interpreter);
}

static void deep_recursion_is_an_error(void **state)
{
    static const char *const deep[] = {
        "local function f() return 1 + f() end return f()",
        "local function f() return 1 + (pcall(f) and 1 or error('deep')) end return f()",
        "return ('a'):rep(1000000):find(('a?'):rep(1000000))",
        "return ('x'):find(('('):rep(1000000))",
        "return loadstring('return '..('('):rep(1000000)..'1'..(')'):rep(1000000))()",
        "return loadstring('return '..('{'):rep(1000000))()",
        "return cjson.decode(('['):rep(1000000))",
        "cjson.decode_max_depth(2147483647) return cjson.decode(('['):rep(1000000))",
        "cjson.encode_max_depth(2147483647) local t = {} for i = 1, 100000 do t = {t} end return cjson.encode(t)",
        "return cmsgpack.unpack(('\145'):rep(1000000))",
        "local t = setmetatable({}, {__index = function(t, k) return t[k] end}) return t.x",
        "local t = setmetatable({}, {}) for i = 1, 1000 do t = setmetatable({}, {__index = t}) end return t.x",
        "local function f() return coroutine.wrap(f)() end return f()",
        "local f f = function() return ('x'):gsub('x', f) end return f()",
        "local f f = function(a, b) table.sort({3, 2, 1}, f) return true end return f()",
    };
    struct interpreter *interpreter = create(256 * MIB, 100);
    char out[512];

    for (size_t i = 0; i < sizeof(deep) / sizeof(deep[0]); i++) {
        if (eval(interpreter, deep[i], out, sizeof(out)) == SCRIPT_STOPPED || (out[0] != '-' && strcmp(out, "*0\r\n") != 0))
            fail_msg("%s: %s", deep[i], out);
    }
    require_eval(interpreter, "return 'fine'", "$4\r\nfine\r\n");
    interpreter_destroy(interpreter);
}

/* The sandbox */

/* Each tries to leave something behind for others, or to get at what it must not; then another script looks. */
static void no_script_changes_what_others_see(void **state)
{
    static const char *const attempts[] = {
        "pcall(function() foo = 1 end)", "pcall(rawset, _G, 'foo', 1)", "pcall(function() _G.foo = 1 end)",
        "pcall(function() redis.call = nil end)", "pcall(rawset, redis, 'call', nil)", "pcall(rawset, string, 'rep', nil)",
        "pcall(function() string.rep = nil end)", "pcall(function() getmetatable('').__index = nil end)",
        "pcall(function() getmetatable('').__index.rep = nil end)", "pcall(rawset, getmetatable(''), '__index', {})",
        "pcall(setmetatable, _G, {__index = function() return 1 end})", "pcall(setmetatable, redis, nil)",
        "pcall(setmetatable, string, {__index = function() return 1 end})", "pcall(setmetatable, '', {})",
        "pcall(table.insert, _G, 1)", "pcall(table.insert, redis, 1, 1)", "pcall(table.sort, _G)", "pcall(table.remove, _G, 1)",
        "pcall(table.foreach, redis, function(k, v) end)", "local f, t = pairs(redis) pcall(function() t.call = nil end) pcall(rawset, t, 'call', nil)",
        "pcall(function() getmetatable(_G).__index = nil end)", "pcall(function() KEYS = nil ARGV = nil end)",
        "KEYS[1] = 'zzz' ARGV.x = 1", "pcall(function() _G._G = nil end)", "pcall(function() math.random = nil cjson.encode = nil end)",
        "pcall(function() coroutine.running().x = 1 end)", "pcall(coroutine.resume, coroutine.running())",
        "pcall(error, redis)", "pcall(function() error(_G) end)", "xpcall(function() error(redis) end, function(e) pcall(rawset, e, 'call', 1) end)",
        "collectgarbage('stop')", "collectgarbage('setpause', 1000000)", "collectgarbage('setstepmul', 1)",
        "redis.setresp(3)", "math.randomseed(1)", "local c = cjson.new() c.encode = nil c.null = 1",
        "pcall(loadstring, '\27Lua')", "local d = string.dump pcall(d, function() end)",
        "for k, v in pairs(getmetatable('')) do pcall(rawset, v, 'rep', 1) end",
        "local t = setmetatable({}, redis) t.call = 1", "local t = setmetatable({}, {__newindex = redis}) pcall(function() t.call = 1 end)",
        "local t = setmetatable({}, {__newindex = string}) pcall(function() t.rep = 1 end)",
        "pcall(next, redis, 'nope')", "pcall(unpack, redis)", "return redis", "return _G", "return {redis, string, _G}",
    };
    static const char probe[] =
        "local r = {} "
        "for k, v in pairs(_G) do r[#r+1] = k..':'..type(v) if type(v) == 'table' and k ~= '_G' then for n, f in pairs(v) do r[#r+1] = k..'.'..n..':'..type(f) end end end "
        "table.sort(r) "
        "r[#r+1] = ('x'):rep(3)..#redis..#_G..#KEYS..KEYS[1]..#ARGV..tostring(rawget(_G, 'foo'))..cjson.encode({1})..type(getmetatable('').__index.rep) "
        "r[#r+1] = tostring(redis.call('get', 'nokey')) "
        "return redis.sha1hex(table.concat(r, ' '))..table.concat(r, ' '):sub(-40)";
    struct interpreter *interpreter = create(64 * MIB, 100);
    char expected[512], out[512];

    eval(interpreter, probe, expected, sizeof(expected));
    assert_int_equal(expected[0], '$');
    for (size_t i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++) {
        eval(interpreter, attempts[i], out, sizeof(out));
        eval(interpreter, probe, out, sizeof(out));
        if (strcmp(out, expected) != 0)
            fail_msg("after %s: %s, not %s", attempts[i], out, expected);
    }
    interpreter_destroy(interpreter);
}

static void only_these_globals_exist(void **state)
{
    struct interpreter *interpreter = create(64 * MIB, 100);

    require_eval(interpreter, "local r = {} for k in pairs(_G) do r[#r+1] = k end table.sort(r) return table.concat(r, ' ')",
        "$271\r\nARGV KEYS _G _VERSION __redis__err__handler assert bit cjson cmsgpack collectgarbage coroutine error gcinfo getmetatable ipairs load loadstring "
        "math next pairs pcall rawequal rawget rawset redis select setmetatable string struct table tonumber tostring type unpack xpcall\r\n");
    interpreter_destroy(interpreter);
}

/* What was published about Lua 5.1 and the scripts of Redis, in the order of docs/SECURITY.md. */
static void published_attacks_are_errors_or_harmless(void **state)
{
    static const struct { const char *name, *code, *reply; } attacks[] = {
        { "CVE-2014-5461", "local n = 0 for p = 1, 180 do local names = {} for i = 1, p do names[i] = 'p'..i end "
            "local f = loadstring('return function('..table.concat(names, ',')..', ...) local a, b, c, d, e, f, g, h, i, j, k, l, m, o = 1, ... end')() "
            "for i = 1, 20 do coroutine.wrap(f)() n = n + 1 end end return n", ":3600\r\n" },
        { "CVE-2015-4335", "return loadstring((string.dump(function() end))) == nil and 1", ":1\r\n" },
        { "CVE-2015-8080", "return {pcall(struct.pack, '>I2147483648', '10')}", "*2\r\n$-1\r\n$22\r\nintegral size overflow\r\n" },
        { "CVE-2018-11218", "local t = {} for i = 1, 7900 do t[i] = {i} end return #{cmsgpack.unpack(cmsgpack.pack(unpack(t)))}", ":7900\r\n" },
        { "CVE-2018-11218", "return {pcall(cmsgpack.unpack, ('\\192'):rep(100000))} and 1", ":1\r\n" },
        { "CVE-2018-11219", "return {pcall(struct.unpack, 'c0', '\\255\\255\\255\\255')} and 1", ":1\r\n" },
        { "CVE-2018-11219", "return {pcall(struct.unpack, 'Bc0', '\\255x', 2147483647)} and 1", ":1\r\n" },
        { "CVE-2020-14147", "return {pcall(struct.unpack, '>I99999999999999999999', 'x')} and 1", ":1\r\n" },
        { "CVE-2021-32626", "local t = {} for i = 1, 6000 do t = {t} end return t", NULL },
        { "CVE-2021-32626", "return redis.call('raw', ('*1\\r\\n'):rep(6000)..':1\\r\\n') and 1", NULL },
        { "CVE-2021-43519", "local function f() return coroutine.wrap(f)() end return {pcall(f)} and 1", ":1\r\n" },
        { "CVE-2022-0543", "return {rawget(_G, 'package'), rawget(_G, 'require'), rawget(_G, 'io'), rawget(_G, 'os'), rawget(_G, 'debug')}", "*0\r\n" },
        { "CVE-2022-24735", "local n = 0 for k, v in pairs(_G) do if type(v) == 'table' and k ~= 'KEYS' and k ~= 'ARGV' and pcall(rawset, v, 'x', 1) then n = n + 1 end end return n", ":0\r\n" },
        { "CVE-2024-31449", "return bit.tohex(65535, -2147483648)", "$8\r\n0000FFFF\r\n" },
        { "CVE-2024-46981", "local n = 0 for i = 1, 100 do setmetatable({}, {__gc = function() n = n + 1 end}) end collectgarbage() return n + (rawget(_G, 'newproxy') and 1 or 0)", ":0\r\n" },
        { "CVE-2025-46817", "local n = 0 for _, last in ipairs({2147483647, 2147483646, 1e9}) do for _, first in ipairs({-2147483648, -1, 0, 1}) do "
            "n = n + (pcall(unpack, {1, 2, 3}, first, last) and 1 or 0) end end return n", ":0\r\n" },
        { "CVE-2025-46817", "local t = {1, 2, 3} t[-2147483648] = 4 return {t[-2147483648], (unpack(t, -2147483648, -2147483648)), unpack(t, 2147483647, 2147483647)}",
            "*2\r\n:4\r\n:4\r\n" },
        { "CVE-2025-46818", "local n = 0 for _, v in ipairs({1, true, 'x', function() end, coroutine.create(function() end), cjson.null}) do "
            "if pcall(setmetatable, v, {}) then n = n + 1 end local m = getmetatable(v) if m and (pcall(rawset, m, 'x', 1) or pcall(function() m.x = 1 end)) then n = n + 1 end end "
            "return n", ":0\r\n" },
        { "CVE-2025-46819", "return #loadstring('return ['..('='):rep(100000)..'[x]'..('='):rep(100000)..']')()", ":1\r\n" },
        { "CVE-2025-49844", "local n, kept = 0, {} local f = load(function() n = n + 1 collectgarbage() collectgarbage() for i = 1, 20000 do kept[i] = 'AAAAAAA'..i end "
            "return n == 1 and 'error(\"x\")' or n == 2 and ' ' or nil end) collectgarbage() return {pcall(f)}", "*2\r\n$-1\r\n$11\r\n(load):1: x\r\n" },
    };
    struct interpreter *interpreter = create(64 * MIB, 100);
    char out[512];

    for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++) {
        eval(interpreter, attacks[i].code, out, sizeof(out));
        if (attacks[i].reply != NULL ? strcmp(out, attacks[i].reply) != 0 : out[0] == 0)
            fail_msg("%s: %s\n  replied %s", attacks[i].name, attacks[i].code, out);
        require_eval(interpreter, "return 'fine'", "$4\r\nfine\r\n");
    }
    interpreter_destroy(interpreter);
}

/* The cache */

static void the_cache_of_scripts_is_bounded(void **state)
{
    struct interpreter *interpreter = create(16 * MIB, 50);
    char code[64], expected[64];

    for (int i = 0; i < 20000; i++) {
        snprintf(code, sizeof(code), "return %d", i % 10000);
        snprintf(expected, sizeof(expected), ":%d\r\n", i % 10000);
        require_eval(interpreter, code, expected);
    }
    assert_int_equal(interpreter_script_count(interpreter), 50);
    assert_true(interpreter_memory(interpreter) < 2 * MIB);
    interpreter_set_options(interpreter, &(struct interpreter_options){ .heap_size_max = 16 * MIB, .cached_scripts_max = 10 });
    assert_int_equal(interpreter_script_count(interpreter), 10);
    interpreter_forget_scripts(interpreter);
    assert_int_equal(interpreter_script_count(interpreter), 0);
    require_eval(interpreter, "return 1", ":1\r\n");
    interpreter_destroy(interpreter);
}

/* However little of the heap is left. */
static void a_text_that_there_is_no_memory_for_is_an_error(void **state)
{
    struct interpreter *interpreter = create(16 * MIB, 50);
    struct script_source source = { .code = BYTES("return 1") };
    size_t size = interpreter_memory(interpreter);
    int refused = 0;

    memset(source.sha, 'a', sizeof(source.sha));
    for (size_t max = 1; max <= size; max += 16) {
        struct buffer error = { 0 };

        interpreter_forget_scripts(interpreter);
        interpreter_set_options(interpreter, &(struct interpreter_options){ .heap_size_max = max, .cached_scripts_max = 50 });
        if (!interpreter_check(interpreter, &source, &error)) {
            assert_true(bytes_equal(buffer_bytes(&error), BYTES("ERR Error compiling script (new function): not enough memory")));
            refused++;
        }
        buffer_release(&error);
    }
    assert_true(refused > 0);
    interpreter_destroy(interpreter);
}

static void a_script_is_checked_without_running(void **state)
{
    struct interpreter *interpreter = create(16 * MIB, 50);
    struct script_source source = { .code = BYTES("\nreturn (") };
    struct buffer error = { 0 };

    memset(source.sha, 'a', sizeof(source.sha));
    assert_false(interpreter_check(interpreter, &source, &error));
    assert_true(bytes_equal(buffer_bytes(&error),
                            BYTES("ERR Error compiling script (new function): user_script:2: unexpected symbol near '<eof>'")));
    source.code = BYTES("error('not run')");
    assert_true(interpreter_check(interpreter, &source, &error));
    assert_int_equal(interpreter_script_count(interpreter), 1);
    buffer_release(&error);
    interpreter_destroy(interpreter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_script_that_needs_too_much_memory_gets_an_error),
        cmocka_unit_test(missing_memory_can_be_caught),
        cmocka_unit_test(garbage_does_not_count),
        cmocka_unit_test(a_reply_is_bounded),
        cmocka_unit_test(deep_recursion_is_an_error),
        cmocka_unit_test(no_script_changes_what_others_see),
        cmocka_unit_test(only_these_globals_exist),
        cmocka_unit_test(published_attacks_are_errors_or_harmless),
        cmocka_unit_test(the_cache_of_scripts_is_bounded),
        cmocka_unit_test(a_text_that_there_is_no_memory_for_is_an_error),
        cmocka_unit_test(a_script_is_checked_without_running),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
