#include "script/interpreter.h"

#include "base/buffer.h"
#include "base/check.h"
#include "base/mem.h"
#include "script/convert.h"
#include "script/errors.h"
#include "script/interpreter_private.h"
#include "script/parser.h"
#include "script/sandbox.h"

enum {
    STEP_INTERVAL = 50,             /* runs between two steps of the collector, as in Redis */
    GARBAGE_MAX = 8 << 20,          /* bytes that runs may leave beside twice what is in use */
};

static const size_t REPLY_SIZE_MAX = (size_t)512 << 20;     /* if the heap has no limit */

static int on_panic(lua_State *lua)
{
    CHECK(!"Lua raised an error outside of a protected call");
    return 0;
}

static int open_protected(lua_State *lua)
{
    sandbox_open(lua);
    return 0;
}

struct interpreter *interpreter_create(const struct interpreter_options *options)
{
    struct interpreter *interpreter = mem_zalloc(sizeof(*interpreter));

    allocator_init(&interpreter->allocator, options->heap_size_max);
    interpreter->load_ms_max = options->load_ms_max;
    interpreter->allocator.unlimited = true;
    interpreter->allocator.on_work = run_hurry;
    interpreter->lua = lua_newstate(allocator_resize, &interpreter->allocator);
    CHECK(interpreter->lua != NULL);
    interpreter->allocator.state = interpreter->lua;
    lua_atpanic(interpreter->lua, on_panic);
    json_settings_init(&interpreter->json);
    rand48_init_default(&interpreter->random);
    compiled_init(&interpreter->compiled, interpreter->lua, options->cached_scripts_max);
    loaded_list_init(&interpreter->libraries, interpreter->lua);
    CHECK(lua_cpcall(interpreter->lua, open_protected, NULL) == 0);
    interpreter->allocator.unlimited = false;
    return interpreter;
}

void interpreter_destroy(struct interpreter *interpreter)
{
    if (interpreter == NULL)
        return;
    CHECK(interpreter->run_count == 0);
    run_destroy_idle(interpreter);
    loaded_list_release(&interpreter->libraries);
    compiled_release(&interpreter->compiled);
    lua_close(interpreter->lua);
    CHECK(interpreter->allocator.size == 0);
    mem_free(interpreter);
}

void interpreter_set_options(struct interpreter *interpreter, const struct interpreter_options *options)
{
    allocator_set_limit(&interpreter->allocator, options->heap_size_max);
    interpreter->load_ms_max = options->load_ms_max;
    compiled_set_limit(&interpreter->compiled, options->cached_scripts_max);
}

/* Pushes the compiled script, or the error of the compiler. The name is there before memory is limited: parser_load would raise for it, and
 * that is not caught. */
static bool compile(lua_State *lua, struct bytes code)
{
    static const char name[] = "@user_script";
    struct interpreter *interpreter = interpreter_of(lua);
    int status;

    lua_pushstring(lua, name);
    interpreter->allocator.unlimited = false;
    status = parser_load(lua, code, name);
    interpreter->allocator.unlimited = true;
    lua_remove(lua, -2);
    return status == 0;
}

static struct compiled *compile_cached(struct interpreter *interpreter, const struct script_source *source, lua_State *lua)
{
    if (!compile(lua, source->code))
        return NULL;
    return compiled_add(&interpreter->compiled, source->sha, luaL_ref(lua, LUA_REGISTRYINDEX));
}

static void write_compile_error(lua_State *lua, struct buffer *error)
{
    buffer_append_string(error, "ERR Error compiling script (new function): ");
    buffer_append_string(error, lua_tostring(lua, -1));
    lua_pop(lua, 1);
}

bool interpreter_check(struct interpreter *interpreter, const struct script_source *source, struct buffer *error)
{
    bool compiled = true;

    if (compiled_find(&interpreter->compiled, source->sha) != NULL)
        return true;
    interpreter->allocator.unlimited = true;
    if (compile_cached(interpreter, source, interpreter->lua) == NULL) {
        write_compile_error(interpreter->lua, error);
        compiled = false;
    }
    interpreter->allocator.unlimited = false;
    return compiled;
}

/* Pushes the script, compiled. NULL: pushed is an error. `*cached` is the entry of the cache that this run uses; NULL if another run in
 * progress uses it, so that this one has a copy: a function has one set of globals. */
