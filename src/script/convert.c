#include "script/convert.h"

#include <lua5.1/lauxlib.h>
#include <lua5.1/lua.h>

#include "base/check.h"
#include "base/text.h"
#include "resp/reply.h"
#include "script/errors.h"

/* Replies to values. The replies are our own, so that a malformed one is a bug. */

struct reader {
    lua_State *lua;
    const char *at, *end;
};

static void push_next(struct reader *reader);

/* The rest of the line after the type. */
static struct bytes read_line(struct reader *reader)
{
    const char *start = reader->at + 1;
    const char *end = memchr(start, '\r', (size_t)(reader->end - start));

    CHECK(end != NULL);
    reader->at = end + 2;
    return bytes_of(start, (size_t)(end - start));
}

/* Fast, because it is on the way of every reply. */
static int64_t read_number(struct reader *reader)
{
    const char *at = reader->at + 1;
    bool negative = *at == '-';
    uint64_t number = 0;

    for (at += negative; *at != '\r'; at++)
        number = number * 10 + (uint64_t)(*at - '0');
    reader->at = at + 2;
    return (int64_t)(negative ? 0 - number : number);
}

static struct bytes read_body(struct reader *reader, int64_t size)
{
    const char *start = reader->at;

    CHECK(size >= 0 && size + 2 <= reader->end - start);
    reader->at += size + 2;
    return bytes_of(start, (size_t)size);
}

static void push_bytes(lua_State *lua, struct bytes bytes)
{
    lua_pushlstring(lua, bytes.data, bytes.size);
}

static void push_in_table(struct reader *reader, const char *name, struct bytes text)
{
    lua_createtable(reader->lua, 0, 1);
    push_bytes(reader->lua, text);
    lua_setfield(reader->lua, -2, name);
}

static void push_error(struct reader *reader)
{
    error_push(reader->lua, read_line(reader));
    lua_pushboolean(reader->lua, true);     /* it was counted when the command ran */
    lua_setfield(reader->lua, -2, "ignore_error_stats_update");
}

static void push_bulk(struct reader *reader)
{
    int64_t size = read_number(reader);

    if (size < 0)
        lua_pushboolean(reader->lua, false);
    else
        push_bytes(reader->lua, read_body(reader, size));
}

static void push_array(struct reader *reader)
{
    int64_t count = read_number(reader);

    if (count < 0) {
        lua_pushboolean(reader->lua, false);
        return;
    }
    lua_createtable(reader->lua, (int)count, 0);
    for (int64_t i = 1; i <= count; i++) {
        push_next(reader);
        lua_rawseti(reader->lua, -2, (int)i);
    }
}

/* {map = {key = value ...}} or {set = {element = true ...}}. */
static void push_keyed(struct reader *reader, const char *name, bool has_values)
{
    int64_t count = read_number(reader);

    lua_createtable(reader->lua, 0, 1);
    lua_createtable(reader->lua, 0, (int)count);
    for (int64_t i = 0; i < count; i++) {
        push_next(reader);
        if (has_values)
            push_next(reader);
        else
            lua_pushboolean(reader->lua, true);
        lua_rawset(reader->lua, -3);
    }
    lua_setfield(reader->lua, -2, name);
}

static void push_double(struct reader *reader)
{
    struct bytes text = read_line(reader);
    double number = 0.0;

    if (!text_to_double(text, &number))
        number = bytes_is(text, "nan") || bytes_is(text, "-nan") ? 0.0 / 0.0 : 0.0;
    lua_createtable(reader->lua, 0, 1);
    lua_pushnumber(reader->lua, number);
    lua_setfield(reader->lua, -2, "double");
}

static void push_verbatim(struct reader *reader)
{
    struct bytes body = read_body(reader, read_number(reader));

    CHECK(body.size >= 4);
    lua_createtable(reader->lua, 0, 1);
    lua_createtable(reader->lua, 0, 2);
    push_bytes(reader->lua, bytes_of(body.data, 3));
    lua_setfield(reader->lua, -2, "format");
    push_bytes(reader->lua, bytes_of(body.data + 4, body.size - 4));
    lua_setfield(reader->lua, -2, "string");
    lua_setfield(reader->lua, -2, "verbatim_string");
}

