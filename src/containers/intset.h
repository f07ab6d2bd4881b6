/* Intset: a sorted array of different integers in one block, in Redis' format for small sets of integers.
 *
 *   intset = width u32 | count u32 | integer ...        (little-endian; width 2, 4 or 8 is the size of each integer in bytes)
 *
 * All integers have the width of the widest one that was ever added. A lookup takes O(log n); adding and removing move
 * the integers after it, O(n).
 *
 * Owner: one thread, or the holder of the value's lock. The functions that change a set may move it, so they take the
 * address of the caller's pointer.
 */
#ifndef KELVIN_CONTAINERS_INTSET_H
#define KELVIN_CONTAINERS_INTSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct intset;

enum { INTSET_COUNT_MAX = 1 << 27 };        /* a larger set is a bug of the caller */

struct intset *intset_create(void);
void intset_destroy(struct intset *set);                /* NULL is fine */
struct intset *intset_copy(const struct intset *set);

/* The whole block, as it is stored in a dump. Borrowed until the set changes. */
struct bytes intset_bytes(const struct intset *set);
size_t intset_memory(const struct intset *set);         /* as the allocator counts it */

/* True if the bytes are an intset: a valid width, the right count, each integer greater than the one before. The bytes
 * may come from outside. An empty set is valid. */
bool intset_is_valid(struct bytes bytes);
/* A set that is a copy of bytes for which intset_is_valid has returned true. */
struct intset *intset_of_bytes(struct bytes bytes);

size_t intset_count(const struct intset *set);
int64_t intset_get(const struct intset *set, size_t index);     /* the index-th smallest */
bool intset_has(const struct intset *set, int64_t number);

/* True if it is new. */
bool intset_add(struct intset **set, int64_t number);
/* False if it is not there. */
bool intset_remove(struct intset **set, int64_t number);

#endif
