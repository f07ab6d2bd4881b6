#include "script/api.h"

#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/digest.h"
#include "base/text.h"
#include "base/version.h"
#include "script/convert.h"
#include "script/errors.h"
#include "script/interpreter_private.h"

enum on_error { ON_ERROR_RAISE, ON_ERROR_RETURN };

/* Appends a number as Redis writes it: integers in full, others with the fewest digits that read back as the same. */
static size_t append_number(struct buffer *numbers, double number)
{
    char text[TEXT_DOUBLE_SIZE + 1] = "-";
    size_t size;

    if (fabs(number) < 4611686018427387904.0 && number == (double)(int64_t)number)
        size = text_of_int((int64_t)number, text);
    else if (isnan(number) && signbit(number))
        size = 1 + text_of_double(number, text + 1);
    else
        size = text_of_double(number, text);
    buffer_append(numbers, text, size);
    return size;
}

static void reserve_args(struct run *run, int count)
{
    if (count <= run->arg_capacity)
        return;
    run->arg_capacity = count < 16 ? 16 : count;
    run->args = mem_realloc(run->args, (size_t)run->arg_capacity * sizeof(run->args[0]));
}

/* Numbers are written to a buffer that may move: at first their data is NULL. */
static void place_numbers(struct run *run, int count)
{
    const char *at = run->numbers.data;

    for (int i = 0; i < count; i++) {
        if (run->args[i].data != NULL)
            continue;
        run->args[i].data = at;
        at += run->args[i].size;
    }
}

/* The Lua arguments become run->args, which point into the strings on the stack. NULL or the text of an error. */
static const char *read_args(lua_State *lua, struct run *run, int count)
{
    if (count == 0)
        return "ERR Please specify at least one argument for this redis lib call";
    reserve_args(run, count);
    run->numbers.size = 0;
    for (int i = 0; i < count; i++) {
        struct bytes *arg = &run->args[i];

        switch (lua_type(lua, i + 1)) {
        case LUA_TSTRING:
            arg->data = lua_tolstring(lua, i + 1, &arg->size);
            break;
        case LUA_TNUMBER:
            *arg = bytes_of(NULL, append_number(&run->numbers, lua_tonumber(lua, i + 1)));
            break;
        default:
            return "ERR Lua redis lib command arguments must be strings or integers";
        }
    }
    if (run->numbers.size > 0)
        place_numbers(run, count);
    return NULL;
}

static void run_command(lua_State *lua, struct run *run, int count)
{
    const struct script_host *host = run->host;

    reply_truncate(&run->reply, 0);
    run->reply.protocol = run->protocol;
    host->call(host->context, run->args, count, &run->reply);
    run_goes_on(run);
    if (!host->may_go_on(host->context)) {
        run->stopped = true;
        run_require(lua);
    }
    run_goes_on(run);
}

static int call_command(lua_State *lua, enum on_error on_error)
{
    struct run *run = run_of(lua);
    int count = lua_gettop(lua);
    const char *problem;

    run_require(lua);
    problem = read_args(lua, run, count);
    if (problem != NULL) {
        error_push(lua, bytes_of_string(problem));
        return on_error == ON_ERROR_RAISE ? lua_error(lua) : 1;
    }
    run_command(lua, run, count);
    lua_settop(lua, 0);             /* as many arguments as Lua allows leave no room for the reply */
    if (convert_push_reply(lua, buffer_bytes(&run->reply.out)) == CONVERT_ERROR && on_error == ON_ERROR_RAISE)
        return lua_error(lua);
    return 1;
}

static int redis_call(lua_State *lua)
{
    return call_command(lua, ON_ERROR_RAISE);
}

static int redis_pcall(lua_State *lua)
{
    return call_command(lua, ON_ERROR_RETURN);
}

