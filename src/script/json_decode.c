#include <lua5.1/lauxlib.h>
#include <lua5.1/lua.h>
#include <stdlib.h>
#include <strings.h>

#include "script/growing.h"
#include "script/interpreter_private.h"
#include "script/json.h"

enum token_type {
    TOKEN_OBJECT_BEGIN, TOKEN_OBJECT_END, TOKEN_ARRAY_BEGIN, TOKEN_ARRAY_END, TOKEN_STRING, TOKEN_NUMBER, TOKEN_BOOLEAN,
    TOKEN_NULL, TOKEN_COLON, TOKEN_COMMA, TOKEN_END, TOKEN_ERROR,
};

/* As lua-cjson names them in errors. */
static const char *const token_names[] = {
    "T_OBJ_BEGIN", "T_OBJ_END", "T_ARR_BEGIN", "T_ARR_END", "T_STRING", "T_NUMBER", "T_BOOLEAN", "T_NULL", "T_COLON", "T_COMMA",
    "T_END", "T_ERROR",
};

struct token {
    enum token_type type;
    size_t offset;
    double number;          /* also of a boolean */
    const char *problem;    /* of TOKEN_ERROR */
};

/* The text is a Lua string, so that it ends with NUL; as in lua-cjson, a NUL within it ends it too. */
struct decoder {
    lua_State *lua;
    const struct json_settings *settings;
    const char *text, *at;
    int depth;
    uint32_t *steps;
    struct growing string;  /* of the latest TOKEN_STRING */
};

static void set_problem(struct decoder *decoder, struct token *token, const char *problem)
{
    token->type = TOKEN_ERROR;
    token->offset = (size_t)(decoder->at - decoder->text);
    token->problem = problem;
}

/* Four hex digits, or -1. */
static int read_hex(const char *at)
{
    int number = 0;

    for (int i = 0; i < 4; i++) {
        char byte = at[i];
        int digit = byte >= '0' && byte <= '9' ? byte - '0' : (byte | 32) >= 'a' && (byte | 32) <= 'f' ? (byte | 32) - 'a' + 10 : -1;

        if (digit < 0)
            return -1;
        number = number << 4 | digit;
    }
    return number;
}

static void append_utf8(struct growing *string, uint32_t point)
{
    if (point < 0x80) {
        growing_append_char(string, (char)point);
    } else if (point < 0x800) {
        growing_append_char(string, (char)(point >> 6 | 0xc0));
        growing_append_char(string, (char)((point & 0x3f) | 0x80));
    } else if (point < 0x10000) {
        growing_append_char(string, (char)(point >> 12 | 0xe0));
        growing_append_char(string, (char)((point >> 6 & 0x3f) | 0x80));
        growing_append_char(string, (char)((point & 0x3f) | 0x80));
    } else {
        growing_append_char(string, (char)(point >> 18 | 0xf0));
        growing_append_char(string, (char)((point >> 12 & 0x3f) | 0x80));
        growing_append_char(string, (char)((point >> 6 & 0x3f) | 0x80));
        growing_append_char(string, (char)((point & 0x3f) | 0x80));
    }
}

/* \uXXXX, or two of them that are a surrogate pair. decoder->at is at the backslash, and stays if it is malformed. */
static bool read_unicode(struct decoder *decoder)
{
    int first = read_hex(decoder->at + 2), second;
    uint32_t point = (uint32_t)first;
    size_t size = 6;

    if (first < 0 || (first & 0xfc00) == 0xdc00)
        return false;
    if ((first & 0xfc00) == 0xd800) {
        if (decoder->at[6] != '\\' || decoder->at[7] != 'u')
            return false;
        second = read_hex(decoder->at + 8);
        if (second < 0 || (second & 0xfc00) != 0xdc00)
            return false;
        point = (((uint32_t)first & 0x3ff) << 10 | ((uint32_t)second & 0x3ff)) + 0x10000;
        size = 12;
    }
    append_utf8(&decoder->string, point);
    decoder->at += size;
    return true;
}

