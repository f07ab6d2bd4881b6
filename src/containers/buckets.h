/* Buckets: the array of a hash table that grows by linear hashing (Litwin, "Linear hashing: a new tool for file and
 * table addressing", 1980): any number of cache lines, which grows or shrinks by one at a time.
 *
 * With N buckets, 2^L <= N < 2^(L+1), a hash belongs to the bucket numbered by its low L + 1 bits if that exists,
 * otherwise to the one numbered by its low L bits. To grow, bucket N is appended and what belongs to it is moved there
 * from its *other half*, bucket N - 2^L; to shrink, this is undone. So there is no second table, no doubling of memory,
 * and no step whose time depends on N (except copying the array of segments, 8 bytes per 256 buckets).
 *
 * Scanning: in the order of the bit-reversed hash a bucket is an interval for every N; splitting and merging only move
 * borders. A cursor is a position in that order, so what stays in the table is found, however N changes meanwhile.
 *
 * The contents of a bucket are defined by the user. Owner: the struct that embeds it.
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
        char **segments;            /* above */
    };
};

void buckets_init(struct buckets *buckets);         /* one bucket, all zero */
void buckets_release(struct buckets *buckets);      /* the caller releases their contents first */

/* Appends a bucket, all zero; returns it and its other half. */
void *buckets_append(struct buckets *buckets, void **other_half);
/* buckets_last returns the last bucket and its other half; buckets_drop removes it after the caller has moved its
 * contents to the other half. There must be at least two. */
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

/* The cursor after bucket `index`, whose interval contains `cursor`; 0 if that was the last one. */
uint64_t buckets_cursor_after(const struct buckets *buckets, size_t index, uint64_t cursor);

#endif