static bool push_script(struct run *run, const struct script_source *source, struct compiled **cached)
{
    struct compiled *compiled = compiled_find(&run->interpreter->compiled, source->sha);

    *cached = NULL;
    if (compiled == NULL)
        compiled = compile_cached(run->interpreter, source, run->lua);
    else if (compiled->in_use)
        return compile(run->lua, source->code);
    if (compiled == NULL)
        return false;
    lua_rawgeti(run->lua, LUA_REGISTRYINDEX, compiled->reference);
    compiled->in_use = true;
    *cached = compiled;
    return true;
}

static void push_list(lua_State *lua, const struct bytes *items, int count)
{
    lua_createtable(lua, count, 0);
    for (int i = 0; i < count; i++) {
        lua_pushlstring(lua, items[i].data, items[i].size);
        lua_rawseti(lua, -2, i + 1);
    }
}

static void set_list(lua_State *lua, int name, const struct bytes *items, int count)
{
    lua_pushvalue(lua, name);
    push_list(lua, items, count);
    lua_rawset(lua, RUN_GLOBALS);
}

/* Sets what the code of a run sees, for each run and whatever was set before: the globals of the function at the top of the stack, and
 * those of the Lua thread, which are for code that it compiles. `request` is NULL for functions: theirs is set when they are loaded, and
 * they get keys and arguments as parameters. */
static void set_environment(struct run *run, const struct script_run *request)
{
    if (request == NULL) {
        sandbox_push_function_globals(run->lua);
        lua_replace(run->lua, LUA_GLOBALSINDEX);
        return;
    }
    lua_pushvalue(run->lua, RUN_VIEW);
    lua_pushvalue(run->lua, -1);
    lua_replace(run->lua, LUA_GLOBALSINDEX);
    lua_setfenv(run->lua, -2);
    set_list(run->lua, RUN_KEYS, request->keys, request->key_count);
    set_list(run->lua, RUN_ARGV, request->args, request->arg_count);
}

static int call_protected(struct run *run, int arg_count)
{
    struct allocator *allocator = &run->interpreter->allocator;
    int status;

    allocator->unlimited = false;
    status = lua_pcall(run->lua, arg_count, 1, RUN_HANDLER);
    allocator->unlimited = true;
    return status;
}

static enum script_result write_error(struct run *run, struct bytes name, struct reply *reply)
{
    struct buffer text = { 0 };
    bool counted = error_write(run->lua, name, &text);

    reply_error_text(reply, buffer_bytes(&text));
    buffer_release(&text);
    return counted ? SCRIPT_ERROR_COUNTED : SCRIPT_ERROR;
}

/* An error that a script returns is an error as well. */
static enum script_result result_of(lua_State *lua, const struct reply *reply, size_t start)
{
    bool counted;

    if (reply->out.data[start] != '-')
        return SCRIPT_OK;
    lua_pushliteral(lua, "ignore_error_stats_update");
    lua_rawget(lua, -2);
    counted = lua_toboolean(lua, -1);
    return counted ? SCRIPT_ERROR_COUNTED : SCRIPT_ERROR;
}

static enum script_result write_value(struct run *run, struct reply *reply)
{
    size_t start = reply->out.size, size_max = run->interpreter->allocator.size_max;

    if (convert_write_value(run->lua, run->protocol, size_max < SIZE_MAX ? size_max : REPLY_SIZE_MAX, reply))
        return result_of(run->lua, reply, start);
    reply_truncate(reply, start);
    reply_error_text(reply, BYTES("ERR the reply of the script is too large"));
    return SCRIPT_ERROR;
}

static enum script_result run_script(struct run *run, const struct script_run *request, struct reply *reply)
{
    struct compiled *compiled;
    enum script_result result;

    if (!push_script(run, request->source, &compiled)) {
        struct buffer text = { 0 };

        write_compile_error(run->lua, &text);
        reply_error_text(reply, buffer_bytes(&text));
        buffer_release(&text);
        return SCRIPT_ERROR;
    }
    set_environment(run, request);
    if (call_protected(run, 0) == 0)
        result = write_value(run, reply);
    else if (run->stopped)
        result = SCRIPT_STOPPED;
    else
        result = write_error(run, bytes_of(request->source->sha, SCRIPT_SHA_SIZE), reply);
    if (compiled != NULL)
        compiled->in_use = false;
    return result;
}

