#include <lua5.1/lauxlib.h>
#include <lua5.1/lua.h>

#include "script/interpreter_private.h"
#include "script/sandbox.h"

/* Coroutines of a run that has to end must not go on one by one: each function checks before and after. */

enum { RESUME_FAILED = -1 };

static const char *status_of(lua_State *lua, lua_State *other)
{
    lua_Debug place;

    if (lua == other)
        return "running";
    if (lua_status(other) == LUA_YIELD)
        return "suspended";
    if (lua_status(other) != 0)
        return "dead";
    if (lua_getstack(other, 0, &place))
        return "normal";
    return lua_gettop(other) == 0 ? "dead" : "suspended";
}

static void set_current(lua_State *lua, lua_State *current)
{
    struct interpreter *interpreter = interpreter_of(lua);

    interpreter->running->current = current;
    interpreter->allocator.current = current;
}

/* Moves `count` arguments from the top of the stack to the coroutine, and its results back. Returns their number, or
 * RESUME_FAILED with an error at the top. */
static int resume(lua_State *lua, lua_State *other, int count)
{
    const char *what = status_of(lua, other);
    int status;

    run_require(lua);
    if (!lua_checkstack(other, count))
        luaL_error(lua, "too many arguments to resume");
    if (strcmp(what, "suspended") != 0) {
        lua_pushfstring(lua, "cannot resume %s coroutine", strcmp(what, "dead") == 0 ? what : "non-suspended");
        return RESUME_FAILED;
    }
    lua_xmove(lua, other, count);
    lua_setlevel(lua, other);
    set_current(lua, other);
    status = lua_resume(other, count);
    set_current(lua, lua);
    switch (status) {
    case 0: case LUA_YIELD:
        count = lua_gettop(other);
        if (!lua_checkstack(lua, count + 1))
            luaL_error(lua, "too many results to resume");
        lua_xmove(other, lua, count);
        break;
    default:
        lua_xmove(other, lua, 1);
        count = RESUME_FAILED;
    }
    run_require(lua);
    if (status == LUA_ERRMEM)
        lua_gc(lua, LUA_GCCOLLECT, 0);
    return count;
}

static int coroutine_resume(lua_State *lua)
{
    lua_State *other = lua_tothread(lua, 1);
    int count;

    luaL_argcheck(lua, other != NULL, 1, "coroutine expected");
    count = resume(lua, other, lua_gettop(lua) - 1);
    lua_pushboolean(lua, count != RESUME_FAILED);
    if (count == RESUME_FAILED)
        count = 1;
    lua_insert(lua, -(count + 1));
    return count + 1;
}

static int wrap_call(lua_State *lua)
{
    int count = resume(lua, lua_tothread(lua, lua_upvalueindex(1)), lua_gettop(lua));

    if (count != RESUME_FAILED)
        return count;
    if (lua_isstring(lua, -1)) {
        luaL_where(lua, 1);
        lua_insert(lua, -2);
        lua_concat(lua, 2);
    }
    return lua_error(lua);
}

static int coroutine_create(lua_State *lua)
{
    lua_State *other;

    luaL_argcheck(lua, lua_isfunction(lua, 1) && !lua_iscfunction(lua, 1), 1, "Lua function expected");
    other = lua_newthread(lua);
    lua_pushvalue(lua, 1);
    lua_xmove(lua, other, 1);
    return 1;
}

static int coroutine_wrap(lua_State *lua)
{
    coroutine_create(lua);
    lua_pushcclosure(lua, wrap_call, 1);
    return 1;
}

static int coroutine_status(lua_State *lua)
{
    lua_State *other = lua_tothread(lua, 1);

    luaL_argcheck(lua, other != NULL, 1, "coroutine expected");
    lua_pushstring(lua, status_of(lua, other));
    return 1;
}

/* The Lua thread of a run looks like Lua's main thread: a script can't get at it. */
static int coroutine_running(lua_State *lua)
{
    if (lua == run_of(lua)->lua)
        lua_pushnil(lua);
    else
        lua_pushthread(lua);
    return 1;
}

void sandbox_open_coroutine(lua_State *lua)
{
    static const luaL_Reg functions[] = {
        { "resume", coroutine_resume }, { "create", coroutine_create }, { "wrap", coroutine_wrap },
        { "status", coroutine_status }, { "running", coroutine_running }, { NULL, NULL },
    };

    luaL_register(lua, NULL, functions);
}
