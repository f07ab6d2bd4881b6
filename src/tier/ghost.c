#include "tier/ghost.h"

#include <string.h>

#include "base/mem.h"

enum { WAYS = 4, USES_BITS = 3, USES_MASK = (1 << USES_BITS) - 1, TAG_SHIFT = 40, BUCKETS_MIN = 4, BUCKETS_MAX = 1 << 30, SHRINK_AT = 8 };

void ghost_release(struct ghost *ghost)
{
    mem_free(ghost->cells);
    *ghost = (struct ghost){ 0 };
}

static uint16_t *bucket_of(const struct ghost *ghost, uint64_t hash)
{
    return ghost->cells + (hash & (ghost->bucket_count - 1)) * WAYS;
}

/* Bits that choose neither the partition (the upper 8) nor, as a rule, the bucket. */
static uint16_t tag_of(uint64_t hash)
{
    return (uint16_t)((hash >> TAG_SHIFT) << USES_BITS);
}

/* The lower half of a new table is the old one, and so is the upper half: the next bit of the hash says in which half a key is. */
static void grow_table(struct ghost *ghost)
{
    uint32_t old = ghost->bucket_count, count = old > 0 ? 2 * old : BUCKETS_MIN;
    size_t old_size = (size_t)old * WAYS * sizeof(uint16_t);

    ghost->cells = mem_realloc(ghost->cells, (size_t)count * WAYS * sizeof(uint16_t));
    if (old == 0)
        memset(ghost->cells, 0, (size_t)count * WAYS * sizeof(uint16_t));
    else
        memcpy((char *)ghost->cells + old_size, ghost->cells, old_size);
    ghost->bucket_count = count;
}

void ghost_note(struct ghost *ghost, uint64_t hash, unsigned uses, uint64_t hot_count)
{
    uint16_t *bucket;
    int at = 0;

    if (uses == 0)
        return;
    while ((uint64_t)ghost->bucket_count * WAYS < hot_count && ghost->bucket_count < BUCKETS_MAX)
        grow_table(ghost);
    if (ghost->bucket_count == 0)
        grow_table(ghost);
    bucket = bucket_of(ghost, hash);
    for (int i = 1; i < WAYS; i++) {
        if ((bucket[i] & USES_MASK) < (bucket[at] & USES_MASK))
            at = i;
    }
    memmove(bucket + at, bucket + at + 1, (size_t)(WAYS - 1 - at) * sizeof(*bucket));      /* the oldest are first */
    bucket[WAYS - 1] = (uint16_t)(tag_of(hash) | uses);
}

unsigned ghost_take(struct ghost *ghost, uint64_t hash)
{
    uint16_t *bucket = ghost->bucket_count > 0 ? bucket_of(ghost, hash) : NULL, tag = tag_of(hash);
    unsigned uses;

    for (int i = WAYS - 1; bucket != NULL && i >= 0; i--) {
        if ((bucket[i] & USES_MASK) == 0 || (bucket[i] & ~USES_MASK) != tag)
            continue;
        uses = bucket[i] & USES_MASK;
        bucket[i] = 0;
        return uses;
    }
    return 0;
}

void ghost_age(struct ghost *ghost, uint64_t hot_count)
{
    size_t count = (size_t)ghost->bucket_count * WAYS;

    if (count > SHRINK_AT * (hot_count + BUCKETS_MIN * WAYS)) {
        ghost_release(ghost);
        return;
    }
    for (size_t i = 0; i < count; i++)
        ghost->cells[i] = (uint16_t)((ghost->cells[i] & ~USES_MASK) | (ghost->cells[i] & USES_MASK) >> 1);
}
