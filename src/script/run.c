#include <lua5.1/lualib.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "script/errors.h"
#include "script/interpreter_private.h"
#include "script/sandbox.h"

enum { IDLE_MAX = 4, REPLY_KEEP_SIZE = 16 * 1024 };

static void on_count(lua_State *lua, lua_Debug *where)
{
    run_poll(lua);
}

/* Every instruction from now on raises, so that an error that is caught is raised again right after. Missing memory is
 * the error that calls no message handler: one that loops, called from within a hook, could not be interrupted. */
static __attribute__((noreturn)) void stop(lua_State *lua, struct run *run)
{
    run->stopped = true;
    lua_sethook(lua, on_count, LUA_MASKCOUNT, 1);
    allocator_throw(&run->interpreter->allocator, lua);
}

void run_hurry(lua_State *lua)
{
    lua_sethook(lua, on_count, LUA_MASKCOUNT, 1);
}

static bool may_go_on(struct run *run)
{
    if (run->loading != NULL) {
        run->loading->late = clock_mono_us() >= run->loading->deadline_us;
        return !run->loading->late;
    }
    return run->host->may_go_on(run->host->context);
}

void run_require(lua_State *lua)
{
    struct run *run = run_of(lua);

    if (run->stopped)
        stop(lua, run);
}

void run_poll(lua_State *lua)
{
    struct interpreter *interpreter = interpreter_of(lua);
    struct run *run = interpreter->running;

    if (!run->stopped) {
        bool go_on = may_go_on(run);

        run_goes_on(run);
        if (go_on) {
            if (lua_gethookcount(lua) == 1)     /* see run_hurry; or a coroutine of a library, from a run that was stopped */
                lua_sethook(lua, on_count, LUA_MASKCOUNT, COUNT_INTERVAL);
            return;
        }
    }
    stop(lua, run);
}

static struct run *run_create(struct interpreter *interpreter)
{
    struct run *run = mem_zalloc(sizeof(*run));
    lua_State *lua = lua_newthread(interpreter->lua);

    run->interpreter = interpreter;
    run->lua = lua;
    run->lua_reference = luaL_ref(interpreter->lua, LUA_REGISTRYINDEX);
    lua_sethook(lua, on_count, LUA_MASKCOUNT, COUNT_INTERVAL);
    lua_pushcfunction(lua, error_locate);
    sandbox_push_globals(lua);              /* pushes the globals, and what scripts see of them */
    lua_pushliteral(lua, "KEYS");
    lua_pushliteral(lua, "ARGV");
    CHECK(lua_gettop(lua) == RUN_TOP);
    reply_init(&run->reply, 2);
    return run;
}

static void run_destroy(struct run *run)
{
    luaL_unref(run->interpreter->lua, LUA_REGISTRYINDEX, run->lua_reference);
    reply_release(&run->reply);
    buffer_release(&run->numbers);
    mem_free(run->args);
    mem_free(run);
}

void run_destroy_idle(struct interpreter *interpreter)
{
    while (interpreter->idle != NULL) {
        struct run *run = interpreter->idle;

        interpreter->idle = run->next;
        run_destroy(run);
    }
    interpreter->idle_count = 0;
}

struct run *run_enter(struct interpreter *interpreter, const struct script_host *host)
{
    struct run *run = interpreter->idle;

    if (run != NULL) {
        interpreter->idle = run->next;
        interpreter->idle_count--;
    } else {
        run = run_create(interpreter);
    }
    run->host = host;
    run->protocol = 2;
    run->json = interpreter->json;
    run->current = run->lua;
    interpreter->run_count++;
    run_goes_on(run);
    return run;
}

/* An idle run keeps no arguments of the call that it served last. */
static void forget_arguments(lua_State *lua)
{
    for (int name = RUN_KEYS; name <= RUN_ARGV; name++) {
        lua_pushvalue(lua, name);
        lua_pushnil(lua);
        lua_rawset(lua, RUN_GLOBALS);
    }
}

void run_leave(struct run *run)
{
    struct interpreter *interpreter = run->interpreter;

    lua_settop(run->lua, RUN_TOP);
    forget_arguments(run->lua);
    interpreter->allocator.current = NULL;
    interpreter->running = NULL;        /* a suspended run makes itself the running one when it goes on */
    interpreter->run_count--;
    if (run->stopped)
        lua_sethook(run->lua, on_count, LUA_MASKCOUNT, COUNT_INTERVAL);
    run->stopped = false;
    run->host = NULL;
    run->loading = NULL;
    if (interpreter->idle_count == IDLE_MAX) {
        run_destroy(run);
        return;
    }
    reply_truncate(&run->reply, 0);
    buffer_shrink(&run->reply.out, REPLY_KEEP_SIZE);
    run->next = interpreter->idle;
    interpreter->idle = run;
    interpreter->idle_count++;
}
