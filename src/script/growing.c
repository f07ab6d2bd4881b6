#include "script/growing.h"

#include <lua5.1/lua.h>

void growing_init(struct growing *growing, lua_State *lua)
{
    lua_pushnil(lua);
    growing->lua = lua;
    growing->index = lua_gettop(lua);
    growing->data = growing->first;
    growing->size = 0;
    growing->capacity = sizeof(growing->first);
}

void growing_grow(struct growing *growing, size_t more)
{
    size_t capacity = growing->capacity * 2;
    char *data;

    if (capacity - growing->size < more)
        capacity = growing->size + more;
    data = lua_newuserdata(growing->lua, capacity);
    memcpy(data, growing->data, growing->size);
    lua_replace(growing->lua, growing->index);
    growing->data = data;
    growing->capacity = capacity;
}

void growing_push(struct growing *growing)
{
    lua_pushlstring(growing->lua, growing->data, growing->size);
}
