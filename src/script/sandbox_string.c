#include <ctype.h>
#include <lua5.1/lauxlib.h>
#include <lua5.1/lua.h>

#include "script/pattern.h"
#include "script/sandbox.h"

/* The functions of `string` that can take long or need much memory, written so that the run can be stopped. */

static struct bytes check_string(lua_State *lua, int index)
{
    struct bytes text;

    text.data = luaL_checklstring(lua, index, &text.size);
    return text;
}

static int string_rep(lua_State *lua)
{
    struct bytes text = check_string(lua, 1);
    int count = luaL_checkint(lua, 2);
    size_t size, done;
    char *room;

    if (count <= 0 || text.size == 0) {
        lua_pushliteral(lua, "");
        return 1;
    }
    if (text.size > (size_t)INT64_MAX / (size_t)count)
        return luaL_error(lua, "resulting string too large");
    size = text.size * (size_t)count;
    allocator_require(&interpreter_of(lua)->allocator, lua, 2 * size);
    room = lua_newuserdata(lua, size);
    memcpy(room, text.data, text.size);
    for (done = text.size; done < size; done += done < size - done ? done : size - done)
        memcpy(room + done, room, done < size - done ? done : size - done);
    lua_pushlstring(lua, room, size);
    return 1;
}

static void pattern_begin(struct pattern *pattern, lua_State *lua, struct bytes subject, const char *items)
{
    pattern->lua = lua;
    pattern->subject = subject;
    pattern->end = items + strlen(items);
    pattern->steps = &run_of(lua)->steps;
}

/* Where a search starts: 1 is the first byte, negative numbers count from the end. May be beyond the end. */
static size_t start_of(lua_State *lua, int index, size_t size)
{
    ptrdiff_t start = luaL_optinteger(lua, index, 1);

    if (start < 0)
        start += (ptrdiff_t)size + 1;
    return start > 0 ? (size_t)start - 1 : 0;
}

static bool is_plain(struct bytes items)
{
    return items.size == 0 || strpbrk(items.data, "^$*+?.([%-") == NULL;
}

/* memmem, in pieces, because both may be large. */
static const char *find_plain(lua_State *lua, struct bytes subject, size_t start, struct bytes text)
{
    enum { PIECE_SIZE = 1 << 20 };

    for (size_t at = start; at + text.size <= subject.size; at += PIECE_SIZE) {
        size_t rest = subject.size - at, size = rest < PIECE_SIZE + text.size - 1 ? rest : PIECE_SIZE + text.size - 1;
        const char *found = memmem(subject.data + at, size, text.data, text.size);

        if (found != NULL || text.size == 0)
            return found;
        if (rest > PIECE_SIZE)
            run_poll(lua);
    }
    return NULL;
}

static int push_found(lua_State *lua, struct bytes subject, const char *at, const char *end)
{
    lua_pushinteger(lua, at - subject.data + 1);
    lua_pushinteger(lua, end - subject.data);
    return 2;
}

enum search { SEARCH_FIND, SEARCH_MATCH };

static int search_pattern(lua_State *lua, struct bytes subject, size_t start, const char *items, enum search search)
{
    struct pattern pattern;
    const char *at = subject.data + start;
    bool anchored = *items == '^';

    pattern_begin(&pattern, lua, subject, items);
    do {
        const char *end = pattern_match(&pattern, at, items + anchored);

        if (end == NULL)
            continue;
        if (search == SEARCH_MATCH)
            return pattern_push_captures(&pattern, at, end);
        return push_found(lua, subject, at, end) + pattern_push_captures(&pattern, NULL, NULL);
    } while (at++ < subject.data + subject.size && !anchored);
    lua_pushnil(lua);
    return 1;
}

static int search(lua_State *lua, enum search search)
{
    struct bytes subject = check_string(lua, 1), items = check_string(lua, 2);
    size_t start = start_of(lua, 3, subject.size);

    if (start > subject.size)
        start = subject.size;
    if (search == SEARCH_FIND && (lua_toboolean(lua, 4) || is_plain(items))) {
        const char *found = find_plain(lua, subject, start, items);

        if (found != NULL)
            return push_found(lua, subject, found, found + items.size);
        lua_pushnil(lua);
        return 1;
    }
    return search_pattern(lua, subject, start, items.data, search);
}

static int string_find(lua_State *lua)
{
    return search(lua, SEARCH_FIND);
}

static int string_match(lua_State *lua)
{
    return search(lua, SEARCH_MATCH);
}

