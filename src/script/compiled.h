/* Compiled: the scripts that an interpreter has compiled, by SHA1. Owner: the interpreter's thread.
 *
 * At most as many as the limit says, unless more are in use; the one that was not used for the longest time is dropped
 * first. Lua keeps a dropped one alive while a run uses it.
 */
#ifndef KELVIN_SCRIPT_COMPILED_H
#define KELVIN_SCRIPT_COMPILED_H

#include <stdbool.h>
#include <stddef.h>

#include "script/interpreter.h"

struct lua_State;
struct compiled;

struct compiled_cache {
    struct lua_State *lua;
    struct compiled **buckets;
    size_t bucket_count, count, count_max;      /* bucket_count is a power of two */
    struct compiled *newest, *oldest;           /* by use */
};

struct compiled {
    char sha[SCRIPT_SHA_SIZE];
    int reference;              /* of the function, in Lua's registry */
    bool in_use;                /* a run is executing it: the function has one set of globals, so that a second run needs a copy */
    struct compiled *next;      /* in the bucket */
    struct compiled *newer, *older;
};

void compiled_init(struct compiled_cache *cache, struct lua_State *lua, size_t count_max);
void compiled_release(struct compiled_cache *cache);
void compiled_set_limit(struct compiled_cache *cache, size_t count_max);

/* NULL if it is not there. Makes it the newest. */
struct compiled *compiled_find(struct compiled_cache *cache, const char *sha);
/* `reference` is taken. The script must not be in the cache. */
struct compiled *compiled_add(struct compiled_cache *cache, const char *sha, int reference);
/* Drops all that are not in use. */
void compiled_clear(struct compiled_cache *cache);

size_t compiled_memory(const struct compiled_cache *cache);

#endif
