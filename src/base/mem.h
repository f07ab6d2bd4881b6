/* Memory from the allocator (jemalloc in a normal build, malloc under sanitizers).
 *
 * These functions never return NULL: out of memory stops the process with a message, because nothing sensible can be
 * done then. Sizes that come from outside are checked where the bytes enter.
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

/* The usable size of the block, which may be more than was requested. */
size_t mem_size(const void *block);

/* The size of the block that the allocator returns for a request of `size` bytes: jemalloc's size classes, four per
 * doubling. If only such sizes are requested, a block's capacity follows from the size of its contents, and it has to
 * be reallocated only when the contents pass into another class. Under sanitizers, which must detect every byte beyond
 * the end, it is `size`. */
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

/* A copy followed by a NUL, as a C string. Freed with mem_free. */
char *mem_string(struct bytes bytes);
/* A copy of an array and of what it refers to, in one block of `*size` bytes. */
struct bytes *mem_copy_array(const struct bytes *items, int count, size_t *size);

#endif
