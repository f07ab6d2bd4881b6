#include "script/loaded.h"

#include <ctype.h>

#include "base/clock.h"
#include "base/mem.h"
#include "script/errors.h"
#include "script/interpreter_private.h"
#include "script/parser.h"
#include "script/sandbox.h"

struct loaded_function {
    char *name, *description;       /* the latter may be NULL */
    size_t name_size, description_size;
    unsigned flags;
    int reference;
};

struct loaded {
    char *name;
    size_t name_size;
    uint64_t version;
    struct loaded_function *functions;
    size_t count, capacity;
};

void loaded_list_init(struct loaded_list *list, lua_State *lua)
{
    *list = (struct loaded_list){ .lua = lua };
}

static void library_destroy(struct loaded *library, lua_State *lua)
{
    for (size_t i = 0; i < library->count; i++) {
        luaL_unref(lua, LUA_REGISTRYINDEX, library->functions[i].reference);
        mem_free(library->functions[i].name);
        mem_free(library->functions[i].description);
    }
    mem_free(library->functions);
    mem_free(library->name);
    mem_free(library);
}

void loaded_unload(struct loaded_list *list, struct bytes name)
{
    size_t kept = 0;

    for (size_t i = 0; i < list->count; i++) {
        struct loaded *library = list->items[i];

        if (name.data == NULL || bytes_equal(bytes_of(library->name, library->name_size), name))
            library_destroy(library, list->lua);
        else
            list->items[kept++] = library;
    }
    list->count = kept;
}

void loaded_list_release(struct loaded_list *list)
{
    loaded_unload(list, bytes_of(NULL, 0));
    mem_free(list->items);
    list->items = NULL;
    list->capacity = 0;
}

struct loaded *loaded_find(const struct loaded_list *list, uint64_t version)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i]->version == version)
            return list->items[i];
    }
    return NULL;
}

static struct loaded_function *find_function(const struct loaded *library, struct bytes name)
{
    for (size_t i = 0; i < library->count; i++) {
        struct loaded_function *function = &library->functions[i];

        if (bytes_equal(bytes_of(function->name, function->name_size), name))
            return function;
    }
    return NULL;
}

int loaded_function(const struct loaded *library, struct bytes name)
{
    const struct loaded_function *function = find_function(library, name);

    return function != NULL ? function->reference : LUA_NOREF;
}

void loaded_for_each(const struct loaded *library, script_function_found *found, void *context)
{
    for (size_t i = 0; i < library->count; i++) {
        const struct loaded_function *function = &library->functions[i];

        found(context, bytes_of(function->name, function->name_size), bytes_of(function->description, function->description_size),
              function->flags);
    }
}

size_t loaded_memory(const struct loaded_list *list)
{
    size_t size = list->capacity * sizeof(list->items[0]);

    for (size_t i = 0; i < list->count; i++)
        size += sizeof(struct loaded) + list->items[i]->capacity * sizeof(struct loaded_function);
    return size;
}

/* redis.register_function */

static bool is_name(struct bytes name)
{
    for (size_t i = 0; i < name.size; i++) {
        if (!isalnum((unsigned char)name.data[i]) && name.data[i] != '_')
            return false;
    }
    return name.size > 0;
}

/* Arguments of redis.register_function: indexes of the stack, 0 if absent. */
struct registration {
    int name, callback, description, flags;
};

/* Reads one named argument, whose name is at -2 and whose value at -1. NULL or the text of an error. */
static const char *read_named(lua_State *lua, struct registration *registration)
{
    const char *name = lua_type(lua, -2) == LUA_TSTRING ? lua_tostring(lua, -2) : "";
    int index = 0;

    if (strcmp(name, "function_name") == 0) {
        registration->name = index = 2;
        if (!lua_isstring(lua, -1))
            return "ERR function_name argument given to redis.register_function must be a string";
    } else if (strcmp(name, "description") == 0) {
        registration->description = index = 3;
        if (!lua_isstring(lua, -1))
            return "ERR description argument given to redis.register_function must be a string";
    } else if (strcmp(name, "callback") == 0) {
        registration->callback = index = 4;
        if (!lua_isfunction(lua, -1))
            return "ERR callback argument given to redis.register_function must be a function";
    } else if (strcmp(name, "flags") == 0) {
        registration->flags = index = 5;
        if (!lua_istable(lua, -1))
            return "ERR flags argument to redis.register_function must be a table representing function flags";
    } else {
        return "ERR unknown argument given to redis.register_function";
    }
    lua_pushvalue(lua, -1);
    lua_replace(lua, index);
    return NULL;
}

