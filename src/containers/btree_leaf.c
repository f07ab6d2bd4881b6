/* Leaves: a block of bytes with elements in order. */
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "containers/btree_private.h"

enum { LEAF_SIZE_FIRST = 128, FAR_SIZE = sizeof(char *) };

struct far {
    uint64_t size;
    char bytes[];
};

static struct far *far_at(const char *at)
{
    struct far *far;

    memcpy(&far, at, FAR_SIZE);
    return far;
}

struct leaf *leaf_create(void)
{
    struct leaf *leaf = mem_zalloc(LEAF_SIZE_FIRST);

    leaf->capacity = (uint16_t)mem_size(leaf);
    return leaf;
}

static void free_far(const struct leaf *leaf, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        uint16_t start = leaf_starts(leaf)[i];

        if (start & START_FAR)
            mem_free(far_at(leaf_heap(leaf) + (start & ~START_FAR)));
    }
}

void leaf_destroy(struct leaf *leaf)
{
    free_far(leaf, 0, leaf->count);
    mem_free(leaf);
}

struct leaf *leaf_copy(const struct leaf *leaf)
{
    struct leaf *copy = mem_alloc(leaf_size(leaf));

    memcpy(copy, leaf, leaf_size(leaf));
    copy->capacity = (uint16_t)mem_size(copy);
    for (size_t i = 0; i < copy->count; i++) {
        uint16_t start = leaf_starts(copy)[i];

        if (start & START_FAR) {
            char *at = leaf_heap(copy) + (start & ~START_FAR);
            const struct far *from = far_at(at);
            struct far *far = mem_alloc(sizeof(*far) + from->size);

            memcpy(far, from, sizeof(*far) + from->size);
            memcpy(at, &far, FAR_SIZE);
        }
    }
    return copy;
}

struct bytes leaf_member(const struct leaf *leaf, size_t slot)
{
    const uint16_t *starts = leaf_starts(leaf);
    size_t start = starts[slot] & ~START_FAR;
    const char *at = leaf_heap(leaf) + start;
    size_t end = slot + 1 < leaf->count ? starts[slot + 1] & ~START_FAR : leaf->heap_size;

    if (starts[slot] & START_FAR) {
        const struct far *far = far_at(at);

        return bytes_of(far->bytes, far->size);
    }
    return bytes_of(at, end - start);
}

int leaf_compare(const struct leaf *leaf, size_t slot, double score, struct bytes member)
{
    double own = leaf_scores(leaf)[slot];

    if (own < score)
        return -1;
    return own > score ? 1 : bytes_compare(leaf_member(leaf, slot), member);
}

static size_t stored_size(struct bytes member)
{
    return member.size > MEMBER_INLINE_MAX ? (size_t)FAR_SIZE : member.size;
}

size_t element_size(struct bytes member)
{
    return ELEMENT_SIZE + stored_size(member);
}

/* Makes the block as large as necessary, in steps of the allocator's size classes, which are about a fifth apart. */
static void resize_block(struct leaf **leaf, size_t size)
{
    if (size < LEAF_SIZE_FIRST)
        size = LEAF_SIZE_FIRST;
    if (size <= (*leaf)->capacity && size + size / 2 >= (*leaf)->capacity)
        return;
    *leaf = mem_realloc(*leaf, size);
    size = mem_size(*leaf);
    (*leaf)->capacity = (uint16_t)(size < LEAF_SIZE_MAX ? size : LEAF_SIZE_MAX);
}

/* The arrays follow each other, so adding one element moves all of them; from the last to the first, each towards the
 * end. */
void leaf_insert(struct leaf **leaf_slot, size_t slot, double score, uint8_t tag, struct bytes member)
{
    size_t size = stored_size(member), count = (*leaf_slot)->count, start;
    struct leaf *leaf, old;
    const uint16_t *old_starts;
    const uint8_t *old_tags;
    const char *old_heap;
    uint16_t *starts;
    uint8_t *tags;
    char *heap;

    resize_block(leaf_slot, leaf_size(*leaf_slot) + element_size(member));
    leaf = *leaf_slot;
    old = *leaf;
    old_starts = leaf_starts(leaf);
    old_tags = leaf_tags(leaf);
    old_heap = leaf_heap(leaf);
    start = slot < count ? old_starts[slot] & ~START_FAR : old.heap_size;

    leaf->count++;
    leaf->heap_size = (uint16_t)(old.heap_size + size);
    starts = leaf_starts(leaf);
    tags = leaf_tags(leaf);
    heap = leaf_heap(leaf);
    memmove(heap + start + size, old_heap + start, old.heap_size - start);
    memmove(heap, old_heap, start);
    memmove(tags + slot + 1, old_tags + slot, count - slot);
    memmove(tags, old_tags, slot);
    for (size_t i = count; i > slot; i--)
        starts[i] = (uint16_t)(old_starts[i - 1] + size);
    memmove(starts, old_starts, slot * sizeof(starts[0]));
    memmove(leaf_scores(leaf) + slot + 1, leaf_scores(leaf) + slot, (count - slot) * sizeof(double));

    leaf_scores(leaf)[slot] = score;
    tags[slot] = tag;
    starts[slot] = (uint16_t)start;
    if (member.size > MEMBER_INLINE_MAX) {
        struct far *far = mem_alloc(sizeof(*far) + member.size);

        far->size = member.size;
        memcpy(far->bytes, member.data, member.size);
        memcpy(heap + start, &far, FAR_SIZE);
        starts[slot] |= START_FAR;
    } else if (size > 0) {
        memcpy(heap + start, member.data, size);
    }
}

