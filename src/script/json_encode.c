#include <lua5.1/lauxlib.h>
#include <lua5.1/lua.h>
#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "script/growing.h"
#include "script/interpreter_private.h"
#include "script/json.h"

enum { NOT_AN_ARRAY = -1, NUMBER_SIZE = 32 };

struct encoder {
    lua_State *lua;
    const struct json_settings *settings;
    uint32_t *steps;
    struct growing out;
};

static void encode_value(struct encoder *encoder, int depth);

static void refuse_value(struct encoder *encoder, const char *reason)
{
    luaL_error(encoder->lua, "Cannot serialise %s: %s", luaL_typename(encoder->lua, -1), reason);
}

static void append_text(struct encoder *encoder, const char *text)
{
    growing_append(&encoder->out, text, strlen(text));
}

/* The letter after the backslash for bytes that have a short escape; 'u' for those without; 0 for those that need none. */
static char escape_of(unsigned char byte)
{
    switch (byte) {
    case '"': case '\\': case '/': return (char)byte;
    case '\b': return 'b';
    case '\t': return 't';
    case '\n': return 'n';
    case '\f': return 'f';
    case '\r': return 'r';
    default: return byte < 0x20 || byte == 0x7f ? 'u' : 0;
    }
}

/* At most six bytes for each byte: this much room is reserved for a piece at a time. */
static void append_escaped(struct growing *out, struct bytes piece)
{
    char *at = growing_reserve(out, piece.size * 6);

    for (size_t i = 0; i < piece.size; i++) {
        unsigned char byte = (unsigned char)piece.data[i];
        char escape = escape_of(byte);

        if (escape == 0) {
            *at++ = (char)byte;
            continue;
        }
        *at++ = '\\';
        *at++ = escape;
        if (escape == 'u') {
            *at++ = '0';
            *at++ = '0';
            text_of_bytes(&byte, 1, at);
            at += 2;
        }
    }
    out->size = (size_t)(at - out->data);
}

/* The string is at `index`, which keeps it alive. */
static void encode_string(struct encoder *encoder, int index)
{
    enum { PIECE_SIZE = 4096 };
    struct bytes text;

    text.data = lua_tolstring(encoder->lua, index, &text.size);
    growing_append_char(&encoder->out, '"');
    for (size_t at = 0; at < text.size; at += PIECE_SIZE) {
        size_t rest = text.size - at;

        append_escaped(&encoder->out, bytes_of(text.data + at, rest < PIECE_SIZE ? rest : PIECE_SIZE));
    }
    growing_append_char(&encoder->out, '"');
}

static void encode_number(struct encoder *encoder, double number)
{
    char text[NUMBER_SIZE];
    int size;

    if (!isfinite(number)) {
        if (encoder->settings->encode_invalid == JSON_INVALID_REFUSED)
            refuse_value(encoder, "must not be NaN or Inf");
        if (encoder->settings->encode_invalid == JSON_INVALID_AS_NULL) {
            append_text(encoder, "null");
            return;
        }
        if (isnan(number)) {
            append_text(encoder, "nan");
            return;
        }
    }
    size = snprintf(text, sizeof(text), "%.*g", encoder->settings->precision, number);
    growing_append(&encoder->out, text, (size_t)size);
}

/* The largest index of the table at the top, or NOT_AN_ARRAY. */
static int array_size(struct encoder *encoder)
{
    const struct json_settings *settings = encoder->settings;
    lua_State *lua = encoder->lua;
    double max = 0, count = 0;

    for (lua_pushnil(lua); lua_next(lua, -2) != 0; lua_pop(lua, 1)) {
        double index = lua_type(lua, -2) == LUA_TNUMBER ? lua_tonumber(lua, -2) : 0;

        run_step(lua, encoder->steps);
        if (index < 1 || floor(index) != index || index > INT32_MAX) {
            lua_pop(lua, 2);
            return NOT_AN_ARRAY;
        }
        max = index > max ? index : max;
        count++;
    }
    if (settings->sparse_ratio > 0 && max > count * settings->sparse_ratio && max > settings->sparse_safe) {
        if (!settings->sparse_convert)
            refuse_value(encoder, "excessively sparse array");
        return NOT_AN_ARRAY;
    }
    return (int)max;
}

static void encode_array(struct encoder *encoder, int count, int depth)
{
    growing_append_char(&encoder->out, '[');
    for (int i = 1; i <= count; i++) {
        if (i > 1)
            growing_append_char(&encoder->out, ',');
        lua_rawgeti(encoder->lua, -1, i);
        encode_value(encoder, depth);
        lua_pop(encoder->lua, 1);
    }
    growing_append_char(&encoder->out, ']');
}

/* The key is at -2. Numbers become strings. */
static void encode_key(struct encoder *encoder)
{
    switch (lua_type(encoder->lua, -2)) {
    case LUA_TNUMBER:
        growing_append_char(&encoder->out, '"');
        encode_number(encoder, lua_tonumber(encoder->lua, -2));
        growing_append_char(&encoder->out, '"');
        break;
    case LUA_TSTRING:
        encode_string(encoder, -2);
        break;
    default:
        lua_pop(encoder->lua, 1);
        refuse_value(encoder, "table key must be a number or string");
    }
    growing_append_char(&encoder->out, ':');
}

static void encode_object(struct encoder *encoder, int depth)
{
    lua_State *lua = encoder->lua;
    bool is_first = true;

    growing_append_char(&encoder->out, '{');
    for (lua_pushnil(lua); lua_next(lua, -2) != 0; lua_pop(lua, 1)) {
        if (!is_first)
            growing_append_char(&encoder->out, ',');
        is_first = false;
        encode_key(encoder);
        encode_value(encoder, depth);
    }
    growing_append_char(&encoder->out, '}');
}

static void encode_table(struct encoder *encoder, int depth)
{
    int count;

    if (depth > encoder->settings->encode_depth_max || !lua_checkstack(encoder->lua, 4))
        luaL_error(encoder->lua, "Cannot serialise, excessive nesting (%d)", depth);
    count = array_size(encoder);
    if (count > 0)
        encode_array(encoder, count, depth);
    else
        encode_object(encoder, depth);
}

/* The value at the top, which stays there. */
static void encode_value(struct encoder *encoder, int depth)
{
    lua_State *lua = encoder->lua;

    run_step(lua, encoder->steps);
    switch (lua_type(lua, -1)) {
    case LUA_TSTRING: encode_string(encoder, -1); break;
    case LUA_TNUMBER: encode_number(encoder, lua_tonumber(lua, -1)); break;
    case LUA_TBOOLEAN: append_text(encoder, lua_toboolean(lua, -1) ? "true" : "false"); break;
    case LUA_TTABLE: encode_table(encoder, depth + 1); break;
    case LUA_TNIL: append_text(encoder, "null"); break;
    default:
        if (lua_type(lua, -1) != LUA_TLIGHTUSERDATA || lua_touserdata(lua, -1) != NULL)
            refuse_value(encoder, "type not supported");
        append_text(encoder, "null");
    }
}

int json_encode(lua_State *lua)
{
    struct encoder encoder;

    luaL_argcheck(lua, lua_gettop(lua) == 1, 1, "expected 1 argument");
    encoder.lua = lua;
    encoder.settings = json_settings_of(lua);
    encoder.steps = &run_of(lua)->steps;
    growing_init(&encoder.out, lua);
    lua_pushvalue(lua, 1);
    encode_value(&encoder, 0);
    growing_push(&encoder.out);
    return 1;
}