/* redis.error_reply removes the '-' that older scripts begin with, and adds the code if the text is a single word. */
static int redis_error_reply(lua_State *lua)
{
    struct bytes text;

    if (lua_gettop(lua) != 1 || lua_type(lua, 1) != LUA_TSTRING) {
        error_push(lua, BYTES("ERR wrong number or type of arguments"));
        return 1;
    }
    text.data = lua_tolstring(lua, 1, &text.size);
    if (text.size > 0 && text.data[0] == '-')
        text = bytes_of(text.data + 1, text.size - 1);
    if (memchr(text.data, ' ', text.size) == NULL) {
        lua_pushliteral(lua, "ERR ");
        lua_pushlstring(lua, text.data, text.size);
        lua_concat(lua, 2);
        text.data = lua_tolstring(lua, -1, &text.size);
    }
    error_push(lua, text);
    return 1;
}

static int redis_status_reply(lua_State *lua)
{
    if (lua_gettop(lua) != 1 || lua_type(lua, 1) != LUA_TSTRING) {
        error_push(lua, BYTES("ERR wrong number or type of arguments"));
        return 1;
    }
    lua_createtable(lua, 0, 1);
    lua_pushvalue(lua, 1);
    lua_setfield(lua, -2, "ok");
    return 1;
}

static int redis_sha1hex(lua_State *lua)
{
    struct bytes text = { NULL, 0 };
    char hex[SHA1_HEX_SIZE];

    if (lua_gettop(lua) != 1)
        return error_raise(lua, "ERR wrong number of arguments");
    text.data = lua_tolstring(lua, 1, &text.size);
    digest_sha1_hex(text.data != NULL ? text : BYTES(""), hex);
    lua_pushlstring(lua, hex, sizeof(hex));
    return 1;
}

/* Joins all arguments from the second on that are strings or numbers, and leaves the result on the stack. */
static struct bytes join_arguments(lua_State *lua)
{
    int count = lua_gettop(lua);
    struct bytes text;
    luaL_Buffer buffer;

    luaL_buffinit(lua, &buffer);
    for (int i = 2; i <= count; i++) {
        if (!lua_isstring(lua, i))
            continue;
        if (i > 2)
            luaL_addchar(&buffer, ' ');
        lua_pushvalue(lua, i);
        luaL_addvalue(&buffer);
    }
    luaL_pushresult(&buffer);
    text.data = lua_tolstring(lua, -1, &text.size);
    return text;
}

static int redis_log(lua_State *lua)
{
    struct run *run = run_of(lua);
    int level;

    run_require(lua);
    if (lua_gettop(lua) < 2)
        return error_raise(lua, "ERR redis.log() requires two arguments or more.");
    if (!lua_isnumber(lua, 1))
        return error_raise(lua, "ERR First argument must be a number (log level).");
    level = (int)lua_tonumber(lua, 1);
    if (level < SCRIPT_LOG_DEBUG || level > SCRIPT_LOG_WARNING)
        return error_raise(lua, "ERR Invalid debug level.");
    if (run->host != NULL) {
        run->host->log(run->host->context, (enum script_log_level)level, join_arguments(lua));
        run_goes_on(run);
    }
    return 0;
}

static int redis_setresp(lua_State *lua)
{
    int protocol;

    if (lua_gettop(lua) != 1)
        return error_raise(lua, "ERR redis.setresp() requires one argument.");
    protocol = (int)lua_tonumber(lua, 1);
    if (protocol != 2 && protocol != 3)
        return error_raise(lua, "ERR RESP version must be 2 or 3.");
    run_of(lua)->protocol = protocol;
    return 0;
}

static int redis_set_repl(lua_State *lua)
{
    struct run *run = run_of(lua);
    int flags;

    run_require(lua);
    if (lua_gettop(lua) != 1)
        return error_raise(lua, "ERR redis.set_repl() requires two arguments.");
    flags = (int)lua_tonumber(lua, 1);
    if ((flags & ~SCRIPT_REPL_ALL) != 0)
        return error_raise(lua, "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.");
    run->host->set_replication(run->host->context, (enum script_replication)flags);
    run_goes_on(run);
    return 0;
}

