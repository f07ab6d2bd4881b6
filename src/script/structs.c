#include <ctype.h>
#include <limits.h>
#include <lua5.1/lauxlib.h>
#include <lua5.1/lua.h>
#include <stdint.h>

#include "script/growing.h"
#include "script/sandbox.h"

/* struct: packed binary data as Redis' Lua struct 0.2 reads and writes it.
 *
 *   > < big, little endian   ![n] alignment   x a byte of padding   b B h H l L T i[n] I[n] integers, lower case signed
 *   f d floating point   s string and NUL   c[n] n bytes; c0: all (pack), or as many as the number before says (unpack)
 */

enum { INTEGER_SIZE_MAX = 32, ALIGNMENT_DEFAULT = 8 };

struct layout {
    lua_State *lua;
    const char *at;         /* in the format */
    bool is_big;
    size_t alignment;
};

static size_t read_count(struct layout *layout, size_t missing)
{
    size_t count = 0;

    if (!isdigit((unsigned char)*layout->at))
        return missing;
    while (isdigit((unsigned char)*layout->at)) {
        size_t digit = (size_t)(*layout->at++ - '0');

        if (count > (INT_MAX - digit) / 10)
            luaL_error(layout->lua, "integral size overflow");
        count = count * 10 + digit;
    }
    return count;
}

/* The size of an item, 0 if it is not an item or its size is variable. */
static size_t read_size(struct layout *layout, char option)
{
    size_t size;

    switch (option) {
    case 'b': case 'B': case 'x': return 1;
    case 'h': case 'H': return sizeof(short);
    case 'l': case 'L': return sizeof(long);
    case 'T': return sizeof(size_t);
    case 'f': return sizeof(float);
    case 'd': return sizeof(double);
    case 'c': return read_count(layout, 1);
    case 'i': case 'I':
        size = read_count(layout, sizeof(int));
        if (size > INTEGER_SIZE_MAX)
            luaL_error(layout->lua, "integral size %d is larger than limit of %d", (int)size, INTEGER_SIZE_MAX);
        return size;
    default: return 0;
    }
}

/* Bytes of padding before an item of `size` bytes at `offset`. */
static size_t padding_of(const struct layout *layout, size_t offset, char option, size_t size)
{
    if (size == 0 || option == 'c')
        return 0;
    if (size > layout->alignment)
        size = layout->alignment;
    return size == 0 ? 0 : (size - (offset & (size - 1))) & (size - 1);
}

static void read_control(struct layout *layout, char option)
{
    size_t alignment;

    switch (option) {
    case ' ': break;
    case '>': layout->is_big = true; break;
    case '<': layout->is_big = false; break;
    case '!':
        alignment = read_count(layout, ALIGNMENT_DEFAULT);
        if (alignment == 0 || (alignment & (alignment - 1)) != 0)
            luaL_error(layout->lua, "alignment %d is not a power of 2", (int)alignment);
        layout->alignment = alignment;
        break;
    default:
        luaL_argerror(layout->lua, 1, lua_pushfstring(layout->lua, "invalid format option '%c'", option));
    }
}

static struct layout layout_begin(lua_State *lua)
{
    return (struct layout){ lua, luaL_checkstring(lua, 1), false, 1 };
}

/* Packing */

static void append_integer(struct growing *out, const struct layout *layout, double number, size_t size)
{
    uint64_t bits = number < 0 ? (uint64_t)(number > -9223372036854775808.0 ? (int64_t)number : INT64_MIN)
                  : number < 18446744073709551616.0 ? (uint64_t)number : 0;
    char *at = growing_reserve(out, size);

    for (size_t i = 0; i < size; i++, bits = i < 8 ? bits >> 8 : 0)
        at[layout->is_big ? size - 1 - i : i] = (char)bits;
    out->size += size;
}

static void append_image(struct growing *out, const struct layout *layout, const void *image, size_t size)
{
    char *at = growing_reserve(out, size);

    for (size_t i = 0; i < size; i++)
        at[layout->is_big ? size - 1 - i : i] = ((const char *)image)[i];
    out->size += size;
}

/* Returns the size that counts for alignment. */
static size_t append_string(struct growing *out, struct layout *layout, int argument, char option, size_t size)
{
    size_t text_size;
    const char *text = luaL_checklstring(layout->lua, argument, &text_size);

    if (size == 0)
        size = text_size;
    luaL_argcheck(layout->lua, text_size >= size, argument + 1, "string too short");
    growing_append(out, text, size);
    if (option != 's')
        return size;
    growing_append_char(out, '\0');
    return size + 1;
}

static void append_padding(struct growing *out, size_t size)
{
    memset(growing_reserve(out, size), 0, size);
    out->size += size;
}

static int struct_pack(lua_State *lua)
{
    struct layout layout = layout_begin(lua);
    struct growing out;
    int argument = 2;
    float narrow;
    double number;

    growing_init(&out, lua);
    while (*layout.at != '\0') {
        char option = *layout.at++;
        size_t size = read_size(&layout, option);

        append_padding(&out, padding_of(&layout, out.size, option, size));
        switch (option) {
        case 'b': case 'B': case 'h': case 'H': case 'l': case 'L': case 'T': case 'i': case 'I':
            append_integer(&out, &layout, luaL_checknumber(lua, argument++), size);
            break;
        case 'x':
            append_padding(&out, 1);
            break;
        case 'f':
            narrow = (float)luaL_checknumber(lua, argument++);
            append_image(&out, &layout, &narrow, sizeof(narrow));
            break;
        case 'd':
            number = luaL_checknumber(lua, argument++);
            append_image(&out, &layout, &number, sizeof(number));
            break;
        case 'c': case 's':
            append_string(&out, &layout, argument++, option, size);
            break;
        default:
            read_control(&layout, option);
        }
    }
    growing_push(&out);
    return 1;
}

