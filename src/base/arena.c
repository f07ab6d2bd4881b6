#include "base/arena.h"

#include <string.h>

#include "base/mem.h"

enum { BLOCK_SIZE = 16 * 1024, BLOCK_ALIGN = 16 };

void arena_init(struct arena *arena)
{
    *arena = (struct arena){ 0 };
}

static void free_list(struct arena_block *block)
{
    while (block != NULL) {
        struct arena_block *next = block->next;

        mem_free(block);
        block = next;
    }
}

void arena_release(struct arena *arena)
{
    free_list(arena->first);
    free_list(arena->large);
    arena_init(arena);
}

void arena_free_more(struct arena *arena)
{
    free_list(arena->large);
    arena->large = NULL;
    if (arena->first != NULL) {
        free_list(arena->first->next);
        arena->first->next = NULL;
    }
}

void *arena_alloc(struct arena *arena, size_t size)
{
    struct arena_block *block;

    size = (size + BLOCK_ALIGN - 1) & ~(size_t)(BLOCK_ALIGN - 1);
    if (size > BLOCK_SIZE / 2) {
        block = mem_alloc(sizeof(*block) + size);
        block->next = arena->large;
        arena->large = block;
        return block->data;
    }
    if (arena->current == NULL || arena->used + size > BLOCK_SIZE) {
        block = mem_alloc(sizeof(*block) + BLOCK_SIZE);
        block->next = NULL;
        if (arena->current == NULL)
            arena->first = block;
        else
            arena->current->next = block;
        arena->current = block;
        arena->used = 0;
    }
    arena->used += size;
    return arena->current->data + arena->used - size;
}

struct arena_mark arena_mark(const struct arena *arena)
{
    return (struct arena_mark){ arena->current, arena->large, arena->used };
}

void arena_rewind(struct arena *arena, struct arena_mark mark)
{
    struct arena_block *kept = mark.current != NULL ? mark.current : arena->first;

    while (arena->large != mark.large) {
        struct arena_block *block = arena->large;

        arena->large = block->next;
        mem_free(block);
    }
    if (kept != NULL && kept->next != NULL) {
        free_list(kept->next);
        kept->next = NULL;
    }
    arena->current = kept;
    arena->used = mark.used;
}

struct bytes arena_copy(struct arena *arena, struct bytes bytes)
{
    char *copy = arena_alloc(arena, bytes.size + 1);

    if (bytes.size > 0)
        memcpy(copy, bytes.data, bytes.size);
    copy[bytes.size] = '\0';
    return bytes_of(copy, bytes.size);
}