static enum script_result run_function(struct run *run, const struct loaded *library, const struct script_run *request, struct reply *reply)
{
    int reference = loaded_function(library, request->function);

    if (reference == LUA_NOREF)
        return SCRIPT_NO_FUNCTION;
    set_environment(run, NULL);
    lua_rawgeti(run->lua, LUA_REGISTRYINDEX, reference);
    push_list(run->lua, request->keys, request->key_count);
    push_list(run->lua, request->args, request->arg_count);
    if (call_protected(run, 2) == 0)
        return write_value(run, reply);
    return run->stopped ? SCRIPT_STOPPED : write_error(run, request->function, reply);
}

/* NULL: an error reply is written. */
static const struct loaded *find_library(struct interpreter *interpreter, const struct script_library *source, struct reply *reply)
{
    struct loaded *library = loaded_find(&interpreter->libraries, source->version);
    struct buffer error = { 0 };

    if (library != NULL)
        return library;
    library = loaded_load(interpreter, source, NULL, &error);
    if (library == NULL)
        reply_error_text(reply, buffer_bytes(&error));
    buffer_release(&error);
    return library;
}

/* The collector works a little from time to time, so that garbage of small scripts does not wait for a large one. What a large one leaves goes at once: the heap
 * counts in maxmemory, and perhaps no other script comes. A full collection costs less than it did to fill so much. */
static void collect(struct interpreter *interpreter)
{
    struct allocator *allocator = &interpreter->allocator;

    if (++interpreter->since_step >= STEP_INTERVAL) {
        interpreter->since_step = 0;
        lua_gc(interpreter->lua, LUA_GCSTEP, 1);
    }
    if (allocator->size > allocator->size_max / 2 || allocator->size > 2 * interpreter->live_size + GARBAGE_MAX) {
        lua_gc(interpreter->lua, LUA_GCCOLLECT, 0);
        interpreter->live_size = allocator->size;
    }
    allocator_settle(allocator);
}

static void begin_random(struct run *run, uint64_t *start)
{
    static const uint64_t known = (uint64_t)1 << RAND48_BITS;       /* so that it is never 0 */

    run->random = run->interpreter->random;
    if (start == NULL)
        return;
    if (*start != 0)
        run->random.state = *start & ~known;
    *start = run->random.state | known;
}

enum script_result interpreter_run(struct interpreter *interpreter, const struct script_run *request, struct reply *reply)
{
    const struct loaded *library = NULL;
    enum script_result result;
    struct run *run;

    if (request->library != NULL) {
        library = find_library(interpreter, request->library, reply);
        if (library == NULL)
            return SCRIPT_ERROR;
    }
    interpreter->allocator.unlimited = true;
    run = run_enter(interpreter, request->host);
    begin_random(run, request->random_start);
    if (library != NULL)
        result = run_function(run, library, request, reply);
    else
        result = run_script(run, request, reply);
    if (result != SCRIPT_STOPPED)
        interpreter->random = run->random;
    run_leave(run);
    interpreter->allocator.unlimited = false;
    collect(interpreter);
    return result;
}

bool interpreter_load(struct interpreter *interpreter, const struct script_library *source, const struct script_host *host,
                      script_function_found *found, void *context, struct buffer *error)
{
    struct loaded *library = loaded_load(interpreter, source, host, error);

    if (library == NULL)
        return false;
    loaded_for_each(library, found, context);
    return true;
}

void interpreter_unload(struct interpreter *interpreter, struct bytes library)
{
    loaded_unload(&interpreter->libraries, library);
}

void interpreter_unload_all(struct interpreter *interpreter)
{
    loaded_unload(&interpreter->libraries, bytes_of(NULL, 0));
}

void interpreter_forget_scripts(struct interpreter *interpreter)
{
    compiled_clear(&interpreter->compiled);
}

size_t interpreter_memory(const struct interpreter *interpreter)
{
    return interpreter->allocator.size + compiled_memory(&interpreter->compiled) + loaded_memory(&interpreter->libraries);
}

size_t interpreter_script_count(const struct interpreter *interpreter)
{
    return interpreter->compiled.count;
}
