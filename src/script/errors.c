#include "script/errors.h"

#include <lua5.1/lauxlib.h>
#include <lua5.1/lua.h>

#include "base/buffer.h"
#include "script/readonly.h"

static struct bytes top_bytes(lua_State *lua)
{
    size_t size;
    const char *data = lua_tolstring(lua, -1, &size);

    return bytes_of(data, size);
}

static struct bytes without_line_end(struct bytes text)
{
    while (text.size > 0 && (text.data[text.size - 1] == '\r' || text.data[text.size - 1] == '\n'))
        text.size--;
    return text;
}

void error_push(lua_State *lua, struct bytes text)
{
    text = without_line_end(text);
    lua_createtable(lua, 0, 4);
    lua_pushlstring(lua, text.data, text.size);
    lua_setfield(lua, -2, "err");
}

int error_raise(lua_State *lua, const char *text)
{
    error_push(lua, bytes_of_string(text));
    return lua_error(lua);
}

/* Replaces the value at the top with a table: 'ERR ' and the value as text. */
static void make_table(lua_State *lua)
{
    lua_pushliteral(lua, "ERR ");
    if (lua_isstring(lua, -2))
        lua_pushvalue(lua, -2);
    else if (lua_isboolean(lua, -2))
        lua_pushstring(lua, lua_toboolean(lua, -2) ? "true" : "false");
    else if (lua_isnil(lua, -2))
        lua_pushliteral(lua, "nil");
    else
        lua_pushfstring(lua, "%s: %p", luaL_typename(lua, -2), lua_topointer(lua, -2));
    lua_concat(lua, 2);
    lua_createtable(lua, 0, 4);
    lua_insert(lua, -2);
    lua_setfield(lua, -2, "err");
    lua_replace(lua, -2);
}

static void set_raw(lua_State *lua, const char *name)
{
    lua_pushstring(lua, name);
    lua_insert(lua, -2);
    lua_rawset(lua, -3);
}

static bool find_place(lua_State *lua, lua_Debug *place)
{
    if (!lua_getstack(lua, 1, place) || !lua_getinfo(lua, "Sl", place))
        return false;
    if (*place->what == 'C')
        return lua_getstack(lua, 2, place) && lua_getinfo(lua, "Sl", place);
    return true;
}

int error_locate(lua_State *lua)
{
    lua_Debug place;

    if (!lua_istable(lua, -1) || readonly_is(lua, -1))
        make_table(lua);
    if (!find_place(lua, &place))
        return 1;
    lua_pushstring(lua, place.source);
    set_raw(lua, "source");
    lua_pushinteger(lua, place.currentline);
    set_raw(lua, "line");
    return 1;
}

static bool push_field(lua_State *lua, const char *name)
{
    lua_pushstring(lua, name);
    lua_rawget(lua, -2);
    if (lua_isstring(lua, -1))
        return true;
    lua_pop(lua, 1);
    return false;
}

static void write_text(lua_State *lua, struct buffer *out)
{
    if (!lua_istable(lua, -1)) {
        buffer_append_string(out, "ERR ");
        buffer_append_bytes(out, lua_isstring(lua, -1) ? top_bytes(lua) : BYTES("unknown error"));
        return;
    }
    if (push_field(lua, "err")) {
        buffer_append_bytes(out, top_bytes(lua));
        lua_pop(lua, 1);
    } else {
        buffer_append_string(out, "ERR unknown error");
    }
}

static void write_place(lua_State *lua, struct bytes name, struct buffer *out)
{
    if (!lua_istable(lua, -1) || !push_field(lua, "source"))
        return;
    lua_insert(lua, -2);
    if (push_field(lua, "line")) {
        buffer_append_string(out, " script: ");
        buffer_append_bytes(out, name);
        buffer_append_format(out, ", on %s:%d.", lua_tostring(lua, -3), (int)lua_tointeger(lua, -1));
        lua_pop(lua, 1);
    }
    lua_remove(lua, -2);
}

static bool is_counted(lua_State *lua)
{
    bool counted;

    if (!lua_istable(lua, -1))
        return false;
    lua_pushliteral(lua, "ignore_error_stats_update");
    lua_rawget(lua, -2);
    counted = lua_toboolean(lua, -1);
    lua_pop(lua, 1);
    return counted;
}

bool error_write(lua_State *lua, struct bytes name, struct buffer *out)
{
    write_text(lua, out);
    if (name.data != NULL)
        write_place(lua, name, out);
    return is_counted(lua);
}
