/* Heap: the memory entries live in. Blocks of any multiple of 8 bytes, reached by 32-bit handles, movable.
 *
 *   handle  = segment index:19 | unit:13        (unit = 8 bytes; 32 GiB a heap); 0 is none
 *   segment = 64 KiB: unit 0 is never handed out, then blocks without gaps up to the bump position
 *
 * Allocation takes a hole of exactly the right size, else the bump position, else splits a larger hole, else a new segment.
 * Freed blocks become holes, in doubly linked lists by size, written into the holes themselves. There is no coalescing: compaction
 * moves the entries of the emptiest segment into holes elsewhere and gives the segment back, which needs
 * one write of memory a byte regained (keyspace_compact drives it).
 *
 * Owner: the partition's lock.
 */
#ifndef KELVIN_KEYSPACE_HEAP_H
#define KELVIN_KEYSPACE_HEAP_H

#include <stddef.h>
#include <stdint.h>

#include "keyspace/entry.h"
#include "keyspace/segment_pool.h"

enum {
    HEAP_UNIT_BITS = 13,
    HEAP_BLOCK_MAX = 16 * 1024,
    HEAP_EXACT_UNITS = 136,             /* holes up to 1080 bytes have a list a size */
    HEAP_LISTS = HEAP_EXACT_UNITS + 40,
};

struct heap_segment {
    uint32_t live;          /* bytes in live blocks */
    uint32_t bump;          /* units handed out so far, holes included */
};

struct heap {
    struct segment_pool *pool;
    char **segments;                    /* NULL: given back, index free */
    struct heap_segment *info;
    uint32_t segment_count;             /* indices in use, gaps included */
    uint32_t segment_capacity;
    uint32_t held_count;                /* segments held */
    uint32_t current;                   /* the bump segment; UINT32_MAX: none */
    uint32_t barred;                    /* being evacuated: nothing is allocated there; UINT32_MAX: none */
    uint64_t live_bytes;
    uint64_t reported_bytes;            /* of live_bytes, what the pool knows of */
    uint64_t hole_bytes;
    uint64_t list_map[(HEAP_LISTS + 63) / 64];      /* lists that are not empty */
    uint32_t lists[HEAP_LISTS];
};

void heap_init(struct heap *heap, struct segment_pool *pool);
void heap_release(struct heap *heap);               /* gives all segments back; entries are not looked at */

static inline struct entry *heap_at(const struct heap *heap, uint32_t handle)
{
    return (struct entry *)(heap->segments[handle >> HEAP_UNIT_BITS] +
                            (size_t)(handle & ((1u << HEAP_UNIT_BITS) - 1)) * ENTRY_UNIT);
}

/* `size` is a result of block_round, at most HEAP_BLOCK_MAX. 0: the machine refuses memory. */
uint32_t heap_alloc(struct heap *heap, uint32_t size);
void heap_free(struct heap *heap, uint32_t handle, uint32_t size);

/* The segment worth evacuating most: the one with the fewest live bytes, not the current one; UINT32_MAX if there
 * is none, or if the holes elsewhere could not take its entries. */
uint32_t heap_victim(const struct heap *heap);

/* Walks a segment's blocks. `unit` starts at 1; the next live entry at or behind it, or NULL at the end.
 * Sets *unit to the block's unit. */
struct entry *heap_walk(const struct heap *heap, uint32_t segment, uint32_t *unit);

/* While a segment is barred nothing is allocated in it, and its holes count as no holes; the caller moves its live blocks
 * away. heap_unbar gives it back to the pool if it is empty by then, or makes it a segment like others again. */
void heap_bar(struct heap *heap, uint32_t segment);
void heap_unbar(struct heap *heap);

/* Bytes of memory held: touched parts of segments, and the heap's own arrays. */
size_t heap_size(const struct heap *heap);

/* CHECKs every list, count and block; for tests. */
void heap_verify(const struct heap *heap);

#endif