static char unescape(char letter)
{
    switch (letter) {
    case '"': case '\\': case '/': return letter;
    case 'b': return '\b';
    case 't': return '\t';
    case 'n': return '\n';
    case 'f': return '\f';
    case 'r': return '\r';
    default: return 0;
    }
}

/* decoder->at is at a backslash. NULL, or the problem. */
static const char *read_escape(struct decoder *decoder)
{
    char byte;

    if (decoder->at[1] == 'u')
        return read_unicode(decoder) ? NULL : "invalid unicode escape code";
    byte = unescape(decoder->at[1]);
    if (byte == 0)
        return "invalid escape code";
    growing_append_char(&decoder->string, byte);
    decoder->at += 2;
    return NULL;
}

static void read_string(struct decoder *decoder, struct token *token)
{
    const char *problem = NULL;

    decoder->string.size = 0;
    decoder->at++;
    while (problem == NULL && *decoder->at != '"') {
        size_t size = strcspn(decoder->at, "\"\\");

        run_step(decoder->lua, decoder->steps);
        growing_append(&decoder->string, decoder->at, size);
        decoder->at += size;
        if (*decoder->at == '\0')
            problem = "unexpected end of string";
        else if (*decoder->at == '\\')
            problem = read_escape(decoder);
    }
    if (problem != NULL) {
        set_problem(decoder, token, problem);
        return;
    }
    decoder->at++;
    token->type = TOKEN_STRING;
}

/* Returns whether a number is one that strtod accepts and JSON does not: a plus sign, leading zeros, hex, infinity, NaN. */
static bool is_invalid_number(const char *at)
{
    if (*at == '+')
        return true;
    if (*at == '-')
        at++;
    if (*at == '0')
        return (at[1] | 32) == 'x' || (at[1] >= '0' && at[1] <= '9');
    return *at > '9' && (strncasecmp(at, "inf", 3) == 0 || strncasecmp(at, "nan", 3) == 0);
}

static void read_number(struct decoder *decoder, struct token *token)
{
    char *end;

    token->type = TOKEN_NUMBER;
    token->number = strtod(decoder->at, &end);
    if (end == decoder->at)
        set_problem(decoder, token, "invalid number");
    else
        decoder->at = end;
}

static bool read_word(struct decoder *decoder, const char *word)
{
    size_t size = strlen(word);

    if (strncmp(decoder->at, word, size) != 0)
        return false;
    decoder->at += size;
    return true;
}

static void read_other(struct decoder *decoder, struct token *token)
{
    bool invalid = is_invalid_number(decoder->at);

    if (*decoder->at == '-' || (*decoder->at >= '0' && *decoder->at <= '9')) {
        if (invalid && !decoder->settings->decode_invalid)
            set_problem(decoder, token, "invalid number");
        else
            read_number(decoder, token);
        return;
    }
    token->type = TOKEN_BOOLEAN;
    token->number = 0;
    if (read_word(decoder, "true"))
        token->number = 1;
    else if (read_word(decoder, "null"))
        token->type = TOKEN_NULL;
    else if (read_word(decoder, "false"))
        return;
    else if (invalid && decoder->settings->decode_invalid)
        read_number(decoder, token);
    else
        set_problem(decoder, token, "invalid token");
}

static void read_token(struct decoder *decoder, struct token *token)
{
    static const char punctuation[] = "{}[]:,";
    static const enum token_type types[] = {
        TOKEN_OBJECT_BEGIN, TOKEN_OBJECT_END, TOKEN_ARRAY_BEGIN, TOKEN_ARRAY_END, TOKEN_COLON, TOKEN_COMMA,
    };
    const char *found;

    decoder->at += strspn(decoder->at, " \t\n\r");
    token->offset = (size_t)(decoder->at - decoder->text);
    if (*decoder->at == '\0') {
        token->type = TOKEN_END;
        return;
    }
    if (*decoder->at == '"') {
        read_string(decoder, token);
        return;
    }
    found = strchr(punctuation, *decoder->at);
    if (found == NULL) {
        read_other(decoder, token);
        return;
    }
    token->type = types[found - punctuation];
    decoder->at++;
}