/* Unpacking */

struct source {
    const char *data;
    size_t size, offset;
};

static double integer_at(const struct layout *layout, const char *at, size_t size, bool is_signed)
{
    uint64_t bits = 0;

    for (size_t i = 0; i < size; i++)
        bits = bits << 8 | (unsigned char)at[layout->is_big ? i : size - 1 - i];
    if (!is_signed)
        return (double)bits;
    if (size > 0 && size < 8 && (bits >> (size * 8 - 1) & 1) != 0)
        bits |= ~(uint64_t)0 << (size * 8);
    return (double)(int64_t)bits;
}

static void image_at(const struct layout *layout, const char *at, void *image, size_t size)
{
    for (size_t i = 0; i < size; i++)
        ((char *)image)[i] = at[layout->is_big ? size - 1 - i : i];
}

static void require_bytes(lua_State *lua, const struct source *source, size_t size)
{
    luaL_argcheck(lua, size <= source->size && source->offset <= source->size - size, 2, "data string too short");
}

/* c0: the size is the number before, which is taken from the stack. */
static size_t pop_size(lua_State *lua, const struct source *source, int count)
{
    double size;

    if (count == 0 || !lua_isnumber(lua, -1))
        luaL_error(lua, "format 'c0' needs a previous size");
    size = lua_tonumber(lua, -1);
    lua_pop(lua, 1);
    luaL_argcheck(lua, size >= 0 && size <= (double)source->size, 2, "data string too short");
    return (size_t)size;
}

static size_t push_terminated(lua_State *lua, const struct source *source)
{
    const char *start = source->data + source->offset;
    const char *end = memchr(start, '\0', source->size - source->offset);

    if (end == NULL)
        luaL_error(lua, "unfinished string in data");
    lua_pushlstring(lua, start, (size_t)(end - start));
    return (size_t)(end - start) + 1;
}

/* Pushes an item and moves on. Returns by how much the number of results changes. */
static int push_item(struct layout *layout, struct source *source, char option, size_t size, int count)
{
    lua_State *lua = layout->lua;
    const char *at = source->data + source->offset;
    int more = 1;
    float narrow;
    double number;

    switch (option) {
    case 'b': case 'B': case 'h': case 'H': case 'l': case 'L': case 'T': case 'i': case 'I':
        lua_pushnumber(lua, integer_at(layout, at, size, islower((unsigned char)option) != 0));
        break;
    case 'f':
        image_at(layout, at, &narrow, sizeof(narrow));
        lua_pushnumber(lua, narrow);
        break;
    case 'd':
        image_at(layout, at, &number, sizeof(number));
        lua_pushnumber(lua, number);
        break;
    case 'c':
        if (size == 0) {
            size = pop_size(lua, source, count);
            require_bytes(lua, source, size);
            more = 0;
        }
        lua_pushlstring(lua, at, size);
        break;
    case 's':
        size = push_terminated(lua, source);
        break;
    case 'x':
        more = 0;
        break;
    default:
        read_control(layout, option);
        more = 0;
    }
    source->offset += size;
    return more;
}

static int struct_unpack(lua_State *lua)
{
    struct layout layout = layout_begin(lua);
    struct source source;
    size_t start = (size_t)luaL_optinteger(lua, 3, 1);       /* a negative number is beyond any end */
    int count = 0;

    source.data = luaL_checklstring(lua, 2, &source.size);
    luaL_argcheck(lua, start > 0, 3, "offset must be 1 or greater");
    source.offset = start - 1;
    lua_settop(lua, 2);
    while (*layout.at != '\0') {
        char option = *layout.at++;
        size_t size = read_size(&layout, option);

        source.offset += padding_of(&layout, source.offset, option, size);
        require_bytes(lua, &source, size);
        luaL_checkstack(lua, 2, "too many results");
        count += push_item(&layout, &source, option, size, count);
    }
    lua_pushinteger(lua, (lua_Integer)source.offset + 1);
    return count + 1;
}

static int struct_size(lua_State *lua)
{
    struct layout layout = layout_begin(lua);
    size_t total = 0;

    while (*layout.at != '\0') {
        char option = *layout.at++;
        size_t size = read_size(&layout, option);

        total += padding_of(&layout, total, option, size);
        if (option == 's')
            luaL_argerror(lua, 1, "option 's' has no fixed size");
        if (option == 'c' && size == 0)
            luaL_argerror(lua, 1, "option 'c0' has no fixed size");
        if (!isalnum((unsigned char)option))
            read_control(&layout, option);
        total += size;
    }
    lua_pushinteger(lua, (lua_Integer)total);
    return 1;
}

void structs_open(lua_State *lua)
{
    static const luaL_Reg functions[] = { { "pack", struct_pack }, { "unpack", struct_unpack }, { "size", struct_size }, { NULL, NULL } };

    lua_newtable(lua);
    luaL_register(lua, NULL, functions);
}
