/* Buckets: the array under a hash table that grows by linear hashing (Litwin, "Linear hashing: a new tool for file and table
 * addressing", 1980): any number of cache lines, one more or one less at a time.
 *
 * Of N buckets, 2^L <= N < 2^(L+1), a hash belongs to the bucket of its low L + 1 bits if there is one, else to that of its
 * low L bits. To grow is to append bucket N and to move there what belongs to it from the *other half*, bucket N - 2^L; to
 * shrink is to undo it. So there is no second table, no doubling of memory, and no step that depends on N (the array
 * of segments, 8 bytes for 256 buckets, is the one thing that is ever copied).
 *
 * Scanning: in the order of the bit-reversed hash a bucket is an interval at every N; splitting and merging only move
 * borders. A cursor is a place in that order, so whatever stays in the table is found, however N changes meanwhile.
 *
 * What is in a bucket is its user's business. Owner: whoever embeds it.
 */
#ifndef KELVIN_CONTAINERS_BUCKETS_H
#define KELVIN_CONTAINERS_BUCKETS_H

#include <stddef.h>
#include <stdint.h>

enum { BUCKET_SIZE = 64, BUCKETS_SEGMENT_SHIFT = 8, BUCKETS_SEGMENT = 1 << BUCKETS_SEGMENT_SHIFT };

struct buckets {
    uint32_t count, capacity;
    uint32_t directory_capacity;
    union {
        char *only;                 /* up to BUCKETS_SEGMENT */
        char **segments;            /* beyond */
    };
};

void buckets_init(struct buckets *buckets);         /* one, all zero */
void buckets_release(struct buckets *buckets);      /* what is in them is released before */

/* One more, all zero, and the place of its other half. */
void *buckets_append(struct buckets *buckets, void **other_half);
/* The last one, whose contents were moved to its other half, goes. There are two or more. */
void *buckets_last(const struct buckets *buckets, void **other_half);
void buckets_drop(struct buckets *buckets);

size_t buckets_memory(const struct buckets *buckets);

static inline void *buckets_at(const struct buckets *buckets, size_t index)
{
    if (buckets->capacity <= BUCKETS_SEGMENT)
        return buckets->only + index * BUCKET_SIZE;
    return buckets->segments[index >> BUCKETS_SEGMENT_SHIFT] + (index & (BUCKETS_SEGMENT - 1)) * BUCKET_SIZE;
}

static inline size_t buckets_index(const struct buckets *buckets, uint64_t hash)
{
    size_t half = (size_t)1 << (63 - (unsigned)__builtin_clzll(buckets->count));
    size_t index = hash & (2 * half - 1);

    return index < buckets->count ? index : index - half;
}

/* Where a scan goes on behind bucket `index`, in whose interval `cursor` lies. 0: there is nothing behind. */
uint64_t buckets_cursor_after(const struct buckets *buckets, size_t index, uint64_t cursor);

#endif
