#include "base/mem.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn static void out_of_memory(size_t size)
{
    fprintf(stderr, "Out of memory: %zu bytes were refused\n", size);
    fflush(stderr);
    abort();
}

void *mem_alloc(size_t size)
{
    void *block = malloc(size > 0 ? size : 1);

    if (block == NULL)
        out_of_memory(size);
    return block;
}

void *mem_zalloc(size_t size)
{
    void *block = calloc(1, size > 0 ? size : 1);

    if (block == NULL)
        out_of_memory(size);
    return block;
}

void *mem_realloc(void *block, size_t size)
{
    void *moved = realloc(block, size > 0 ? size : 1);

    if (moved == NULL)
        out_of_memory(size);
    return moved;
}

void mem_free(void *block)
{
    free(block);
}

void *mem_alloc_aligned(size_t alignment, size_t size)
{
    void *block = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);

    if (block == NULL)
        out_of_memory(size);
    return block;
}

size_t mem_size(const void *block)
{
    return malloc_usable_size((void *)block);
}

char *mem_string(struct bytes bytes)
{
    char *string = mem_alloc(bytes.size + 1);

    if (bytes.size > 0)
        memcpy(string, bytes.data, bytes.size);
    string[bytes.size] = '\0';
    return string;
}

struct bytes *mem_copy_array(const struct bytes *items, int count, size_t *size)
{
    struct bytes *copy;
    char *at;

    *size = (size_t)count * sizeof(*items);
    for (int i = 0; i < count; i++)
        *size += items[i].size;
    copy = mem_alloc(*size);
    at = (char *)(copy + count);
    for (int i = 0; i < count; i++) {
        if (items[i].size > 0)
            memcpy(at, items[i].data, items[i].size);
        copy[i] = bytes_of(at, items[i].size);
        at += items[i].size;
    }
    return copy;
}
