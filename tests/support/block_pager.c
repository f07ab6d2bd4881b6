#include "support/block_pager.h"

#include <string.h>

#include "base/mem.h"

enum { STEP = 64 };

static struct block *block_of(struct pager *pager, uint32_t number)
{
    return &((struct block_pager *)pager)->blocks[number];
}

static const char *find(struct pager *pager, uint32_t number, enum pager_use use, size_t *size)
{
    const struct block *block = block_of(pager, number);

    (void)use;
    *size = block->size;
    return block->data;
}

static char *change(struct pager *pager, uint32_t number, size_t size)
{
    struct block *block = block_of(pager, number);
    uint32_t room = (uint32_t)((size / STEP + 1) * STEP);

    if (room != block->room)
        block->data = mem_realloc(block->data, room);
    block->room = room;
    block->size = (uint32_t)size;
    return block->data;
}

static char *create(struct pager *pager, uint32_t number, size_t size)
{
    struct block_pager *blocks = (struct block_pager *)pager;

    if (number >= blocks->capacity) {
        uint32_t capacity = number * 2 + 64;

        blocks->blocks = mem_realloc(blocks->blocks, capacity * sizeof(blocks->blocks[0]));
        memset(blocks->blocks + blocks->capacity, 0, (capacity - blocks->capacity) * sizeof(blocks->blocks[0]));
        blocks->capacity = capacity;
    }
    return change(pager, number, size);
}

static void drop(struct pager *pager, uint32_t number)
{
    struct block *block = block_of(pager, number);

    mem_free(block->data);
    *block = (struct block){ 0 };
}

/* All blocks are resident. */
static void bring(struct pager *pager, uint32_t number)
{
    (void)block_of(pager, number);
}

void block_pager_init(struct block_pager *pager)
{
    *pager = (struct block_pager){ .pager = { .find = find, .change = change, .create = create, .drop = drop, .bring = bring } };
}

void block_pager_release(struct block_pager *pager)
{
    for (uint32_t i = 0; i < pager->capacity; i++)
        mem_free(pager->blocks[i].data);
    mem_free(pager->blocks);
}

size_t block_pager_memory(const struct block_pager *pager)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < pager->capacity; i++) {
        if (pager->blocks[i].data != NULL)
            bytes += mem_size(pager->blocks[i].data);
    }
    return bytes;
}
