#include "script/readonly.h"

#include <lua5.1/lauxlib.h>
#include <lua5.1/lua.h>

/* The address of this constant is the key of the real table in the metatable. Scripts have no light userdata but NULL. */
static const char real_key = 0;

static const char refusal[] = "Attempt to modify a readonly table";

static int refuse_assignment(lua_State *lua)
{
    return luaL_error(lua, "%s", refusal);
}

static void set_target(lua_State *lua, int metatable, int target)
{
    lua_pushlightuserdata(lua, (void *)&real_key);
    lua_pushvalue(lua, target);
    lua_rawset(lua, metatable);
    lua_pushvalue(lua, target);
    lua_setfield(lua, metatable, "__index");
}

void readonly_wrap(lua_State *lua)
{
    int target = lua_gettop(lua);

    lua_newtable(lua);
    lua_createtable(lua, 0, 3);
    set_target(lua, target + 2, target);
    lua_pushcfunction(lua, refuse_assignment);
    lua_setfield(lua, -2, "__newindex");
    lua_setmetatable(lua, -2);
    lua_replace(lua, target);
}

void readonly_redirect(lua_State *lua, int index)
{
    int target = lua_gettop(lua);

    lua_getmetatable(lua, index);
    set_target(lua, target + 1, target);
    lua_settop(lua, target - 1);
}

/* Pushes the real table if the value at `index` is a view. */
static bool push_real(lua_State *lua, int index)
{
    if (!lua_getmetatable(lua, index))
        return false;
    lua_pushlightuserdata(lua, (void *)&real_key);
    lua_rawget(lua, -2);
    lua_remove(lua, -2);
    if (lua_istable(lua, -1))
        return true;
    lua_pop(lua, 1);
    return false;
}

bool readonly_is(lua_State *lua, int index)
{
    if (!push_real(lua, index))
        return false;
    lua_pop(lua, 1);
    return true;
}

void readonly_unwrap(lua_State *lua, int index)
{
    if (push_real(lua, index))
        lua_replace(lua, index);
}

void readonly_refuse(lua_State *lua, int index)
{
    if (!readonly_is(lua, index))
        return;
    lua_pushstring(lua, refusal);       /* without a position, as Redis has it where no assignment is refused */
    lua_error(lua);
}