static const char *read_table(lua_State *lua, struct registration *registration)
{
    lua_settop(lua, 5);
    lua_pushnil(lua);
    while (lua_next(lua, 1) != 0) {
        const char *problem = read_named(lua, registration);

        if (problem != NULL)
            return problem;
        lua_pop(lua, 1);
    }
    if (registration->name == 0)
        return "ERR redis.register_function must get a function name argument";
    return registration->callback == 0 ? "ERR redis.register_function must get a callback argument" : NULL;
}

static const char *read_registration(lua_State *lua, struct registration *registration)
{
    int count = lua_gettop(lua);

    *registration = (struct registration){ 0 };
    if (count != 1 && count != 2)
        return "ERR wrong number of arguments to redis.register_function";
    if (count == 1)
        return lua_istable(lua, 1) ? read_table(lua, registration)
            : "ERR calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).";
    if (!lua_isstring(lua, 1))
        return "ERR first argument to redis.register_function must be a string";
    if (!lua_isfunction(lua, 2))
        return "ERR second argument to redis.register_function must be a function";
    registration->name = 1;
    registration->callback = 2;
    return NULL;
}

static unsigned flag_of(const char *name)
{
    static const struct { const char *name; enum script_flags flag; } flags[] = {
        { "no-writes", SCRIPT_NO_WRITES }, { "allow-oom", SCRIPT_ALLOW_OOM }, { "allow-stale", SCRIPT_ALLOW_STALE },
        { "no-cluster", SCRIPT_NO_CLUSTER }, { "allow-cross-slot-keys", SCRIPT_ALLOW_CROSS_SLOT },
    };

    for (size_t i = 0; name != NULL && i < sizeof(flags) / sizeof(flags[0]); i++) {
        if (strcasecmp(name, flags[i].name) == 0)
            return flags[i].flag;
    }
    return 0;
}

static const char *read_flags(lua_State *lua, int index, unsigned *flags)
{
    *flags = 0;
    for (int i = 1; index != 0; i++) {
        unsigned flag;

        lua_rawgeti(lua, index, i);
        if (lua_isnil(lua, -1))
            break;
        flag = lua_type(lua, -1) == LUA_TSTRING ? flag_of(lua_tostring(lua, -1)) : 0;
        lua_pop(lua, 1);
        if (flag == 0)
            return "ERR unknown flag given";
        *flags |= flag;
    }
    return NULL;
}

static struct bytes string_at(lua_State *lua, int index)
{
    struct bytes text = { NULL, 0 };

    if (index != 0)
        text.data = lua_tolstring(lua, index, &text.size);
    return text;
}

/* Takes the function at the top of the stack. */
static void add_function(lua_State *lua, struct loaded *library, struct bytes name, struct bytes description, unsigned flags)
{
    int reference = luaL_ref(lua, LUA_REGISTRYINDEX);   /* may raise: first of all */

    if (library->count == library->capacity) {
        library->capacity = library->capacity * 2 + 4;
        library->functions = mem_realloc(library->functions, library->capacity * sizeof(library->functions[0]));
    }
    library->functions[library->count++] = (struct loaded_function){
        .name = mem_string(name), .name_size = name.size,
        .description = description.data != NULL ? mem_string(description) : NULL, .description_size = description.size,
        .flags = flags, .reference = reference,
    };
}

