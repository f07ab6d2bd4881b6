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

/* A copy with a NUL behind it, for whoever needs a C string. Freed with mem_free. */
char *mem_string(struct bytes bytes);

#endif
