#include "script/sandbox.h"

#include <lua5.1/lauxlib.h>
#include <lua5.1/lua.h>
#include <lua5.1/lualib.h>
#include <stddef.h>

#include "script/api.h"
#include "script/errors.h"
#include "script/json.h"
#include "script/loaded.h"
#include "script/readonly.h"

/* In Lua's registry. */
static const char BASE[] = "kelvin.base";               /* the globals of all scripts, but for redis, KEYS and ARGV */
static const char API[] = "kelvin.redis";               /* redis, as EVAL scripts see it */
static const char FUNCTION_GLOBALS[] = "kelvin.functions";
static const char LIBRARY_GLOBALS[] = "kelvin.libraries";
static const char STRING_METATABLE[] = "kelvin.string";
static const char MISSING_METATABLE[] = "kelvin.missing";       /* a read-only view of the metatable of real globals */

static const char *const base_functions[] = {
    "_VERSION", "assert", "error", "gcinfo", "ipairs", "rawequal", "select", "tonumber", "tostring", "type", "xpcall",
};

static const char *const base_tables[] = { "coroutine", "math", "string", "table" };

/* The error for names that do not exist. It is in the metatable of the real globals, which are empty otherwise. */
static int refuse_missing(lua_State *lua)
{
    const char *name = lua_tostring(lua, 2);

    return luaL_error(lua, "Script attempted to access nonexistent global variable '%s'", name != NULL ? name : luaL_typename(lua, 2));
}

static void refuse_missing_names(lua_State *lua)
{
    lua_createtable(lua, 0, 1);
    lua_pushcfunction(lua, refuse_missing);
    lua_setfield(lua, -2, "__index");
    lua_setmetatable(lua, -2);
}

static void open_library(lua_State *lua, lua_CFunction open, const char *name)
{
    lua_pushcfunction(lua, open);
    lua_pushstring(lua, name);
    lua_call(lua, 1, 0);
}

static void open_libraries(lua_State *lua)
{
    static const struct { const char *name; lua_CFunction open; void (*change)(lua_State *); } libraries[] = {
        { "coroutine", NULL, sandbox_open_coroutine },      /* it is part of the base library */
        { LUA_MATHLIBNAME, luaopen_math, sandbox_open_math },
        { LUA_STRLIBNAME, luaopen_string, sandbox_open_string },
        { LUA_TABLIBNAME, luaopen_table, sandbox_open_table },
    };

    open_library(lua, luaopen_base, "");
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        if (libraries[i].open != NULL)
            open_library(lua, libraries[i].open, libraries[i].name);
        lua_getglobal(lua, libraries[i].name);
        libraries[i].change(lua);
        lua_pop(lua, 1);
    }
}

static void add_wrapped(lua_State *lua, const char *name)
{
    readonly_wrap(lua);
    lua_setfield(lua, -2, name);
}

static void add_own_libraries(lua_State *lua)
{
    json_open(lua);
    add_wrapped(lua, "cjson");
    msgpack_open(lua);
    add_wrapped(lua, "cmsgpack");
    structs_open(lua);
    add_wrapped(lua, "struct");
    bits_open(lua);
    add_wrapped(lua, "bit");
}

static void build_base(lua_State *lua)
{
    lua_newtable(lua);
    for (size_t i = 0; i < sizeof(base_functions) / sizeof(base_functions[0]); i++) {
        lua_getglobal(lua, base_functions[i]);
        lua_setfield(lua, -2, base_functions[i]);
    }
    sandbox_open_base(lua);
    for (size_t i = 0; i < sizeof(base_tables) / sizeof(base_tables[0]); i++) {
        lua_getglobal(lua, base_tables[i]);
        add_wrapped(lua, base_tables[i]);
    }
    add_own_libraries(lua);
    lua_setfield(lua, LUA_REGISTRYINDEX, BASE);
}

/* Pushes a copy of the globals of all scripts. */
static void push_base_copy(lua_State *lua)
{
    lua_createtable(lua, 0, 40);
    lua_getfield(lua, LUA_REGISTRYINDEX, BASE);
    lua_pushnil(lua);
    while (lua_next(lua, -2) != 0) {
        lua_pushvalue(lua, -2);
        lua_insert(lua, -2);
        lua_rawset(lua, -5);
    }
    lua_pop(lua, 1);
}

