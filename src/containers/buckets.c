#include "containers/buckets.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

/* jemalloc's size classes: four per doubling. */
static size_t capacity_above(size_t count)
{
    size_t step;

    if (count <= 4)
        return count;
    step = ((size_t)1 << linear_hash_level(count - 1)) / 4;
    return (count + step - 1) / step * step;
}

static char *segment_create(size_t count)
{
    return mem_alloc_aligned(BUCKET_SIZE, count * BUCKET_SIZE);
}

void buckets_init(struct buckets *buckets)
{
    *buckets = (struct buckets){ .count = 1, .capacity = 1, .only = segment_create(1) };
    memset(buckets->only, 0, BUCKET_SIZE);
}

void buckets_release(struct buckets *buckets)
{
    if (buckets->capacity > BUCKETS_SEGMENT) {
        for (size_t i = 0; i < buckets->capacity >> BUCKETS_SEGMENT_SHIFT; i++)
            mem_free(buckets->segments[i]);
        mem_free(buckets->segments);
    } else {
        mem_free(buckets->only);
    }
}

static void only_resize(struct buckets *buckets, size_t capacity)
{
    char *only = segment_create(capacity);

    memcpy(only, buckets->only, (size_t)buckets->count * BUCKET_SIZE);
    mem_free(buckets->only);
    buckets->only = only;
    buckets->capacity = (uint32_t)capacity;
}

static void segment_add(struct buckets *buckets)
{
    size_t segments = buckets->capacity >> BUCKETS_SEGMENT_SHIFT;

    if (segments == 1) {
        char *only = buckets->only;

        buckets->directory_capacity = 4;
        buckets->segments = mem_alloc(buckets->directory_capacity * sizeof(buckets->segments[0]));
        buckets->segments[0] = only;
    } else if (segments == buckets->directory_capacity) {
        buckets->directory_capacity *= 2;
        buckets->segments = mem_realloc(buckets->segments, buckets->directory_capacity * sizeof(buckets->segments[0]));
    }
    buckets->segments[segments] = segment_create(BUCKETS_SEGMENT);
    buckets->capacity += BUCKETS_SEGMENT;
}

static void segment_drop(struct buckets *buckets)
{
    size_t segments = (buckets->capacity >> BUCKETS_SEGMENT_SHIFT) - 1;

    mem_free(buckets->segments[segments]);
    buckets->capacity -= BUCKETS_SEGMENT;
    if (segments == 1) {
        char *only = buckets->segments[0];

        mem_free(buckets->segments);
        buckets->only = only;
    } else if (segments >= 4 && segments == buckets->directory_capacity / 4) {
        buckets->directory_capacity /= 2;
        buckets->segments = mem_realloc(buckets->segments, buckets->directory_capacity * sizeof(buckets->segments[0]));
    }
}

void *buckets_append(struct buckets *buckets, void **other_half)
{
    char *bucket;

    if (buckets->count == buckets->capacity) {
        if (buckets->capacity < BUCKETS_SEGMENT)
            only_resize(buckets, capacity_above((size_t)buckets->count + 1));
        else
            segment_add(buckets);
    }
    CHECK(buckets->count < UINT32_MAX - BUCKETS_SEGMENT);
    bucket = buckets_at(buckets, buckets->count++);
    memset(bucket, 0, BUCKET_SIZE);
    *other_half = buckets_at(buckets, linear_hash_other_half(buckets->count));
    return bucket;
}

void *buckets_last(const struct buckets *buckets, void **other_half)
{
    *other_half = buckets_at(buckets, linear_hash_other_half(buckets->count));
    return buckets_at(buckets, buckets->count - 1);
}

/* One spare segment is kept, so that a table whose size changes around the border does not allocate each time. */
void buckets_drop(struct buckets *buckets)
{
    buckets->count--;
    if (buckets->capacity > BUCKETS_SEGMENT) {
        if (buckets->count + 2 * BUCKETS_SEGMENT <= buckets->capacity || buckets->count <= BUCKETS_SEGMENT / 2)
            segment_drop(buckets);
    } else if (buckets->count <= buckets->capacity / 2) {
        only_resize(buckets, capacity_above(buckets->count));
    }
}

size_t buckets_memory(const struct buckets *buckets)
{
    size_t segments = buckets->capacity >> BUCKETS_SEGMENT_SHIFT;

    if (buckets->capacity <= BUCKETS_SEGMENT)
        return mem_size(buckets->only);
    return mem_size(buckets->segments) + segments * mem_size(buckets->segments[1]);
}
