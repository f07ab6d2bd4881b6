/* Types and functions that the files of the interpreter share. */
#ifndef KELVIN_SCRIPT_INTERPRETER_PRIVATE_H
#define KELVIN_SCRIPT_INTERPRETER_PRIVATE_H

#include <lua5.1/lauxlib.h>
#include <lua5.1/lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "resp/reply.h"
#include "script/compiled.h"
#include "script/allocator.h"
#include "script/host.h"
#include "script/interpreter.h"
#include "script/json.h"
#include "script/loaded.h"
#include "script/rand48.h"

/* A run in progress, or one that is kept for the next (idle). Everything that a script can change is here. */
struct run {
    struct interpreter *interpreter;
    struct run *next;               /* in the list of idle runs */
    lua_State *lua;                 /* a Lua thread of its own; see enum run_stack for what is at the bottom of its stack */
    lua_State *current;             /* the thread, or a coroutine of it */
    int lua_reference;
    const struct script_host *host; /* NULL while a library is loaded without one */
    bool stopped;                   /* once true, every hook and every function of redis raises, until the run has ended */
    uint32_t steps;                 /* of loops in C, see run_step */
    int protocol;                   /* of the replies of redis.call */
    struct rand48 random;
    struct json_settings json;
    struct loaded_loading *loading;    /* a library is being loaded; otherwise NULL */
    struct reply reply;             /* of the latest redis.call */
    struct buffer numbers;          /* the text of numbers among the arguments of a call */
    struct bytes *args;             /* of a call */
    int arg_capacity;
};

/* RUN_GLOBALS is the table that has KEYS and ARGV, RUN_VIEW what a script sees of it; RUN_KEYS and RUN_ARGV are these two names. */
enum run_stack { RUN_HANDLER = 1, RUN_GLOBALS, RUN_VIEW, RUN_KEYS, RUN_ARGV, RUN_TOP = RUN_ARGV };

enum { COUNT_INTERVAL = 10000 };    /* instructions between two calls of may_go_on */

struct interpreter {
    struct allocator allocator;
    lua_State *lua;                 /* runs nothing; its registry has what all runs share */
    struct run *running;            /* the run whose code runs now; NULL: none */
    struct run *idle;
    int idle_count, run_count;      /* run_count: in progress */
    uint32_t since_step;            /* runs since the last step of the collector */
    size_t live_size;               /* bytes of the heap after the last full collection */
    struct json_settings json;      /* what a run begins with */
    struct rand48 random;           /* likewise: the numbers go on where the latest run ended, as in Redis 7 */
    struct compiled_cache compiled;
    struct loaded_list libraries;
    int64_t load_ms_max;            /* 0: no limit */
};

static inline struct interpreter *interpreter_of(lua_State *lua)
{
    void *allocator;

    lua_getallocf(lua, &allocator);
    return allocator;               /* the first member */
}

static inline struct run *run_of(lua_State *lua)
{
    return interpreter_of(lua)->running;
}

/* To be called by functions that take long without running Lua code, see run_step, and by the count hook. May
 * suspend the run. Raises an error if the run has to end. */
void run_poll(lua_State *lua);

/* Raises an error if the run has been stopped, without asking the host. */
void run_require(lua_State *lua);

/* The next instruction of this Lua thread polls. May be called at any moment. */
void run_hurry(lua_State *lua);

/* Takes an idle run, or creates one, and makes it the running one. The heap has to be unlimited meanwhile. */
struct run *run_enter(struct interpreter *interpreter, const struct script_host *host);
void run_leave(struct run *run);
void run_destroy_idle(struct interpreter *interpreter);

/* Counts steps of a loop in C, which takes long only if many are done; polls from time to time. `steps` is run_of(lua)->steps:
 * short loops add up. */
static inline void run_step(lua_State *lua, uint32_t *steps)
{
    if ((++*steps & 0xffff) == 0)
        run_poll(lua);
}

/* To be called after each callback of a host: other runs may have been in progress meanwhile. */
static inline void run_goes_on(struct run *run)
{
    run->interpreter->running = run;
    run->interpreter->allocator.current = run->current;
}

#endif