static void refuse_token(struct decoder *decoder, const char *expected, const struct token *token)
{
    luaL_error(decoder->lua, "Expected %s but found %s at character %d", expected,
               token->type == TOKEN_ERROR ? token->problem : token_names[token->type], (int)token->offset + 1);
}

static void descend(struct decoder *decoder)
{
    if (++decoder->depth > decoder->settings->decode_depth_max || !lua_checkstack(decoder->lua, 4))
        luaL_error(decoder->lua, "Found too many nested data structures (%d) at character %d", decoder->depth,
                   (int)(decoder->at - decoder->text));
}

static void push_value(struct decoder *decoder, struct token *token);

static void push_object(struct decoder *decoder)
{
    struct token token;

    descend(decoder);
    lua_newtable(decoder->lua);
    read_token(decoder, &token);
    while (token.type != TOKEN_OBJECT_END) {
        if (token.type != TOKEN_STRING)
            refuse_token(decoder, "object key string", &token);
        growing_push(&decoder->string);
        read_token(decoder, &token);
        if (token.type != TOKEN_COLON)
            refuse_token(decoder, "colon", &token);
        read_token(decoder, &token);
        push_value(decoder, &token);
        lua_rawset(decoder->lua, -3);
        read_token(decoder, &token);
        if (token.type == TOKEN_OBJECT_END)
            break;
        if (token.type != TOKEN_COMMA)
            refuse_token(decoder, "comma or object end", &token);
        read_token(decoder, &token);
        if (token.type == TOKEN_OBJECT_END)
            refuse_token(decoder, "object key string", &token);
    }
    decoder->depth--;
}

static void push_array(struct decoder *decoder)
{
    struct token token;

    descend(decoder);
    lua_newtable(decoder->lua);
    read_token(decoder, &token);
    for (int i = 1; token.type != TOKEN_ARRAY_END; i++) {
        push_value(decoder, &token);
        lua_rawseti(decoder->lua, -2, i);
        read_token(decoder, &token);
        if (token.type == TOKEN_ARRAY_END)
            break;
        if (token.type != TOKEN_COMMA)
            refuse_token(decoder, "comma or array end", &token);
        read_token(decoder, &token);
        if (token.type == TOKEN_ARRAY_END)
            refuse_token(decoder, "value", &token);
    }
    decoder->depth--;
}

static void push_value(struct decoder *decoder, struct token *token)
{
    run_step(decoder->lua, decoder->steps);
    switch (token->type) {
    case TOKEN_STRING: growing_push(&decoder->string); break;
    case TOKEN_NUMBER: lua_pushnumber(decoder->lua, token->number); break;
    case TOKEN_BOOLEAN: lua_pushboolean(decoder->lua, token->number != 0); break;
    case TOKEN_NULL: lua_pushlightuserdata(decoder->lua, NULL); break;
    case TOKEN_OBJECT_BEGIN: push_object(decoder); break;
    case TOKEN_ARRAY_BEGIN: push_array(decoder); break;
    default: refuse_token(decoder, "value", token);
    }
}

int json_decode(lua_State *lua)
{
    struct decoder decoder;
    struct token token;
    size_t size;

    luaL_argcheck(lua, lua_gettop(lua) == 1, 1, "expected 1 argument");
    decoder.lua = lua;
    decoder.settings = json_settings_of(lua);
    decoder.text = decoder.at = luaL_checklstring(lua, 1, &size);
    decoder.depth = 0;
    decoder.steps = &run_of(lua)->steps;
    if (size >= 2 && (decoder.text[0] == '\0' || decoder.text[1] == '\0'))
        return luaL_error(lua, "JSON parser does not support UTF-16 or UTF-32");
    growing_init(&decoder.string, lua);
    read_token(&decoder, &token);
    push_value(&decoder, &token);
    read_token(&decoder, &token);
    if (token.type != TOKEN_END)
        refuse_token(&decoder, "the end", &token);
    return 1;
}
