#include <limits.h>
#include <lua5.1/lauxlib.h>
#include <lua5.1/lua.h>
#include <math.h>

#include "script/growing.h"
#include "script/interpreter_private.h"
#include "script/sandbox.h"

/* cmsgpack: MessagePack as Redis' lua-cmsgpack reads and writes it: without the types bin and ext. */

enum { NESTING_MAX = 16 };      /* tables below this depth are written as nil */

struct packer {
    lua_State *lua;
    uint32_t *steps;
    struct growing out;
};

static void pack_value(struct packer *packer, int depth);

/* A byte, and a number in big-endian. */
static void append_number(struct packer *packer, unsigned char type, uint64_t number, int size)
{
    char *at = growing_reserve(&packer->out, 9);

    *at++ = (char)type;
    for (int i = size - 1; i >= 0; i--)
        *at++ = (char)(number >> 8 * i);
    packer->out.size += 1 + (size_t)size;
}

static void append_byte(struct packer *packer, unsigned char byte)
{
    growing_append_char(&packer->out, (char)byte);
}

static void pack_string(struct packer *packer)
{
    size_t size;
    const char *text = lua_tolstring(packer->lua, -1, &size);

    if (size < 32)
        append_byte(packer, (unsigned char)(0xa0 | size));
    else if (size <= 0xff)
        append_number(packer, 0xd9, size, 1);
    else if (size <= 0xffff)
        append_number(packer, 0xda, size, 2);
    else
        append_number(packer, 0xdb, size, 4);
    growing_append(&packer->out, text, size);
}

static void pack_unsigned(struct packer *packer, uint64_t number)
{
    if (number <= 127)
        append_byte(packer, (unsigned char)number);
    else if (number <= 0xff)
        append_number(packer, 0xcc, number, 1);
    else if (number <= 0xffff)
        append_number(packer, 0xcd, number, 2);
    else if (number <= 0xffffffff)
        append_number(packer, 0xce, number, 4);
    else
        append_number(packer, 0xcf, number, 8);
}

static void pack_negative(struct packer *packer, int64_t number)
{
    if (number >= -32)
        append_byte(packer, (unsigned char)number);
    else if (number >= INT8_MIN)
        append_number(packer, 0xd0, (uint64_t)number, 1);
    else if (number >= INT16_MIN)
        append_number(packer, 0xd1, (uint64_t)number, 2);
    else if (number >= INT32_MIN)
        append_number(packer, 0xd2, (uint64_t)number, 4);
    else
        append_number(packer, 0xd3, (uint64_t)number, 8);
}

static void pack_double(struct packer *packer, double number)
{
    float narrow = (float)number;
    uint32_t narrow_bits;
    uint64_t bits;

    if (number == (double)narrow) {
        memcpy(&narrow_bits, &narrow, sizeof(narrow_bits));
        append_number(packer, 0xca, narrow_bits, 4);
        return;
    }
    memcpy(&bits, &number, sizeof(bits));
    append_number(packer, 0xcb, bits, 8);
}

static void pack_number(struct packer *packer)
{
    double number = lua_tonumber(packer->lua, -1);

    if (!(number >= -9223372036854775808.0 && number < 9223372036854775808.0) || number != (double)(int64_t)number)
        pack_double(packer, number);
    else if (number >= 0)
        pack_unsigned(packer, (uint64_t)number);
    else
        pack_negative(packer, (int64_t)number);
}

static void pack_count(struct packer *packer, size_t count, unsigned char small, unsigned char medium)
{
    if (count <= 15)
        append_byte(packer, (unsigned char)(small | count));
    else if (count <= 0xffff)
        append_number(packer, medium, count, 2);
    else
        append_number(packer, medium + 1, count, 4);
}

static void pack_array(struct packer *packer, int depth)
{
    size_t count = lua_objlen(packer->lua, -1);

    pack_count(packer, count, 0x90, 0xdc);
    for (size_t i = 1; i <= count; i++) {
        lua_rawgeti(packer->lua, -1, (int)i);
        pack_value(packer, depth + 1);
        lua_pop(packer->lua, 1);
    }
}

static void pack_map(struct packer *packer, size_t count, int depth)
{
    lua_State *lua = packer->lua;

    pack_count(packer, count, 0x80, 0xde);
    for (lua_pushnil(lua); lua_next(lua, -2) != 0; lua_pop(lua, 1)) {
        lua_pushvalue(lua, -2);
        pack_value(packer, depth + 1);
        lua_pop(lua, 1);
        pack_value(packer, depth + 1);
    }
}

