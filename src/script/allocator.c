#include "script/allocator.h"

#include <lua5.1/lua.h>
#include <stdint.h>

#include "base/check.h"
#include "base/compiler.h"
#include "base/mem.h"

enum {
    PAUSE_NORMAL = 200,     /* percent: a cycle begins when the heap has doubled; Lua's default */
    PAUSE_MIN = 105,
    SPEED_NORMAL = 200,     /* percent of the allocation; Lua's default */
    SPEED_HURRY = 2000,
    SPEED_WHOLE_CYCLE = 0,
    LARGE_BLOCK_SIZE = 4096,
    WORK_MAX = 16 << 20,    /* copied in some milliseconds */
};

static const size_t BLOCK_SIZE_MAX = (size_t)4 << 30;       /* also without a limit: the system must not be asked for terabytes */

void allocator_init(struct allocator *allocator, size_t size_max)
{
    *allocator = (struct allocator){ 0 };
    allocator_set_limit(allocator, size_max);
}

void allocator_set_limit(struct allocator *allocator, size_t size_max)
{
    allocator->size_max = size_max > 0 ? size_max : SIZE_MAX;
    allocator->hurry_size = allocator->size_max / 4;
}

/* Lua waits until the heap has doubled before it collects again, also where twice the size is beyond the limit. In the
 * upper part of the heap it must not wait as long, and it must collect faster than garbage grows. Setting these two
 * numbers is all that lua_gc does here, so it is safe within an allocation. */
static void pace(struct allocator *allocator)
{
    size_t eighth = allocator->size_max / 8;
    size_t pause = 6 * eighth / (allocator->size / 100 + 1);
    int speed = allocator->size < 4 * eighth ? SPEED_NORMAL : allocator->size < 7 * eighth ? SPEED_HURRY : SPEED_WHOLE_CYCLE;

    if (allocator->state == NULL)
        return;
    lua_gc(allocator->state, LUA_GCSETPAUSE, pause > PAUSE_NORMAL ? PAUSE_NORMAL : pause < PAUSE_MIN ? PAUSE_MIN : (int)pause);
    lua_gc(allocator->state, LUA_GCSETSTEPMUL, speed);
    allocator->hurry_size = allocator->size + eighth / 2;
}

void allocator_settle(struct allocator *allocator)
{
    if (allocator->hurry_size == allocator->size_max / 4 || allocator->size >= allocator->size_max / 4)
        return;
    pace(allocator);
    allocator->hurry_size = allocator->size_max / 4;
}

/* A single instruction can copy a string of any size. What is copied is allocated first. */
static void count_work(struct allocator *allocator, size_t size)
{
    allocator->work += size;
    if (allocator->work < WORK_MAX || allocator->current == NULL)
        return;
    allocator->work = 0;
    allocator->on_work(allocator->current);
}

static bool is_refused(struct allocator *allocator, size_t more)
{
    if (allocator->refuse) {
        allocator->refuse = false;
        return true;
    }
    return !allocator->unlimited && (allocator->size >= allocator->size_max || more > allocator->size_max - allocator->size);
}

void *allocator_resize(void *context, void *block, size_t old_size, size_t size)
{
    struct allocator *allocator = context;

    if (size == 0) {
        allocator->size -= old_size;
        mem_free(block);
        return NULL;
    }
    if (size > old_size) {
        if (UNLIKELY(allocator->refuse || allocator->size + (size - old_size) > allocator->size_max) && is_refused(allocator, size - old_size))
            return NULL;
        if (UNLIKELY(size >= LARGE_BLOCK_SIZE)) {
            if (size > BLOCK_SIZE_MAX)
                return NULL;
            count_work(allocator, size);
        }
        if (UNLIKELY(allocator->size > allocator->hurry_size))
            pace(allocator);
    }
    allocator->size += size - old_size;
    return block == NULL ? mem_alloc(size) : mem_realloc(block, size);
}

void allocator_throw(struct allocator *allocator, lua_State *lua)
{
    allocator->refuse = true;
    lua_newuserdata(lua, 1);
    CHECK(false);
    __builtin_unreachable();
}

void allocator_require(struct allocator *allocator, lua_State *lua, size_t size)
{
    if (allocator->size < allocator->size_max && size < (allocator->size_max - allocator->size) / 2)
        return;
    lua_gc(lua, LUA_GCCOLLECT, 0);
    if (allocator->size >= allocator->size_max || size >= allocator->size_max - allocator->size)
        allocator_throw(allocator, lua);
}
