/* A pager for benchmarks: pages are in memory, in blocks of multiples of 64 bytes, as those of a keyspace are; none is missing. */
#ifndef KELVIN_SUPPORT_BLOCK_PAGER_H
#define KELVIN_SUPPORT_BLOCK_PAGER_H

#include "containers/pager.h"

struct block {
    uint32_t size, room;
    char *data;
};

struct block_pager {
    struct pager pager;         /* first */
    struct block *blocks;
    uint32_t capacity;
};

void block_pager_init(struct block_pager *pager);
void block_pager_release(struct block_pager *pager);
/* Bytes of memory as the allocator counts them. */
size_t block_pager_memory(const struct block_pager *pager);

#endif
