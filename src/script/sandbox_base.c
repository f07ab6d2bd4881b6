#include <lua5.1/lauxlib.h>
#include <lua5.1/lua.h>
#include <math.h>

#include "script/allocator.h"
#include "script/growing.h"
#include "script/interpreter_private.h"
#include "script/parser.h"
#include "script/readonly.h"
#include "script/sandbox.h"

enum { PIECES_MAX = 1 << 20 };      /* of a text that `load` reads */

/* Replacements of functions of Lua's base library whose original scripts must not see: functions that look at tables without metamethods
 * see the real table of a read-only one, and functions by which a script could harm others do less. */

static int base_next(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    lua_settop(lua, 2);
    readonly_unwrap(lua, 1);
    if (lua_next(lua, 1) != 0)
        return 2;
    lua_pushnil(lua);
    return 1;
}

/* The loop gets the view, not the real table. Upvalue 1: next. */
static int base_pairs(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    lua_pushvalue(lua, lua_upvalueindex(1));
    lua_pushvalue(lua, 1);
    lua_pushnil(lua);
    return 3;
}

static int base_rawget(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    luaL_checkany(lua, 2);
    lua_settop(lua, 2);
    readonly_unwrap(lua, 1);
    lua_rawget(lua, 1);
    return 1;
}

static int base_rawset(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    luaL_checkany(lua, 2);
    luaL_checkany(lua, 3);
    lua_settop(lua, 3);
    readonly_refuse(lua, 1);
    lua_rawset(lua, 1);
    return 1;
}

static int base_getmetatable(lua_State *lua)
{
    luaL_checkany(lua, 1);
    if (lua_type(lua, 1) == LUA_TSTRING) {
        sandbox_push_string_metatable(lua);
        return 1;
    }
    if (readonly_is(lua, 1)) {
        sandbox_push_shown_metatable(lua, 1);
        return 1;
    }
    if (!lua_getmetatable(lua, 1)) {
        lua_pushnil(lua);
        return 1;
    }
    luaL_getmetafield(lua, 1, "__metatable");   /* pushes nothing if there is none: the metatable is at the top then */
    return 1;
}

static int base_setmetatable(lua_State *lua)
{
    int type = lua_type(lua, 2);

    luaL_checktype(lua, 1, LUA_TTABLE);
    luaL_argcheck(lua, type == LUA_TNIL || type == LUA_TTABLE, 2, "nil or table expected");
    readonly_refuse(lua, 1);
    if (luaL_getmetafield(lua, 1, "__metatable"))
        return luaL_error(lua, "cannot change a protected metatable");
    lua_settop(lua, 2);
    lua_setmetatable(lua, 1);
    return 1;
}

/* As in Redis, where scripts from before version 7 expect the text of an error, not a table. */
static int base_pcall(lua_State *lua)
{
    int count = lua_gettop(lua), status;

    lua_pushboolean(lua, true);
    lua_insert(lua, 1);
    if (count == 0)
        lua_pushnil(lua);
    status = lua_pcall(lua, count > 0 ? count - 1 : 0, LUA_MULTRET, 0);
    if (status == 0)
        return lua_gettop(lua);
    run_require(lua);       /* an error because the run ends is raised again */
    if (status == LUA_ERRMEM)
        lua_gc(lua, LUA_GCCOLLECT, 0);      /* so that the script can go on */
    lua_pushboolean(lua, false);
    lua_replace(lua, 1);
    if (lua_istable(lua, -1)) {
        lua_pushliteral(lua, "err");
        lua_rawget(lua, -2);
        if (lua_isstring(lua, -1))
            lua_replace(lua, -2);
        else
            lua_pop(lua, 1);
    }
    return 2;
}

static int return_problem(lua_State *lua)
{
    lua_pushnil(lua);
    lua_insert(lua, -2);
    return 2;
}

static int base_loadstring(lua_State *lua)
{
    struct bytes text;
    const char *name;

    text.data = luaL_checklstring(lua, 1, &text.size);
    name = luaL_optstring(lua, 2, text.data);
    return parser_load(lua, text, name) == 0 ? 1 : return_problem(lua);
}

/* Pushes what the Lua function at 1 returns piece by piece, until it returns nothing. One that never does is refused after a while. */
static void gather_pieces(lua_State *lua)
{
    struct growing text;

    luaL_checkstack(lua, 5, "too many nested functions");
    growing_init(&text, lua);
    for (int count = 0;; count++) {
        struct bytes piece;

        run_require(lua);
        run_step(lua, &run_of(lua)->steps);
        lua_pushvalue(lua, 1);
        lua_call(lua, 0, 1);
        if (lua_isnil(lua, -1))
            break;
        if (!lua_isstring(lua, -1))
            luaL_error(lua, "reader function must return a string");
        piece.data = lua_tolstring(lua, -1, &piece.size);
        if (piece.size == 0)
            break;
        if (count == PIECES_MAX || piece.size > PARSER_TEXT_MAX - text.size)
            luaL_error(lua, "reader function returns too much");
        growing_append(&text, piece.data, piece.size);
        lua_pop(lua, 1);
    }
    lua_pop(lua, 1);
    growing_push(&text);
    lua_replace(lua, text.index);
}

