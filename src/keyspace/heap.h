/* Heap: the memory of entries. Blocks of any multiple of 8 bytes, referred to by 32-bit handles, movable.
 *
 *   handle  = segment index:19 | unit:13        (unit = 8 bytes; a heap has at most 32 GiB); 0 is none
 *   segment = 64 KiB: unit 0 is never allocated, then blocks without gaps up to the bump position
 *
 * An allocation takes a hole of exactly the right size, else the bump position, else a part of a larger hole, else a
 * new segment. Freed blocks become holes, in doubly linked lists by size, which are stored in the holes themselves.
 * Holes are not coalesced: compaction (keyspace_compact) moves the entries of the segment with the most to regain into holes
 * elsewhere and gives the segment back, at a cost of about one byte copied per byte regained. The rest of a segment that was too
 * small for the next block is no such hole: with equal blocks any other segment would have the same.
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
    HEAP_EXACT_UNITS = 136,             /* holes of up to 1080 bytes have one list per size */
    HEAP_LISTS = HEAP_EXACT_UNITS + 40,
};

struct heap_segment {
    uint32_t live;          /* bytes in live blocks */
    uint16_t bump;          /* units allocated so far, holes included */
    uint16_t largest;       /* units of the largest block that was ever in it */
};

struct heap {
    struct segment_pool *pool;
    char **segments;                    /* NULL: given back, the index is free */
    struct heap_segment *info;
    uint32_t segment_count;             /* indices in use, gaps included */
    uint32_t segment_capacity;
    uint32_t held_count;                /* segments allocated */
    uint32_t current;                   /* the segment of the bump position; UINT32_MAX: none */
    uint32_t barred;                    /* being evacuated: nothing is allocated in it; UINT32_MAX: none */
    uint64_t live_bytes;
    uint64_t reported_bytes;            /* the part of live_bytes that was reported to the pool */
    uint64_t hole_bytes;
    uint64_t list_map[(HEAP_LISTS + 63) / 64];      /* lists that are not empty */
    uint32_t lists[HEAP_LISTS];
};

void heap_init(struct heap *heap, struct segment_pool *pool);
void heap_release(struct heap *heap);               /* gives all segments back without looking at the entries */

static inline struct entry *heap_at(const struct heap *heap, uint32_t handle)
{
    return (struct entry *)(heap->segments[handle >> HEAP_UNIT_BITS] +
                            (size_t)(handle & ((1u << HEAP_UNIT_BITS) - 1)) * ENTRY_UNIT);
}

/* `size` is a result of entry_block_round, at most HEAP_BLOCK_MAX. Returns 0 if there is no memory. */
uint32_t heap_alloc(struct heap *heap, uint32_t size);
void heap_free(struct heap *heap, uint32_t handle, uint32_t size);

/* The segment that is best evacuated, except the current one. UINT32_MAX if there is none, or if the holes elsewhere could not take its
 * entries. Compaction ends: a segment that would leave about as much unused if it were filled again with the same blocks is none. */
uint32_t heap_victim(const struct heap *heap);

/* Iterates over the blocks of a segment. `*unit` starts at 1. Returns the first live entry at or after it and sets
 * `*unit` to its unit; NULL at the end. */
struct entry *heap_walk(const struct heap *heap, uint32_t segment, uint32_t *unit);

/* Nothing is allocated in a barred segment, and its holes are not counted; the caller moves its live blocks elsewhere.
 * heap_unbar returns the segment to the pool if it is empty, otherwise to normal use. */
void heap_bar(struct heap *heap, uint32_t segment);
void heap_unbar(struct heap *heap);

/* Bytes of memory in use: the touched parts of segments, and the heap's own arrays. */
size_t heap_size(const struct heap *heap);

/* CHECKs every list, count and block; for tests. */
void heap_verify(const struct heap *heap);

#endif
