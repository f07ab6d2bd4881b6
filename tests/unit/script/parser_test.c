#include "support/unit.h"

#include <lua5.1/lauxlib.h>
#include <lua5.1/lua.h>
#include <lua5.1/lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/check.h"
#include "script/parser.h"

static lua_State *open_lua(void)
{
    lua_State *lua = luaL_newstate();

    assert_non_null(lua);
    luaL_openlibs(lua);
    return lua;
}

static void require_refused(lua_State *lua, struct bytes text, const char *expected)
{
    int top = lua_gettop(lua);

    assert_int_not_equal(parser_load(lua, text, "@user_script"), 0);
    assert_string_equal(lua_tostring(lua, -1), expected);
    assert_int_equal(lua_gettop(lua), top + 1);
    lua_pop(lua, 1);
}

/* Any code that Lua has compiled, whole and cut, and what only begins like it. */
static void compiled_code_is_a_syntax_error(void **state)
{
    static const char error[] = "user_script:1: unexpected symbol near 'char(27)'";
    lua_State *lua = open_lua();
    struct bytes code;

    assert_int_equal(luaL_dostring(lua, "return string.dump(function() return 5 end)"), 0);
    code.data = lua_tolstring(lua, -1, &code.size);
    assert_memory_equal(code.data, LUA_SIGNATURE, 4);
    for (size_t size = 1; size <= code.size; size++)
        require_refused(lua, bytes_of(code.data, size), error);
    lua_close(lua);
}

static void a_text_is_compiled_under_its_name(void **state)
{
    static const char script[] = "\n return nil .. 'x'";
    lua_State *lua = open_lua();

    assert_int_equal(parser_load(lua, BYTES(script), "@name"), 0);
    assert_int_equal(lua_gettop(lua), 1);
    assert_int_not_equal(lua_pcall(lua, 0, 1, 0), 0);
    assert_string_equal(lua_tostring(lua, -1), "name:2: attempt to concatenate a nil value");
    lua_settop(lua, 0);
    assert_int_equal(parser_load(lua, BYTES(""), "=empty"), 0);
    assert_int_equal(lua_pcall(lua, 0, 0, 0), 0);
    require_refused(lua, BYTES("#!lua"), "user_script:1: unexpected symbol near '#'");
    lua_close(lua);
}

/* The text is not there: it must not be looked at. */
static void a_text_that_overflows_counters_is_refused_unread(void **state)
{
    size_t size = (size_t)PARSER_TEXT_MAX + 1;
    char *text = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    lua_State *lua = open_lua();

    assert_ptr_not_equal(text, MAP_FAILED);
    require_refused(lua, bytes_of(text, size), "the text is too large");
    lua_close(lua);
    munmap(text, size);
}

static void brackets_of_many_levels_are_counted_right(void **state)
{
    enum { LEVEL = 1 << 20 };
    lua_State *lua = open_lua();
    char *text = malloc(2 * LEVEL + 16), *at = text;

    at += sprintf(at, "return [");
    memset(at, '=', LEVEL);
    at += LEVEL;
    at += sprintf(at, "[x]");
    memset(at, '=', LEVEL);
    at += LEVEL;
    *at++ = ']';
    assert_int_equal(parser_load(lua, bytes_of(text, (size_t)(at - text)), "=x"), 0);
    assert_int_equal(lua_pcall(lua, 0, 1, 0), 0);
    assert_string_equal(lua_tostring(lua, -1), "x");
    free(text);
    lua_close(lua);
}

/* gather_hostile: what CVE-2025-49844 does: collects garbage, and takes freed memory for strings of its own, while a text is asked for. */
static void gather_hostile(lua_State *lua)
{
    luaL_checkstack(lua, 5, NULL);
    CHECK(luaL_dostring(lua, "collectgarbage() collectgarbage() keep = {} for i = 1, 20000 do keep[i] = 'AAAAAAA'..i end") == 0);
    lua_pushliteral(lua, "error('x')");
}

static void gather_error(lua_State *lua)
{
    luaL_error(lua, "no text");
}

static void gather_compiled(lua_State *lua)
{
    CHECK(luaL_dostring(lua, "return string.dump(function() return 5 end)") == 0);
}

static void a_gathered_text_is_there_before_the_parser_starts(void **state)
{
    char name[] = "=(some name)";
    lua_State *lua = open_lua();

    for (int i = 0; i < 20; i++) {
        assert_int_equal(parser_load_gathered(lua, gather_hostile, name), 0);
        lua_gc(lua, LUA_GCCOLLECT, 0);
        assert_int_not_equal(lua_pcall(lua, 0, 0, 0), 0);
        assert_string_equal(lua_tostring(lua, -1), "(some name):1: x");
        lua_settop(lua, 0);
    }
    assert_int_not_equal(parser_load_gathered(lua, gather_error, name), 0);
    assert_string_equal(lua_tostring(lua, -1), "no text");
    assert_int_not_equal(parser_load_gathered(lua, gather_compiled, name), 0);
    assert_string_equal(lua_tostring(lua, -1), "(some name):1: unexpected symbol near 'char(27)'");
    assert_int_equal(lua_gettop(lua), 2);
    lua_close(lua);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compiled_code_is_a_syntax_error),
        cmocka_unit_test(a_text_is_compiled_under_its_name),
        cmocka_unit_test(a_text_that_overflows_counters_is_refused_unread),
        cmocka_unit_test(brackets_of_many_levels_are_counted_right),
        cmocka_unit_test(a_gathered_text_is_there_before_the_parser_starts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