/* Scripts do not see attributes: they are read and dropped. */
static void skip_attribute(struct reader *reader)
{
    int64_t count = read_number(reader);

    for (int64_t i = 0; i < 2 * count; i++) {
        push_next(reader);
        lua_pop(reader->lua, 1);
    }
    push_next(reader);
}

static void push_line(struct reader *reader, char type)
{
    struct bytes line = read_line(reader);

    if (type == '#')
        lua_pushboolean(reader->lua, line.data[0] == 't');
    else if (type == '_')
        lua_pushnil(reader->lua);
    else
        push_in_table(reader, type == '(' ? "big_number" : "ok", line);
}

static void push_next(struct reader *reader)
{
    char type = *reader->at;

    CHECK(reader->at < reader->end);
    luaL_checkstack(reader->lua, 6, "in the reply of redis.call");
    switch (type) {
    case '$': push_bulk(reader); break;
    case ':': lua_pushnumber(reader->lua, (lua_Number)read_number(reader)); break;
    case '*': case '>': push_array(reader); break;
    case '-': push_error(reader); break;
    case '%': push_keyed(reader, "map", true); break;
    case '~': push_keyed(reader, "set", false); break;
    case ',': push_double(reader); break;
    case '=': push_verbatim(reader); break;
    case '|': skip_attribute(reader); break;
    default: CHECK(strchr("+#_(", type) != NULL); push_line(reader, type);
    }
}

enum convert_result convert_push_reply(lua_State *lua, struct bytes reply)
{
    struct reader reader = { lua, reply.data, reply.data + reply.size };

    CHECK(reply.size > 0);
    push_next(&reader);
    CHECK(reader.at == reader.end);
    return reply.data[0] == '-' ? CONVERT_ERROR : CONVERT_OK;
}

/* Values to replies. */

struct writer {
    lua_State *lua;
    struct reply *reply;
    int protocol;
    size_t size_max;        /* of reply->out */
};

static bool write_value(struct writer *writer);

static struct bytes string_at(lua_State *lua, int index)
{
    struct bytes text;

    text.data = lua_tolstring(lua, index, &text.size);
    return text;
}

/* Pushes a field of the table at the top if it is of this type. */
static bool push_field(lua_State *lua, const char *name, int type)
{
    lua_pushstring(lua, name);
    lua_rawget(lua, -2);
    if (lua_type(lua, -1) == type)
        return true;
    lua_pop(lua, 1);
    return false;
}

static bool write_map(struct writer *writer)
{
    struct reply_later later = reply_later_begin(writer->reply);
    lua_State *lua = writer->lua;
    size_t count = 0;

    for (lua_pushnil(lua); lua_next(lua, -2) != 0; count++) {
        bool fits;

        lua_pushvalue(lua, -2);
        fits = write_value(writer);
        lua_pop(lua, 1);
        fits = fits && write_value(writer);
        lua_pop(lua, 1);
        if (!fits)
            return false;
    }
    reply_later_map(writer->reply, later, count);
    return true;
}

static bool write_set(struct writer *writer)
{
    struct reply_later later = reply_later_begin(writer->reply);
    lua_State *lua = writer->lua;
    size_t count = 0;

    for (lua_pushnil(lua); lua_next(lua, -2) != 0; count++) {
        bool fits;

        lua_pop(lua, 1);
        lua_pushvalue(lua, -1);
        fits = write_value(writer);
        lua_pop(lua, 1);
        if (!fits)
            return false;
    }
    reply_later_set(writer->reply, later, count);
    return true;
}

/* Up to the first nil. */
static bool write_array(struct writer *writer)
{
    struct reply_later later = reply_later_begin(writer->reply);
    int count = 0;

    for (;; count++) {
        bool fits;

        lua_rawgeti(writer->lua, -1, count + 1);
        if (lua_isnil(writer->lua, -1))
            break;
        fits = write_value(writer);
        lua_pop(writer->lua, 1);
        if (!fits)
            return false;
    }
    lua_pop(writer->lua, 1);
    reply_later_array(writer->reply, later, (size_t)count);
    return true;
}