static int base_load(lua_State *lua)
{
    const char *name = luaL_optstring(lua, 2, "=(load)");

    luaL_checktype(lua, 1, LUA_TFUNCTION);
    lua_settop(lua, 2);
    return parser_load_gathered(lua, gather_pieces, name) == 0 ? 1 : return_problem(lua);
}

/* The collector serves all scripts: its speed is not theirs to set, and it can't be stopped. */
static int base_collectgarbage(lua_State *lua)
{
    static const char *const names[] = { "collect", "count", "step", "stop", "restart", "setpause", "setstepmul", NULL };
    const char *name = names[luaL_checkoption(lua, 1, "collect", names)];
    int argument = luaL_optint(lua, 2, 0);

    if (strcmp(name, "count") == 0)
        lua_pushnumber(lua, lua_gc(lua, LUA_GCCOUNT, 0) + lua_gc(lua, LUA_GCCOUNTB, 0) / 1024.0);
    else if (strcmp(name, "step") == 0)
        lua_pushboolean(lua, lua_gc(lua, LUA_GCSTEP, argument));
    else if (strcmp(name, "collect") == 0)
        lua_pushnumber(lua, lua_gc(lua, LUA_GCCOLLECT, 0));
    else
        lua_pushnumber(lua, strncmp(name, "set", 3) == 0 ? 200 : 0);
    if (strcmp(name, "collect") == 0 || strcmp(name, "step") == 0)
        run_poll(lua);      /* it took long */
    return 1;
}

static int base_unpack(lua_State *lua)
{
    int first = luaL_optint(lua, 2, 1), last;
    uint32_t *steps = &run_of(lua)->steps;
    int64_t count;

    luaL_checktype(lua, 1, LUA_TTABLE);
    last = luaL_opt(lua, luaL_checkint, 3, (int)lua_objlen(lua, 1));
    count = (int64_t)last - first + 1;
    if (count <= 0)
        return 0;
    if (count > LUAI_MAXCSTACK || !lua_checkstack(lua, (int)count))
        return luaL_error(lua, "too many results to unpack");
    for (int64_t i = first; i <= last; i++) {
        run_step(lua, steps);
        lua_rawgeti(lua, 1, (int)i);
    }
    return (int)count;
}

void sandbox_open_base(lua_State *lua)
{
    static const luaL_Reg functions[] = {
        { "next", base_next }, { "rawget", base_rawget }, { "rawset", base_rawset }, { "getmetatable", base_getmetatable },
        { "setmetatable", base_setmetatable }, { "pcall", base_pcall }, { "loadstring", base_loadstring }, { "load", base_load },
        { "collectgarbage", base_collectgarbage }, { "unpack", base_unpack }, { NULL, NULL },
    };

    luaL_register(lua, NULL, functions);
    lua_getfield(lua, -1, "next");
    lua_pushcclosure(lua, base_pairs, 1);
    lua_setfield(lua, -2, "pairs");
}

/* math */

static int math_random(lua_State *lua)
{
    double number = (double)(rand48_next(&run_of(lua)->random) % INT32_MAX) / INT32_MAX;
    int low = 1, high;

    switch (lua_gettop(lua)) {
    case 0:
        lua_pushnumber(lua, number);
        return 1;
    case 1:
        high = luaL_checkint(lua, 1);
        luaL_argcheck(lua, high >= 1, 1, "interval is empty");
        break;
    case 2:
        low = luaL_checkint(lua, 1);
        high = luaL_checkint(lua, 2);
        luaL_argcheck(lua, low <= high, 2, "interval is empty");
        break;
    default:
        return luaL_error(lua, "wrong number of arguments");
    }
    lua_pushnumber(lua, floor(number * ((double)high - low + 1)) + low);
    return 1;
}

static int math_randomseed(lua_State *lua)
{
    rand48_init(&run_of(lua)->random, (uint32_t)luaL_checkint(lua, 1));
    return 0;
}

void sandbox_open_math(lua_State *lua)
{
    static const luaL_Reg functions[] = { { "random", math_random }, { "randomseed", math_randomseed }, { NULL, NULL } };

    luaL_register(lua, NULL, functions);
}
