/* Segment pool: aligned runs of 64 KiB from the machine, for all heaps of the server.
 *
 * Memory given back goes to the machine at once (MADV_DONTNEED), but for a few segments kept warm.
 * Thread-safe: one leaf lock.
 */
#ifndef KELVIN_KEYSPACE_SEGMENT_POOL_H
#define KELVIN_KEYSPACE_SEGMENT_POOL_H

#include <stddef.h>

enum { SEGMENT_SIZE = 64 * 1024 };

struct segment_pool;

struct segment_pool *segment_pool_create(void);
void segment_pool_destroy(struct segment_pool *pool);   /* all segments were given back, or nobody cares any more */

/* NULL when the machine refuses memory. Content is undefined. */
void *segment_pool_take(struct segment_pool *pool);
void  segment_pool_give(struct segment_pool *pool, void *segment);

#endif
