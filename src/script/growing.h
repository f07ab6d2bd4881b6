/* Growing: bytes that are being written, in memory that Lua owns: it is counted and limited, and is freed by the collector if
 * an error ends the writing.
 */
#ifndef KELVIN_SCRIPT_GROWING_H
#define KELVIN_SCRIPT_GROWING_H

#include <stddef.h>
#include <string.h>

#include "base/bytes.h"

struct lua_State;

enum { GROWING_FIRST_SIZE = 1024 };

struct growing {
    struct lua_State *lua;
    int index;              /* of the slot on the stack that holds the memory */
    char *data;
    size_t size, capacity;
    char first[GROWING_FIRST_SIZE];
};

void growing_init(struct growing *growing, struct lua_State *lua);      /* pushes one value, which has to stay */
void growing_grow(struct growing *growing, size_t more);
void growing_push(struct growing *growing);                             /* pushes the bytes as a Lua string */

static inline char *growing_reserve(struct growing *growing, size_t more)
{
    if (growing->capacity - growing->size < more)
        growing_grow(growing, more);
    return growing->data + growing->size;
}

static inline void growing_append(struct growing *growing, const void *data, size_t size)
{
    char *at = growing_reserve(growing, size);

    if (size > 0)
        memcpy(at, data, size);
    growing->size += size;
}

static inline void growing_append_char(struct growing *growing, char byte)
{
    *growing_reserve(growing, 1) = byte;
    growing->size++;
}

#endif
