#include "script/parser.h"

#include <limits.h>
#include <lua5.1/lauxlib.h>
#include <lua5.1/lua.h>

_Static_assert(2 * ((int64_t)PARSER_TEXT_MAX + 2) <= INT_MAX, "the count of '=' in a bracket may overflow in Lua's parser");

struct text {
    struct bytes bytes;
    parser_gather *gather;      /* NULL: bytes are the text */
    int kept;                   /* the slot of the stack that keeps what was gathered */
    enum { TEXT_BEGINS, TEXT_FOLLOWS, TEXT_ENDED } state;
};

static void gather_text(lua_State *lua, struct text *text)
{
    luaL_checkstack(lua, 3, "too many nested functions");
    text->gather(lua);
    lua_replace(lua, text->kept);
    text->bytes.data = lua_tolstring(lua, text->kept, &text->bytes.size);
}

/* Lua asks for the first piece before it decides whether it reads text or compiled code, and decides by the first byte. That is a space
 * here, always, which changes nothing in a text. */
static const char *read_text(lua_State *lua, void *context, size_t *size)
{
    struct text *text = context;

    *size = 0;
    switch (text->state) {
    case TEXT_BEGINS:
        if (text->gather != NULL)
            gather_text(lua, text);
        if (text->bytes.size > PARSER_TEXT_MAX)
            luaL_error(lua, "the text is too large");
        text->state = TEXT_FOLLOWS;
        *size = 1;
        return " ";
    case TEXT_FOLLOWS:
        text->state = TEXT_ENDED;
        *size = text->bytes.size;
        return text->bytes.size > 0 ? text->bytes.data : NULL;
    case TEXT_ENDED:            /* Lua may ask again */
        break;
    }
    return NULL;
}

/* The parser makes a string of the name and keeps it nowhere: it is the one at the top of the stack, which holds it. */
static int load_text(lua_State *lua, struct text *text, const char *name)
{
    int status;

    luaL_checkstack(lua, 3, "too many nested functions");
    lua_pushstring(lua, name);
    lua_pushnil(lua);
    text->kept = lua_gettop(lua);
    status = lua_load(lua, read_text, text, lua_tostring(lua, -2));
    lua_replace(lua, -3);
    lua_pop(lua, 1);
    return status;
}

int parser_load(lua_State *lua, struct bytes bytes, const char *name)
{
    struct text text = { .bytes = bytes };

    return load_text(lua, &text, name);
}

int parser_load_gathered(lua_State *lua, parser_gather *gather, const char *name)
{
    struct text text = { .gather = gather };

    return load_text(lua, &text, name);
}