/* A table is an array if its keys are 1 to n; an empty one too. */
static void pack_table(struct packer *packer, int depth)
{
    lua_State *lua = packer->lua;
    bool is_array = true;
    double count = 0, max = 0;

    luaL_checkstack(lua, 4, "in function mp_encode_lua_table");
    for (lua_pushnil(lua); lua_next(lua, -2) != 0; lua_pop(lua, 1)) {
        double index = lua_type(lua, -2) == LUA_TNUMBER ? lua_tonumber(lua, -2) : 0;

        run_step(lua, packer->steps);
        is_array = is_array && index >= 1 && floor(index) == index;
        max = index > max ? index : max;
        count++;
    }
    if (is_array && max == count)
        pack_array(packer, depth);
    else
        pack_map(packer, (size_t)count, depth);
}

/* The value at the top, which stays there. */
static void pack_value(struct packer *packer, int depth)
{
    run_step(packer->lua, packer->steps);
    switch (lua_type(packer->lua, -1)) {
    case LUA_TSTRING: pack_string(packer); break;
    case LUA_TBOOLEAN: append_byte(packer, lua_toboolean(packer->lua, -1) ? 0xc3 : 0xc2); break;
    case LUA_TNUMBER: pack_number(packer); break;
    case LUA_TTABLE:
        if (depth < NESTING_MAX) {
            pack_table(packer, depth);
            break;
        }
        /* fall through */
    default: append_byte(packer, 0xc0);
    }
}

static int msgpack_pack(lua_State *lua)
{
    struct packer packer;
    int count = lua_gettop(lua);

    if (count == 0)
        return luaL_argerror(lua, 0, "MessagePack pack needs input.");
    luaL_checkstack(lua, 4, "Too many arguments for MessagePack pack.");
    packer.lua = lua;
    packer.steps = &run_of(lua)->steps;
    growing_init(&packer.out, lua);
    for (int i = 1; i <= count; i++) {
        lua_pushvalue(lua, i);
        pack_value(&packer, 0);
        lua_pop(lua, 1);
    }
    growing_push(&packer.out);
    return 1;
}

/* Reading */

struct unpacker {
    lua_State *lua;
    const unsigned char *at;
    size_t left;
    uint32_t *steps;
};

static void unpack_value(struct unpacker *unpacker);

static const unsigned char *take_bytes(struct unpacker *unpacker, size_t size)
{
    const unsigned char *at = unpacker->at;

    if (size > unpacker->left)
        luaL_error(unpacker->lua, "Missing bytes in input.");
    unpacker->at += size;
    unpacker->left -= size;
    return at;
}

static uint64_t take_number(struct unpacker *unpacker, size_t size)
{
    const unsigned char *at = take_bytes(unpacker, size);
    uint64_t number = 0;

    for (size_t i = 0; i < size; i++)
        number = number << 8 | at[i];
    return number;
}

static void unpack_string(struct unpacker *unpacker, size_t size)
{
    const unsigned char *text = take_bytes(unpacker, size);

    lua_pushlstring(unpacker->lua, (const char *)text, size);
}

/* The count is what the input says: nothing is allocated for it in advance. */
static void unpack_array(struct unpacker *unpacker, size_t count)
{
    lua_newtable(unpacker->lua);
    for (size_t i = 1; i <= count; i++) {
        lua_pushnumber(unpacker->lua, (lua_Number)i);
        unpack_value(unpacker);
        lua_rawset(unpacker->lua, -3);
    }
}

static void unpack_map(struct unpacker *unpacker, size_t count)
{
    lua_newtable(unpacker->lua);
    for (size_t i = 0; i < count; i++) {
        unpack_value(unpacker);
        unpack_value(unpacker);
        lua_rawset(unpacker->lua, -3);
    }
}

static void unpack_float(struct unpacker *unpacker)
{
    uint32_t bits = (uint32_t)take_number(unpacker, 4);
    float number;

    memcpy(&number, &bits, sizeof(number));
    lua_pushnumber(unpacker->lua, number);
}

static void unpack_double(struct unpacker *unpacker)
{
    uint64_t bits = take_number(unpacker, 8);
    double number;

    memcpy(&number, &bits, sizeof(number));
    lua_pushnumber(unpacker->lua, number);
}

/* Two's complement of 1, 2, 4 or 8 bytes. */
static void unpack_signed(struct unpacker *unpacker, size_t size)
{
    uint64_t number = take_number(unpacker, size) << (64 - 8 * size);

    lua_pushnumber(unpacker->lua, (lua_Number)((int64_t)number >> (64 - 8 * size)));
}