static int redis_acl_check_cmd(lua_State *lua)
{
    struct run *run = run_of(lua);
    const char *problem;
    enum script_acl acl;
    int count = lua_gettop(lua);

    run_require(lua);
    problem = read_args(lua, run, count);
    if (problem != NULL)
        return error_raise(lua, problem);
    acl = run->host->acl_check(run->host->context, run->args, count);
    run_goes_on(run);
    if (acl == SCRIPT_ACL_UNKNOWN_COMMAND)
        return error_raise(lua, "ERR Invalid command passed to redis.acl_check_cmd()");
    lua_pushboolean(lua, acl == SCRIPT_ACL_ALLOWED);
    return 1;
}

/* Effects have always been replicated since Redis 7. */
static int redis_replicate_commands(lua_State *lua)
{
    lua_pushboolean(lua, true);
    return 1;
}

/* As in Redis when no debugger is attached. */
static int redis_breakpoint(lua_State *lua)
{
    lua_pushboolean(lua, false);
    return 1;
}

static int redis_debug(lua_State *lua)
{
    return 0;
}

static void add_version(lua_State *lua)
{
    int major = 0, minor = 0, patch = 0;

    sscanf(REDIS_VERSION, "%d.%d.%d", &major, &minor, &patch);
    lua_pushliteral(lua, REDIS_VERSION);
    lua_setfield(lua, -2, "REDIS_VERSION");
    lua_pushinteger(lua, major << 16 | minor << 8 | patch);
    lua_setfield(lua, -2, "REDIS_VERSION_NUM");
}

struct number {
    const char *name;
    int number;
};

static void add_numbers(lua_State *lua, const struct number *numbers)
{
    for (; numbers->name != NULL; numbers++) {
        lua_pushinteger(lua, numbers->number);
        lua_setfield(lua, -2, numbers->name);
    }
}

static const luaL_Reg log_function[] = { { "log", redis_log }, { NULL, NULL } };

static const luaL_Reg call_functions[] = {
    { "call", redis_call }, { "pcall", redis_pcall }, { "error_reply", redis_error_reply }, { "status_reply", redis_status_reply },
    { "sha1hex", redis_sha1hex }, { "setresp", redis_setresp }, { "set_repl", redis_set_repl },
    { "acl_check_cmd", redis_acl_check_cmd }, { NULL, NULL },
};

static const luaL_Reg script_functions[] = {
    { "replicate_commands", redis_replicate_commands }, { "breakpoint", redis_breakpoint }, { "debug", redis_debug }, { NULL, NULL },
};

static const struct number levels[] = {
    { "LOG_DEBUG", SCRIPT_LOG_DEBUG }, { "LOG_VERBOSE", SCRIPT_LOG_VERBOSE }, { "LOG_NOTICE", SCRIPT_LOG_NOTICE },
    { "LOG_WARNING", SCRIPT_LOG_WARNING }, { NULL, 0 },
};

static const struct number replications[] = {
    { "REPL_NONE", SCRIPT_REPL_NONE }, { "REPL_AOF", SCRIPT_REPL_AOF }, { "REPL_SLAVE", SCRIPT_REPL_REPLICA },
    { "REPL_REPLICA", SCRIPT_REPL_REPLICA }, { "REPL_ALL", SCRIPT_REPL_ALL }, { NULL, 0 },
};

void api_open(lua_State *lua, enum api_of of)
{
    lua_newtable(lua);
    luaL_register(lua, NULL, log_function);
    add_numbers(lua, levels);
    add_version(lua);
    if (of == API_OF_LIBRARIES)
        return;
    luaL_register(lua, NULL, call_functions);
    add_numbers(lua, replications);
    if (of == API_OF_SCRIPTS)
        luaL_register(lua, NULL, script_functions);
}
