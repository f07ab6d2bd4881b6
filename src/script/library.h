/* Libraries: those that an interpreter has loaded, and how they register their functions. Owner: the interpreter's thread. */
#ifndef KELVIN_SCRIPT_LIBRARY_H
#define KELVIN_SCRIPT_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "script/interpreter.h"

struct lua_State;
struct library;
struct library_function;

struct library_list {
    struct lua_State *lua;
    struct library **items;
    size_t count, capacity;
};

/* What a run has while it loads a library. */
struct library_loading {
    struct library *library;
    int64_t deadline_us;        /* of clock_mono_us */
    bool late;                  /* the deadline has passed */
};

void library_list_init(struct library_list *list, struct lua_State *lua);
void library_list_release(struct library_list *list);

/* The loaded library of exactly this version; NULL: it is not loaded. */
struct library *library_find(const struct library_list *list, uint64_t version);

/* The reference of a function in Lua's registry; LUA_NOREF if there is none of this name. */
int library_function(const struct library *library, struct bytes name);

/* Runs the code of the library; in the list it replaces other versions. NULL: `error` has the text of an error reply. */
struct library *library_load(struct interpreter *interpreter, const struct script_library *source, const struct script_host *host,
                             struct buffer *error);
void library_for_each(const struct library *library, script_function_found *found, void *context);

/* Removes a library, in whatever version; all of them if name.data is NULL. */
void library_unload(struct library_list *list, struct bytes name);

/* Sets redis.register_function in the table at the top of the stack. */
void library_open(struct lua_State *lua);

size_t library_memory(const struct library_list *list);

#endif