/* Upvalues: the subject, the pattern, where to go on. */
static int gmatch_next(lua_State *lua)
{
    struct bytes subject = check_string(lua, lua_upvalueindex(1));
    const char *items = lua_tostring(lua, lua_upvalueindex(2));
    struct pattern pattern;

    pattern_begin(&pattern, lua, subject, items);
    for (size_t at = (size_t)lua_tointeger(lua, lua_upvalueindex(3)); at <= subject.size; at++) {
        const char *start = subject.data + at, *end = pattern_match(&pattern, start, items);

        if (end == NULL)
            continue;
        lua_pushinteger(lua, end - subject.data + (end == start));
        lua_replace(lua, lua_upvalueindex(3));
        return pattern_push_captures(&pattern, start, end);
    }
    return 0;
}

static int string_gmatch(lua_State *lua)
{
    check_string(lua, 1);
    check_string(lua, 2);
    lua_settop(lua, 2);
    lua_pushinteger(lua, 0);
    lua_pushcclosure(lua, gmatch_next, 3);
    return 1;
}

/* The replacement is a string, in which %0 to %9 are captures. */
static void add_replacement(struct pattern *pattern, luaL_Buffer *buffer, const char *at, const char *end)
{
    struct bytes text = check_string(pattern->lua, 3);

    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] != '%') {
            luaL_addchar(buffer, text.data[i]);
        } else if (++i == text.size || !isdigit((unsigned char)text.data[i])) {
            luaL_addchar(buffer, text.data[i]);     /* the NUL after the end if '%' is last, as in Lua */
        } else if (text.data[i] == '0') {
            luaL_addlstring(buffer, at, (size_t)(end - at));
        } else {
            pattern_push_capture(pattern, text.data[i] - '1', at, end);
            luaL_addvalue(buffer);
        }
    }
}

/* The replacement is a table or function, which is given the first capture. False and nil keep the original. */
static void add_value(struct pattern *pattern, luaL_Buffer *buffer, const char *at, const char *end)
{
    lua_State *lua = pattern->lua;

    if (lua_istable(lua, 3)) {
        pattern_push_capture(pattern, 0, at, end);
        lua_gettable(lua, 3);
    } else {
        lua_pushvalue(lua, 3);
        lua_call(lua, pattern_push_captures(pattern, at, end), 1);
    }
    if (!lua_toboolean(lua, -1)) {
        lua_pop(lua, 1);
        lua_pushlstring(lua, at, (size_t)(end - at));
    } else if (!lua_isstring(lua, -1)) {
        luaL_error(lua, "invalid replacement value (a %s)", luaL_typename(lua, -1));
    }
    luaL_addvalue(buffer);
}

static int substitute(struct pattern *pattern, luaL_Buffer *buffer, const char *items, int count_max)
{
    const char *at = pattern->subject.data, *subject_end = at + pattern->subject.size;
    bool anchored = *items == '^', is_text = lua_isstring(pattern->lua, 3);
    int count = 0;

    while (count < count_max) {
        const char *end = pattern_match(pattern, at, items + anchored);

        if (end != NULL) {
            count++;
            (is_text ? add_replacement : add_value)(pattern, buffer, at, end);
        }
        if (end != NULL && end > at)
            at = end;
        else if (at < subject_end)
            luaL_addchar(buffer, *at++);
        else
            break;
        if (anchored)
            break;
    }
    luaL_addlstring(buffer, at, (size_t)(subject_end - at));
    return count;
}

static int string_gsub(lua_State *lua)
{
    struct bytes subject = check_string(lua, 1);
    const char *items = luaL_checkstring(lua, 2);
    int type = lua_type(lua, 3), count_max = luaL_optint(lua, 4, (int)(subject.size < INT32_MAX ? subject.size + 1 : INT32_MAX)), count;
    struct pattern pattern;
    luaL_Buffer buffer;

    luaL_argcheck(lua, type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TFUNCTION || type == LUA_TTABLE, 3,
                  "string/function/table expected");
    luaL_buffinit(lua, &buffer);
    pattern_begin(&pattern, lua, subject, items);
    count = substitute(&pattern, &buffer, items, count_max);
    luaL_pushresult(&buffer);
    lua_pushinteger(lua, count);
    return 2;
}

void sandbox_open_string(lua_State *lua)
{
    static const luaL_Reg functions[] = {
        { "rep", string_rep }, { "find", string_find }, { "match", string_match },
        { "gmatch", string_gmatch }, { "gfind", string_gmatch }, { "gsub", string_gsub }, { NULL, NULL },
    };

    luaL_register(lua, NULL, functions);
}