/* The format has three letters: a longer one is cut off, a shorter one padded with spaces. */
static bool write_verbatim(struct writer *writer)
{
    lua_State *lua = writer->lua;
    char kind[4] = "   ";
    struct bytes format;

    if (!push_field(lua, "format", LUA_TSTRING))
        return false;
    format = string_at(lua, -1);
    memcpy(kind, format.data, format.size < 3 ? format.size : 3);
    lua_pop(lua, 1);
    if (!push_field(lua, "string", LUA_TSTRING))
        return false;
    reply_verbatim(writer->reply, kind, string_at(lua, -1));
    lua_pop(lua, 1);
    return true;
}

/* Redis has no line ends in it in RESP2 either. */
static void write_big_number(struct writer *writer, struct bytes digits)
{
    char *text;

    if (writer->reply->protocol >= 3) {
        reply_big_number(writer->reply, digits);
        return;
    }
    text = reply_bulk_reserve(writer->reply, digits.size);
    memcpy(text, digits.data, digits.size);
    for (size_t i = 0; i < digits.size; i++) {
        if (text[i] == '\r' || text[i] == '\n')
            text[i] = ' ';
    }
}

static bool write_keyed(struct writer *writer, bool *fits)
{
    lua_State *lua = writer->lua;

    if (push_field(lua, "map", LUA_TTABLE))
        *fits = write_map(writer);
    else if (push_field(lua, "set", LUA_TTABLE))
        *fits = write_set(writer);
    else
        return false;
    lua_pop(lua, 1);
    return true;
}

/* Tables with one of these fields are not arrays. */
static bool write_special(struct writer *writer, bool *fits)
{
    lua_State *lua = writer->lua;
    bool done = true;

    if (push_field(lua, "err", LUA_TSTRING))
        reply_error_text(writer->reply, string_at(lua, -1));
    else if (push_field(lua, "ok", LUA_TSTRING))
        reply_status(writer->reply, string_at(lua, -1));
    else if (push_field(lua, "double", LUA_TNUMBER))
        reply_double(writer->reply, lua_tonumber(lua, -1));
    else if (write_keyed(writer, fits))
        return true;
    else if (push_field(lua, "big_number", LUA_TSTRING))
        write_big_number(writer, string_at(lua, -1));
    else if (push_field(lua, "verbatim_string", LUA_TTABLE))
        done = write_verbatim(writer);
    else
        return false;
    lua_pop(lua, 1);
    return done;
}

static bool write_table(struct writer *writer)
{
    bool fits = true;

    if (!lua_checkstack(writer->lua, 6)) {
        reply_error_text(writer->reply, BYTES("ERR reached lua stack limit"));
        return true;
    }
    if (write_special(writer, &fits))
        return fits;
    return write_array(writer);
}

static void write_boolean(struct writer *writer, bool value)
{
    if (writer->protocol == 3)
        reply_bool(writer->reply, value);
    else if (value)
        reply_integer(writer->reply, 1);
    else
        reply_null(writer->reply);
}

/* Truncates; out of range is the smallest integer, as the processor has it. */
static int64_t integer_of(double number)
{
    return number > -9223372036854775809.0 && number < 9223372036854775808.0 ? (int64_t)number : INT64_MIN;
}

static bool write_value(struct writer *writer)
{
    switch (lua_type(writer->lua, -1)) {
    case LUA_TSTRING: reply_bulk(writer->reply, string_at(writer->lua, -1)); break;
    case LUA_TNUMBER: reply_integer(writer->reply, integer_of(lua_tonumber(writer->lua, -1))); break;
    case LUA_TBOOLEAN: write_boolean(writer, lua_toboolean(writer->lua, -1)); break;
    case LUA_TTABLE: return write_table(writer) && writer->reply->out.size <= writer->size_max;
    default: reply_null(writer->reply);
    }
    return writer->reply->out.size <= writer->size_max;
}

bool convert_write_value(lua_State *lua, int protocol, size_t size_max, struct reply *reply)
{
    struct writer writer = { lua, reply, protocol, reply->out.size + size_max };

    if (writer.size_max < size_max)
        writer.size_max = SIZE_MAX;
    return write_value(&writer);
}
