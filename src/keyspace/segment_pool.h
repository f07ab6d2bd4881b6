/* Segment pool: aligned runs of 64 KiB from the machine, for all heaps of the server.
 *
 * Memory given back goes to the machine at once (MADV_DONTNEED), but for a few segments kept warm.
 * Thread-safe: one leaf lock.
 */
#ifndef KELVIN_KEYSPACE_SEGMENT_POOL_H
#define KELVIN_KEYSPACE_SEGMENT_POOL_H

#include <stddef.h>
#include <stdint.h>

enum { SEGMENT_SIZE = 64 * 1024 };

struct segment_pool;

struct segment_pool *segment_pool_create(void);
void segment_pool_destroy(struct segment_pool *pool);   /* all segments were given back, or nobody cares any more */

/* NULL when the machine refuses memory. Content is undefined. */
void *segment_pool_take(struct segment_pool *pool);
void  segment_pool_give(struct segment_pool *pool, void *segment);

/* Heaps report what they use of their segments, in steps, so that the sum is cheap to read anywhere: bytes in live blocks; holes
 * and untouched room are not counted. */
void segment_pool_report(struct segment_pool *pool, int64_t used_change);
uint64_t segment_pool_used(const struct segment_pool *pool);

#endif
