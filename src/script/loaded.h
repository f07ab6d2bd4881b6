/* Libraries: those that an interpreter has loaded, and how they register their functions. Owner: the interpreter's thread. */
#ifndef KELVIN_SCRIPT_LOADED_H
#define KELVIN_SCRIPT_LOADED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "script/interpreter.h"

struct lua_State;
struct loaded;

struct loaded_list {
    struct lua_State *lua;
    struct loaded **items;
    size_t count, capacity;
};

/* State of a run while it loads a library. */
struct loaded_loading {
    struct loaded *library;
    int64_t deadline_us;        /* of clock_mono_us; INT64_MAX: none */
    bool late;                  /* the deadline has passed */
};

void loaded_list_init(struct loaded_list *list, struct lua_State *lua);
void loaded_list_release(struct loaded_list *list);

/* The loaded library of exactly this version; NULL: it is not loaded. */
struct loaded *loaded_find(const struct loaded_list *list, uint64_t version);

/* The reference of a function in Lua's registry; LUA_NOREF if there is none of this name. */
int loaded_function(const struct loaded *library, struct bytes name);

/* Runs the code of the library; in the list it replaces other versions. NULL: `error` has the text of an error reply. */
struct loaded *loaded_load(struct interpreter *interpreter, const struct script_library *source, const struct script_host *host,
                             struct buffer *error);
void loaded_for_each(const struct loaded *library, script_function_found *found, void *context);

/* Removes a library, in whatever version; all of them if name.data is NULL. */
void loaded_unload(struct loaded_list *list, struct bytes name);

/* Sets redis.register_function in the table at the top of the stack. */
void loaded_open(struct lua_State *lua);

size_t loaded_memory(const struct loaded_list *list);

#endif
