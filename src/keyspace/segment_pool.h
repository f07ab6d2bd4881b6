/* Segment pool: aligned segments of 64 KiB from the operating system, for all heaps of the server.
 *
 * Memory given back is returned to the system at once (MADV_DONTNEED), except for a few segments. Thread-safe: one leaf
 * lock.
 */
#ifndef KELVIN_KEYSPACE_SEGMENT_POOL_H
#define KELVIN_KEYSPACE_SEGMENT_POOL_H

#include <stddef.h>
#include <stdint.h>

enum { SEGMENT_SIZE = 64 * 1024 };

struct segment_pool;

struct segment_pool *segment_pool_create(void);
void segment_pool_destroy(struct segment_pool *pool);   /* all segments have been given back, or will not be used any more */

/* Returns NULL if there is no memory. The contents are undefined. */
void *segment_pool_take(struct segment_pool *pool);
void  segment_pool_give(struct segment_pool *pool, void *segment);

/* Heaps report changes of their live bytes here, in steps, so that the sum is cheap to read anywhere. Holes and
 * untouched parts of segments are not counted. */
void segment_pool_report(struct segment_pool *pool, int64_t used_change);
uint64_t segment_pool_used(const struct segment_pool *pool);

#endif
