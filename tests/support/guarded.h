/* Guarded: memory between two pages that no access is allowed to. Code of a library, which no sanitizer sees, is stopped there when it
 * reads or writes beyond what it was given.
 */
#ifndef KELVIN_SUPPORT_GUARDED_H
#define KELVIN_SUPPORT_GUARDED_H

#include <stddef.h>

struct guarded {
    char *start, *end;      /* `end` is the first byte that can't be accessed; so is the byte before `start` */
};

/* At least `size` bytes, rounded up to whole pages, zero. */
struct guarded guarded_create(size_t size);
void guarded_destroy(struct guarded *guarded);

#endif