static void unpack_typed(struct unpacker *unpacker, unsigned char type)
{
    lua_State *lua = unpacker->lua;

    switch (type) {
    case 0xc0: lua_pushnil(lua); break;
    case 0xc2: case 0xc3: lua_pushboolean(lua, type & 1); break;
    case 0xd9: unpack_string(unpacker, take_number(unpacker, 1)); break;
    case 0xda: unpack_string(unpacker, take_number(unpacker, 2)); break;
    case 0xdb: unpack_string(unpacker, take_number(unpacker, 4)); break;
    case 0xca: unpack_float(unpacker); break;
    case 0xcb: unpack_double(unpacker); break;
    case 0xcc: case 0xcd: case 0xce: case 0xcf:
        /* Redis reads an unsigned number of 64 bits as a signed one. */
        lua_pushnumber(lua, (lua_Number)(int64_t)take_number(unpacker, (size_t)1 << (type - 0xcc)));
        break;
    case 0xd0: case 0xd1: case 0xd2: case 0xd3: unpack_signed(unpacker, (size_t)1 << (type - 0xd0)); break;
    case 0xdc: unpack_array(unpacker, take_number(unpacker, 2)); break;
    case 0xdd: unpack_array(unpacker, take_number(unpacker, 4)); break;
    case 0xde: unpack_map(unpacker, take_number(unpacker, 2)); break;
    case 0xdf: unpack_map(unpacker, take_number(unpacker, 4)); break;
    default: luaL_error(lua, "Bad data format in input.");
    }
}

static void unpack_value(struct unpacker *unpacker)
{
    unsigned char type;

    run_step(unpacker->lua, unpacker->steps);
    luaL_checkstack(unpacker->lua, 4, "too many return values at once; use unpack_one or unpack_limit instead.");
    type = *take_bytes(unpacker, 1);
    if (type < 0x80)
        lua_pushnumber(unpacker->lua, type);
    else if (type < 0x90)
        unpack_map(unpacker, type & 15);
    else if (type < 0xa0)
        unpack_array(unpacker, type & 15);
    else if (type < 0xc0)
        unpack_string(unpacker, type & 31);
    else if (type >= 0xe0)
        lua_pushnumber(unpacker->lua, (signed char)type);
    else
        unpack_typed(unpacker, type);
}

/* Reads at most `limit` values from `offset` on; 0 and 0: all. Results are on the stack after the string. */
static int unpack_values(lua_State *lua, lua_Integer limit, lua_Integer offset)
{
    bool is_all = limit == 0 && offset == 0;
    struct unpacker unpacker;
    size_t size;
    const char *text = luaL_checklstring(lua, 1, &size);
    int count = 0;

    if (offset < 0 || limit < 0)
        return luaL_error(lua, "Invalid request to unpack with offset of %d and limit of %d.", (int)offset, (int)size);
    if ((size_t)offset > size)
        return luaL_error(lua, "Start offset %d greater than input length %d.", (int)offset, (int)size);
    lua_settop(lua, 1);
    unpacker = (struct unpacker){ lua, (const unsigned char *)text + offset, size - (size_t)offset, &run_of(lua)->steps };
    for (; unpacker.left > 0 && (is_all ? count < INT_MAX : count < limit); count++)
        unpack_value(&unpacker);
    if (is_all)
        return count;
    lua_pushinteger(lua, unpacker.left == 0 ? -1 : (lua_Integer)(size - unpacker.left));
    lua_insert(lua, 2);
    return count + 1;
}

static int msgpack_unpack(lua_State *lua)
{
    return unpack_values(lua, 0, 0);
}

static int msgpack_unpack_one(lua_State *lua)
{
    return unpack_values(lua, 1, luaL_optinteger(lua, 2, 0));
}

static int msgpack_unpack_limit(lua_State *lua)
{
    return unpack_values(lua, luaL_checkinteger(lua, 2), luaL_optinteger(lua, 3, 0));
}

void msgpack_open(lua_State *lua)
{
    static const luaL_Reg functions[] = {
        { "pack", msgpack_pack }, { "unpack", msgpack_unpack }, { "unpack_one", msgpack_unpack_one },
        { "unpack_limit", msgpack_unpack_limit }, { NULL, NULL },
    };

    lua_newtable(lua);
    luaL_register(lua, NULL, functions);
    lua_pushliteral(lua, "cmsgpack");
    lua_setfield(lua, -2, "_NAME");
    lua_pushliteral(lua, "lua-cmsgpack 0.4.0");
    lua_setfield(lua, -2, "_VERSION");
    lua_pushliteral(lua, "MessagePack for Lua");
    lua_setfield(lua, -2, "_DESCRIPTION");
    lua_pushliteral(lua, "Kelvin");
    lua_setfield(lua, -2, "_COPYRIGHT");
}