static void build_function_globals(lua_State *lua)
{
    push_base_copy(lua);
    api_open(lua, API_OF_FUNCTIONS);
    add_wrapped(lua, "redis");
    refuse_missing_names(lua);
    lua_pushvalue(lua, -1);
    readonly_wrap(lua);
    lua_pushvalue(lua, -1);
    lua_setfield(lua, LUA_REGISTRYINDEX, FUNCTION_GLOBALS);
    lua_pushliteral(lua, "_G");
    lua_insert(lua, -2);
    lua_rawset(lua, -3);
    lua_pop(lua, 1);
}

static void build_library_globals(lua_State *lua)
{
    lua_newtable(lua);
    api_open(lua, API_OF_LIBRARIES);
    loaded_open(lua);
    refuse_missing_names(lua);
    add_wrapped(lua, "redis");
    refuse_missing_names(lua);
    lua_setfield(lua, LUA_REGISTRYINDEX, LIBRARY_GLOBALS);
}

static void build_missing_metatable(lua_State *lua)
{
    lua_createtable(lua, 0, 1);
    lua_pushcfunction(lua, refuse_missing);
    lua_setfield(lua, -2, "__index");
    readonly_wrap(lua);
    lua_setfield(lua, LUA_REGISTRYINDEX, MISSING_METATABLE);
}

/* Builds what scripts see of the metatable of strings; the real one refers to the real table. */
static void build_string_metatable(lua_State *lua)
{
    lua_createtable(lua, 0, 1);
    lua_getfield(lua, LUA_REGISTRYINDEX, BASE);
    lua_getfield(lua, -1, LUA_STRLIBNAME);
    lua_setfield(lua, -3, "__index");
    lua_pop(lua, 1);
    readonly_wrap(lua);
    lua_setfield(lua, LUA_REGISTRYINDEX, STRING_METATABLE);
}

void sandbox_open(lua_State *lua)
{
    open_libraries(lua);
    build_base(lua);
    api_open(lua, API_OF_SCRIPTS);
    readonly_wrap(lua);
    lua_setfield(lua, LUA_REGISTRYINDEX, API);
    build_function_globals(lua);
    build_library_globals(lua);
    build_missing_metatable(lua);
    build_string_metatable(lua);
}

void sandbox_push_globals(lua_State *lua)
{
    push_base_copy(lua);
    lua_getfield(lua, LUA_REGISTRYINDEX, API);
    lua_setfield(lua, -2, "redis");
    lua_pushcfunction(lua, error_locate);
    lua_setfield(lua, -2, "__redis__err__handler");
    refuse_missing_names(lua);
    lua_pushvalue(lua, -1);
    readonly_wrap(lua);
    lua_pushliteral(lua, "_G");
    lua_pushvalue(lua, -2);
    lua_rawset(lua, -4);
    lua_pushvalue(lua, -1);
    lua_replace(lua, LUA_GLOBALSINDEX);
}

void sandbox_push_function_globals(lua_State *lua)
{
    lua_getfield(lua, LUA_REGISTRYINDEX, FUNCTION_GLOBALS);
}

void sandbox_push_library_globals(lua_State *lua)
{
    lua_getfield(lua, LUA_REGISTRYINDEX, LIBRARY_GLOBALS);
    readonly_wrap(lua);
}

void sandbox_complete_globals(lua_State *lua, int index)
{
    sandbox_push_function_globals(lua);
    lua_pushvalue(lua, -1);
    readonly_unwrap(lua, lua_gettop(lua));
    lua_remove(lua, -2);
    readonly_redirect(lua, index);
}

void sandbox_push_string_metatable(lua_State *lua)
{
    lua_getfield(lua, LUA_REGISTRYINDEX, STRING_METATABLE);
}

void sandbox_push_shown_metatable(lua_State *lua, int index)
{
    lua_pushvalue(lua, index);
    readonly_unwrap(lua, lua_gettop(lua));
    if (lua_getmetatable(lua, -1))
        lua_getfield(lua, LUA_REGISTRYINDEX, MISSING_METATABLE);
    else
        lua_pushnil(lua);
}
