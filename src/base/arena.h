/* Arena: memory that lives as long as one call and is freed all at once. Owner: one thread.
 *
 * Blocks of 16 KiB are kept between calls. A larger allocation gets a block of its own, which arena_reset frees.
 */
#ifndef KELVIN_BASE_ARENA_H
#define KELVIN_BASE_ARENA_H

#include <stddef.h>

#include "base/bytes.h"
#include "base/compiler.h"

struct arena_block {
    struct arena_block *next;
    size_t spare;
    char data[];
};

struct arena {
    struct arena_block *first, *current;
    struct arena_block *large;
    size_t used;                    /* in the current block */
};

void  arena_init(struct arena *arena);
void  arena_release(struct arena *arena);
void  arena_free_more(struct arena *arena);             /* private: all but the first block */
static inline void arena_reset(struct arena *arena)
{
    if (UNLIKELY(arena->large != NULL || (arena->first != NULL && arena->first->next != NULL)))
        arena_free_more(arena);
    arena->current = arena->first;
    arena->used = 0;
}
void *arena_alloc(struct arena *arena, size_t size);    /* aligned to 16, not zeroed */
/* arena_rewind frees all that was allocated after arena_mark. Marks nest. */
struct arena_mark {
    struct arena_block *current, *large;
    size_t used;
};
struct arena_mark arena_mark(const struct arena *arena);
void arena_rewind(struct arena *arena, struct arena_mark mark);
struct bytes arena_copy(struct arena *arena, struct bytes bytes);

#endif
