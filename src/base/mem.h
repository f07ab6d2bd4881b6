/* Memory from the allocator (jemalloc in a normal build, malloc under sanitizers).
 *
 * These never return NULL: out of memory stops the process with a message, as there is
 * nothing sensible left to do. Sizes that come from outside are checked where bytes enter.
 */
#ifndef KELVIN_BASE_MEM_H
#define KELVIN_BASE_MEM_H

#include <stddef.h>

#include "base/bytes.h"

void *mem_alloc(size_t size);
void *mem_zalloc(size_t size);                   /* all zero */
void *mem_realloc(void *block, size_t size);     /* block may be NULL */
void  mem_free(void *block);                     /* NULL is fine */

/* `alignment` is a power of two; freed with mem_free. Not zeroed. */
void *mem_alloc_aligned(size_t alignment, size_t size);

/* What the allocator really set aside for the block. */
size_t mem_size(const void *block);

/* The size of the blocks of which the allocator takes one for `size` bytes: jemalloc's classes, four from one power of two to the next.
 * Who asks for blocks of such sizes only knows a block's size by what is in it, and asks for another when that passes into another class.
 * Under sanitizers, which are to see every byte too many, it is `size`. */
static inline size_t mem_class(size_t size)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return size;
#else
    size_t step = 16;

    if (size <= 8)
        return 8;
    if (size > 128)
        step = (size_t)1 << (61 - __builtin_clzll(size - 1));
    return (size + step - 1) & ~(step - 1);
#endif
}

/* A copy with a NUL behind it, for whoever needs a C string. Freed with mem_free. */
char *mem_string(struct bytes bytes);

#endif
