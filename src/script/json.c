#include "script/json.h"

#include "script/interpreter_private.h"

enum { JSON_NUMBER_MAX = 2147483647 };

void json_settings_init(struct json_settings *settings)
{
    *settings = (struct json_settings){
        .sparse_ratio = 2, .sparse_safe = 10, .encode_depth_max = 1000, .decode_depth_max = 1000, .precision = 14,
        .keep_buffer = true, .decode_invalid = true,
    };
}

/* Upvalue 1 has the settings of a table made by cjson.new; it is nil for the shared table, whose settings are the run's. */
static struct json_settings *own_settings(lua_State *lua)
{
    return lua_touserdata(lua, lua_upvalueindex(1));
}

const struct json_settings *json_settings_of(lua_State *lua)
{
    const struct json_settings *own = own_settings(lua);

    return own != NULL ? own : &run_of(lua)->json;
}

static struct json_settings *settings_to_change(lua_State *lua)
{
    struct json_settings *own = own_settings(lua);

    return own != NULL ? own : &run_of(lua)->json;
}

/* Later runs begin with the settings that a run has left. */
static void settings_changed(lua_State *lua)
{
    if (own_settings(lua) == NULL)
        interpreter_of(lua)->json = run_of(lua)->json;
}

static void begin_options(lua_State *lua, int count)
{
    luaL_argcheck(lua, lua_gettop(lua) <= count, count + 1, "found too many arguments");
    lua_settop(lua, count);
}

/* Sets an option if it is given, and pushes its value. */
static void integer_option(lua_State *lua, int index, int *option, int min, int max)
{
    if (!lua_isnil(lua, index)) {
        lua_Integer number = luaL_checkinteger(lua, index);

        if (number < min || number > max)
            luaL_argerror(lua, 1, lua_pushfstring(lua, "expected integer between %d and %d", min, max));
        *option = (int)number;
    }
    lua_pushinteger(lua, *option);
}

static void enum_option(lua_State *lua, int index, int *option, const char *const names[])
{
    if (lua_isboolean(lua, index))
        *option = lua_toboolean(lua, index);
    else if (!lua_isnil(lua, index))
        *option = luaL_checkoption(lua, index, NULL, names);
    if (*option <= 1)
        lua_pushboolean(lua, *option);
    else
        lua_pushstring(lua, names[*option]);
}

static void bool_option(lua_State *lua, int index, bool *option)
{
    static const char *const names[] = { "off", "on", NULL };
    int value = *option;

    enum_option(lua, index, &value, names);
    *option = value != 0;
}

static int json_encode_sparse_array(lua_State *lua)
{
    struct json_settings *settings = settings_to_change(lua);

    begin_options(lua, 3);
    bool_option(lua, 1, &settings->sparse_convert);
    integer_option(lua, 2, &settings->sparse_ratio, 0, JSON_NUMBER_MAX);
    integer_option(lua, 3, &settings->sparse_safe, 0, JSON_NUMBER_MAX);
    settings_changed(lua);
    return 3;
}

static int json_encode_max_depth(lua_State *lua)
{
    begin_options(lua, 1);
    integer_option(lua, 1, &settings_to_change(lua)->encode_depth_max, 1, JSON_NUMBER_MAX);
    settings_changed(lua);
    return 1;
}

static int json_decode_max_depth(lua_State *lua)
{
    begin_options(lua, 1);
    integer_option(lua, 1, &settings_to_change(lua)->decode_depth_max, 1, JSON_NUMBER_MAX);
    settings_changed(lua);
    return 1;
}

static int json_encode_number_precision(lua_State *lua)
{
    begin_options(lua, 1);
    integer_option(lua, 1, &settings_to_change(lua)->precision, 1, 14);
    settings_changed(lua);
    return 1;
}

static int json_encode_keep_buffer(lua_State *lua)
{
    begin_options(lua, 1);
    bool_option(lua, 1, &settings_to_change(lua)->keep_buffer);
    settings_changed(lua);
    return 1;
}

static int json_encode_invalid_numbers(lua_State *lua)
{
    static const char *const names[] = { "off", "on", "null", NULL };
    struct json_settings *settings = settings_to_change(lua);
    int value = (int)settings->encode_invalid;

    begin_options(lua, 1);
    enum_option(lua, 1, &value, names);
    settings->encode_invalid = (enum json_invalid)value;
    settings_changed(lua);
    return 1;
}

static int json_decode_invalid_numbers(lua_State *lua)
{
    begin_options(lua, 1);
    bool_option(lua, 1, &settings_to_change(lua)->decode_invalid);
    settings_changed(lua);
    return 1;
}

static void push_table(lua_State *lua, bool is_own);

static int json_new(lua_State *lua)
{
    push_table(lua, true);
    return 1;
}

static void push_settings(lua_State *lua, bool is_own)
{
    if (is_own)
        json_settings_init(lua_newuserdata(lua, sizeof(struct json_settings)));
    else
        lua_pushnil(lua);
}

static void push_table(lua_State *lua, bool is_own)
{
    static const luaL_Reg functions[] = {
        { "encode", json_encode }, { "decode", json_decode }, { "encode_sparse_array", json_encode_sparse_array },
        { "encode_max_depth", json_encode_max_depth }, { "decode_max_depth", json_decode_max_depth },
        { "encode_number_precision", json_encode_number_precision }, { "encode_keep_buffer", json_encode_keep_buffer },
        { "encode_invalid_numbers", json_encode_invalid_numbers }, { "decode_invalid_numbers", json_decode_invalid_numbers },
        { "new", json_new }, { NULL, NULL },
    };

    lua_newtable(lua);
    push_settings(lua, is_own);
    for (const luaL_Reg *function = functions; function->name != NULL; function++) {
        lua_pushvalue(lua, -1);
        lua_pushcclosure(lua, function->func, 1);
        lua_setfield(lua, -3, function->name);
    }
    lua_pop(lua, 1);
    lua_pushlightuserdata(lua, NULL);
    lua_setfield(lua, -2, "null");
    lua_pushliteral(lua, "cjson");
    lua_setfield(lua, -2, "_NAME");
    lua_pushliteral(lua, "2.1.0");
    lua_setfield(lua, -2, "_VERSION");
}

void json_open(lua_State *lua)
{
    push_table(lua, false);
}
