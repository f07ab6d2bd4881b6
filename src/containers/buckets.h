/* Buckets: the array of a hash table that grows by linear hashing (containers/linear_hash.h): any number of cache lines, which grows or shrinks by one at a
 * time. So there is no second table, no doubling of memory, and no step whose time depends on their number (except copying the array of segments, 8 bytes per
 * 256 buckets).
 *
 * The contents of a bucket are defined by the user. Owner: the struct that embeds it.
 */
#ifndef KELVIN_CONTAINERS_BUCKETS_H
#define KELVIN_CONTAINERS_BUCKETS_H

#include <stddef.h>
#include <stdint.h>

#include "containers/linear_hash.h"

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
    return linear_hash_index(buckets->count, hash);
}

static inline uint64_t buckets_cursor_after(const struct buckets *buckets, size_t index, uint64_t cursor)
{
    return linear_hash_cursor_after(buckets->count, index, cursor);
}

#endif