static int register_function(lua_State *lua)
{
    struct run *run = run_of(lua);
    struct registration registration;
    struct bytes name;
    unsigned flags;
    const char *problem = read_registration(lua, &registration);

    if (problem != NULL)
        return error_raise(lua, problem);
    if (run->loading == NULL)
        return error_raise(lua, "ERR redis.register_function can only be called on FUNCTION LOAD command");
    problem = read_flags(lua, registration.flags, &flags);
    if (problem != NULL)
        return error_raise(lua, problem);
    name = string_at(lua, registration.name);
    if (!is_name(name))
        return error_raise(lua, "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long");
    if (find_function(run->loading->library, name) != NULL)
        return error_raise(lua, "ERR Function already exists in the library");
    lua_pushvalue(lua, registration.callback);
    add_function(lua, run->loading->library, name, string_at(lua, registration.description), flags);
    return 0;
}

void loaded_open(lua_State *lua)
{
    lua_pushcfunction(lua, register_function);
    lua_setfield(lua, -2, "register_function");
}

/* Loading */

/* The name: as in interpreter.c. */
static bool compile(struct run *run, struct bytes code, struct buffer *error)
{
    static const char name[] = "@user_function";
    struct allocator *allocator = &run->interpreter->allocator;
    int status;

    lua_pushstring(run->lua, name);
    allocator->unlimited = false;
    status = parser_load(run->lua, code, name);
    allocator->unlimited = true;
    lua_remove(run->lua, -2);
    if (status == 0)
        return true;
    buffer_append_string(error, "ERR Error compiling function: ");
    buffer_append_string(error, lua_tostring(run->lua, -1));
    return false;
}

/* Calls the function at the top of the stack, with the globals below it. */
static bool execute(struct run *run, struct buffer *error)
{
    struct allocator *allocator = &run->interpreter->allocator;
    int status;

    lua_pushvalue(run->lua, -2);
    lua_setfenv(run->lua, -2);
    allocator->unlimited = false;
    status = lua_pcall(run->lua, 0, 0, RUN_HANDLER);
    allocator->unlimited = true;
    if (status == 0)
        return true;
    buffer_append_string(error, "ERR Error registering functions: ");
    if (run->loading->late)
        buffer_append_string(error, "ERR FUNCTION LOAD timeout");
    else
        error_write(run->lua, bytes_of(NULL, 0), error);
    return false;
}

static bool load_code(struct run *run, struct bytes code, struct buffer *error)
{
    sandbox_push_library_globals(run->lua);
    if (!compile(run, code, error) || !execute(run, error))
        return false;
    if (run->loading->library->count == 0) {
        buffer_append_string(error, "ERR No functions registered");
        return false;
    }
    sandbox_complete_globals(run->lua, lua_gettop(run->lua));
    return true;
}

static void add(struct loaded_list *list, struct loaded *library)
{
    loaded_unload(list, bytes_of(library->name, library->name_size));
    if (list->count == list->capacity) {
        list->capacity = list->capacity * 2 + 4;
        list->items = mem_realloc(list->items, list->capacity * sizeof(list->items[0]));
    }
    list->items[list->count++] = library;
}

static int64_t deadline_of(const struct interpreter *interpreter)
{
    return interpreter->load_ms_max > 0 ? clock_mono_us() + interpreter->load_ms_max * 1000 : INT64_MAX;
}

struct loaded *loaded_load(struct interpreter *interpreter, const struct script_library *source, const struct script_host *host,
                             struct buffer *error)
{
    struct loaded *library = mem_zalloc(sizeof(*library));
    struct loaded_loading loading = { .library = library, .deadline_us = deadline_of(interpreter) };
    struct run *run;
    bool loaded;

    library->name = mem_string(source->name);
    library->name_size = source->name.size;
    library->version = source->version;
    interpreter->allocator.unlimited = true;
    run = run_enter(interpreter, host);
    run->loading = &loading;
    loaded = load_code(run, source->code, error);
    run_leave(run);
    if (loaded)
        add(&interpreter->libraries, library);
    else
        library_destroy(library, interpreter->lua);
    interpreter->allocator.unlimited = false;
    return loaded ? library : NULL;
}
