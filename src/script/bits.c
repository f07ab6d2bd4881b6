#include <lua5.1/lauxlib.h>
#include <lua5.1/lua.h>
#include <stdint.h>
#include <string.h>

#include "script/sandbox.h"

/* bit: operations on 32 bits, as Lua BitOp 1.0.2 has them. */

/* The low 32 bits of the number, rounded: adding 2^52 + 2^51 puts them in the low bits of the double. */
static uint32_t check_bits(lua_State *lua, int index)
{
    double shifted = luaL_checknumber(lua, index) + 6755399441055744.0;
    uint64_t image;

    memcpy(&image, &shifted, sizeof(image));
    return (uint32_t)image;
}

static int push_bits(lua_State *lua, uint32_t bits)
{
    lua_pushnumber(lua, (lua_Number)(int32_t)bits);
    return 1;
}

static int bit_tobit(lua_State *lua)
{
    return push_bits(lua, check_bits(lua, 1));
}

static int bit_bnot(lua_State *lua)
{
    return push_bits(lua, ~check_bits(lua, 1));
}

static int bit_band(lua_State *lua)
{
    uint32_t bits = check_bits(lua, 1);

    for (int i = lua_gettop(lua); i > 1; i--)
        bits &= check_bits(lua, i);
    return push_bits(lua, bits);
}

static int bit_bor(lua_State *lua)
{
    uint32_t bits = check_bits(lua, 1);

    for (int i = lua_gettop(lua); i > 1; i--)
        bits |= check_bits(lua, i);
    return push_bits(lua, bits);
}

static int bit_bxor(lua_State *lua)
{
    uint32_t bits = check_bits(lua, 1);

    for (int i = lua_gettop(lua); i > 1; i--)
        bits ^= check_bits(lua, i);
    return push_bits(lua, bits);
}

static uint32_t check_count(lua_State *lua)
{
    return check_bits(lua, 2) & 31;
}

static uint32_t rotate_left(uint32_t bits, uint32_t count)
{
    return bits << count | bits >> (-count & 31);
}

static int bit_lshift(lua_State *lua)
{
    uint32_t bits = check_bits(lua, 1);

    return push_bits(lua, bits << check_count(lua));
}

static int bit_rshift(lua_State *lua)
{
    uint32_t bits = check_bits(lua, 1);

    return push_bits(lua, bits >> check_count(lua));
}

static int bit_arshift(lua_State *lua)
{
    int32_t bits = (int32_t)check_bits(lua, 1);

    return push_bits(lua, (uint32_t)(bits >> check_count(lua)));
}

static int bit_rol(lua_State *lua)
{
    uint32_t bits = check_bits(lua, 1);

    return push_bits(lua, rotate_left(bits, check_count(lua)));
}

static int bit_ror(lua_State *lua)
{
    uint32_t bits = check_bits(lua, 1);

    return push_bits(lua, rotate_left(bits, -check_count(lua) & 31));
}

static int bit_bswap(lua_State *lua)
{
    return push_bits(lua, __builtin_bswap32(check_bits(lua, 1)));
}

/* The lowest digits; upper case if their number is negative. */
static int bit_tohex(lua_State *lua)
{
    uint32_t bits = check_bits(lua, 1);
    int32_t count = lua_isnone(lua, 2) ? 8 : (int32_t)check_bits(lua, 2);
    const char *digits = count < 0 ? "0123456789ABCDEF" : "0123456789abcdef";
    char text[8];

    if (count < 0)
        count = count < -8 ? 8 : -count;
    if (count > 8)
        count = 8;
    for (int i = count - 1; i >= 0; i--, bits >>= 4)
        text[i] = digits[bits & 15];
    lua_pushlstring(lua, text, (size_t)count);
    return 1;
}

void bits_open(lua_State *lua)
{
    static const luaL_Reg functions[] = {
        { "tobit", bit_tobit }, { "bnot", bit_bnot }, { "band", bit_band }, { "bor", bit_bor }, { "bxor", bit_bxor },
        { "lshift", bit_lshift }, { "rshift", bit_rshift }, { "arshift", bit_arshift }, { "rol", bit_rol }, { "ror", bit_ror },
        { "bswap", bit_bswap }, { "tohex", bit_tohex }, { NULL, NULL },
    };

    lua_newtable(lua);
    luaL_register(lua, NULL, functions);
}