/* The reverse: from the first to the last, each towards the start. */
void leaf_cut(struct leaf **leaf_slot, size_t from, size_t to, enum leaf_cut cut)
{
    struct leaf *leaf = *leaf_slot;
    size_t count = leaf->count, heap_size = leaf->heap_size, gone = to - from;
    uint16_t *old_starts = leaf_starts(leaf), *starts;
    uint8_t *old_tags = leaf_tags(leaf), *tags;
    char *old_heap = leaf_heap(leaf), *heap;
    size_t start, end;

    if (gone == 0)
        return;
    if (cut == LEAF_CUT_FREE)
        free_far(leaf, from, to);
    start = old_starts[from] & ~START_FAR;
    end = to < count ? old_starts[to] & ~START_FAR : heap_size;
    leaf->count = (uint16_t)(count - gone);
    leaf->heap_size = (uint16_t)(heap_size - (end - start));
    starts = leaf_starts(leaf);
    tags = leaf_tags(leaf);
    heap = leaf_heap(leaf);
    memmove(leaf_scores(leaf) + from, leaf_scores(leaf) + to, (count - to) * sizeof(double));
    memmove(starts, old_starts, from * sizeof(starts[0]));
    for (size_t i = to; i < count; i++)
        starts[i - gone] = (uint16_t)(old_starts[i] - (end - start));
    memmove(tags, old_tags, from);
    memmove(tags + from, old_tags + to, count - to);
    memmove(heap, old_heap, start);
    memmove(heap + start, old_heap + end, heap_size - end);
    resize_block(leaf_slot, leaf_size(leaf));
}

void leaf_append(struct leaf **left_slot, const struct leaf *right, size_t from)
{
    const struct leaf *left = *left_slot;
    size_t more = right->count - from, more_heap, start;
    struct leaf *both;

    if (more == 0)
        return;
    start = leaf_starts(right)[from] & ~START_FAR;
    more_heap = right->heap_size - start;
    both = mem_alloc(leaf_size(left) + more * ELEMENT_SIZE + more_heap);
    *both = *left;
    both->count = (uint16_t)(left->count + more);
    both->heap_size = (uint16_t)(left->heap_size + more_heap);
    both->capacity = (uint16_t)mem_size(both);
    memcpy(leaf_scores(both), leaf_scores(left), left->count * sizeof(double));
    memcpy(leaf_scores(both) + left->count, leaf_scores(right) + from, more * sizeof(double));
    memcpy(leaf_starts(both), leaf_starts(left), left->count * sizeof(uint16_t));
    for (size_t i = 0; i < more; i++)
        leaf_starts(both)[left->count + i] = (uint16_t)(leaf_starts(right)[from + i] + left->heap_size - start);
    memcpy(leaf_tags(both), leaf_tags(left), left->count);
    memcpy(leaf_tags(both) + left->count, leaf_tags(right) + from, more);
    memcpy(leaf_heap(both), leaf_heap(left), left->heap_size);
    memcpy(leaf_heap(both) + left->heap_size, leaf_heap(right) + start, more_heap);
    mem_free(*left_slot);
    *left_slot = both;
}

size_t leaf_middle(const struct leaf *leaf)
{
    size_t half = ((size_t)leaf->count * ELEMENT_SIZE + leaf->heap_size) / 2, slot = 1;

    CHECK(leaf->count >= 2);
    while (slot + 1u < leaf->count && slot * ELEMENT_SIZE + (leaf_starts(leaf)[slot] & ~START_FAR) < half)
        slot++;
    return slot;
}

size_t leaf_memory(const struct leaf *leaf)
{
    size_t size = mem_size(leaf);

    for (size_t i = 0; i < leaf->count; i++) {
        uint16_t start = leaf_starts(leaf)[i];

        if (start & START_FAR)
            size += mem_size(far_at(leaf_heap(leaf) + (start & ~START_FAR)));
    }
    return size;
}
