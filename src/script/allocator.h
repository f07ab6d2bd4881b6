/* Allocator: the memory of one Lua state, counted and limited. Owner: the interpreter's thread. */
#ifndef KELVIN_SCRIPT_ALLOCATOR_H
#define KELVIN_SCRIPT_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>

struct lua_State;

struct allocator {
    struct lua_State *state;    /* NULL until it exists */
    size_t size;                /* bytes that Lua has */
    size_t size_max;            /* SIZE_MAX: no limit */
    size_t hurry_size;          /* from here on the collector has to be faster, so that garbage does not reach the limit */
    bool unlimited;             /* what is allocated now is the interpreter's own work, outside of a protected call: it must not fail */
    struct lua_State *current;  /* the Lua thread or coroutine that runs now; NULL: none */
    size_t work;                /* bytes of large blocks since the last call of on_work */
    void (*on_work)(struct lua_State *current);     /* called when it is much; may only set a hook */
    bool refuse;                /* the next allocation fails, once: see allocator_throw */
};

void allocator_init(struct allocator *allocator, size_t size_max);
void allocator_set_limit(struct allocator *allocator, size_t size_max);

/* The allocator of lua_newstate; `allocator` is a struct allocator. */
void *allocator_resize(void *allocator, void *block, size_t old_size, size_t size);

/* Lets the collector take its time again, if the heap is small again. */
void allocator_settle(struct allocator *allocator);

/* Raises Lua's error of missing memory, which is the one error that calls no message handler. Does not return. */
void allocator_throw(struct allocator *allocator, struct lua_State *lua) __attribute__((noreturn));

/* Raises it if a block of `size` bytes would not fit, after a full collection: for functions that need a large block. */
void allocator_require(struct allocator *allocator, struct lua_State *lua, size_t size);

#endif
