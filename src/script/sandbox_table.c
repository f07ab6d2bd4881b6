#include <lua5.1/lauxlib.h>
#include <lua5.1/lua.h>

#include "script/interpreter_private.h"
#include "script/parser.h"
#include "script/readonly.h"
#include "script/sandbox.h"

/* From this number of elements on, table.sort calls a function written in Lua, in which the run can be stopped. */
enum { SORT_UNINTERRUPTED_MAX = 10000 };

static int table_insert(lua_State *lua)
{
    uint32_t *steps = &run_of(lua)->steps;
    int size, at;

    luaL_checktype(lua, 1, LUA_TTABLE);
    readonly_refuse(lua, 1);
    size = (int)lua_objlen(lua, 1) + 1;
    switch (lua_gettop(lua)) {
    case 2:
        at = size;
        break;
    case 3:
        at = luaL_checkint(lua, 2);
        for (int i = size > at ? size : at; i > at; i--) {
            run_step(lua, steps);
            lua_rawgeti(lua, 1, i - 1);
            lua_rawseti(lua, 1, i);
        }
        break;
    default:
        return luaL_error(lua, "wrong number of arguments to 'insert'");
    }
    lua_rawseti(lua, 1, at);
    return 0;
}

/* Upvalues: Lua's own function, one in Lua that compares with <, and one that makes a function in Lua of any other. */
static int table_sort(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    if (!lua_isnoneornil(lua, 2))
        luaL_checktype(lua, 2, LUA_TFUNCTION);
    lua_settop(lua, 2);
    if (lua_objlen(lua, 1) > SORT_UNINTERRUPTED_MAX) {
        if (lua_isnil(lua, 2)) {
            lua_pushvalue(lua, lua_upvalueindex(2));
            lua_replace(lua, 2);
        } else if (lua_iscfunction(lua, 2)) {
            lua_pushvalue(lua, lua_upvalueindex(3));
            lua_insert(lua, 2);
            lua_call(lua, 1, 1);
        }
    }
    return lua_tocfunction(lua, lua_upvalueindex(1))(lua);
}

void sandbox_open_table(lua_State *lua)
{
    static const char compare[] = "return function(a, b) return a < b end, function(f) return function(a, b) return f(a, b) end end";

    lua_pushcfunction(lua, table_insert);
    lua_setfield(lua, -2, "insert");
    lua_getfield(lua, -1, "sort");
    if (parser_load(lua, BYTES(compare), "=sort") != 0)
        lua_error(lua);
    lua_call(lua, 0, 2);
    lua_pushcclosure(lua, table_sort, 3);
    lua_setfield(lua, -2, "sort");
}
