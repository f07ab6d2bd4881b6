/* Btree, private: the nodes. The design is described in btree.h.
 *
 *   inner = parent id u32 | count u16 | capacity u16 | first score f64 x capacity | child id u32 x capacity
 *         | elements below u32 x capacity
 *   leaf  = parent, previous, next id u32 | count, capacity, heap size u16 | score f64 x count | start u16 x count
 *         | tag u8 x count | heap
 *   heap  = the members, one after the other. A member over MEMBER_INLINE_MAX is a pointer to `size u64 | bytes`, and
 *           its start has START_FAR set.
 *   tag   = the top 8 bits of the member's hash
 */
#ifndef KELVIN_CONTAINERS_BTREE_PRIVATE_H
#define KELVIN_CONTAINERS_BTREE_PRIVATE_H

#include "containers/btree.h"
#include "containers/buckets.h"

enum {
    LEAF_SIZE_MAX = 2560,           /* a size class of the allocator */
    LEAF_MERGE_BELOW = LEAF_SIZE_MAX / 4,
    LEAF_MERGED_MAX = LEAF_SIZE_MAX / 4 * 3,
    MEMBER_INLINE_MAX = 255,
    START_FAR = 1 << 15,
    TAG_SHIFT = 56,

    INNER_COUNT_MAX = 63,           /* 1024 bytes */
    INNER_COUNT_FIRST = 3,
    INNER_MERGE_BELOW = 16,
    INNER_MERGED_MAX = 48,

    NODES_SHIFT = 9,                /* ids per segment of the table of nodes */
    NODES_SEGMENT = 1 << NODES_SHIFT,
    NODES_FIRST = 4,                /* initial size of the first segment */
    NODE_ID_MAX = (1 << 24) - 1,
};

struct leaf {
    uint32_t parent, previous, next;        /* 0: none */
    uint16_t count, capacity, heap_size;
    uint16_t unused[3];                     /* aligns the scores to eight bytes */
};

struct inner {
    uint32_t parent;
    uint16_t count, capacity;
};

/* Nodes by id. Id 0 is no node: its slot is the head of the list of unused ids, each of which contains the next one. */
struct nodes {
    void ***segments;
    uint32_t segment_count, capacity, used;     /* ids: allocated, and used so far */
    uint32_t live;
};

struct index {
    struct buckets buckets;
    size_t count;
};

struct btree {
    struct hash_seed seed;
    struct nodes nodes;
    struct index index;
    size_t count, size;             /* elements, and bytes of their members and scores */
    uint32_t root, first, last;     /* first and last: of the leaves */
    uint32_t height;                /* 0: the root is a leaf */
};

/* Bytes that an element takes in addition to its member. */
enum { ELEMENT_SIZE = sizeof(double) + sizeof(uint16_t) + 1 };

/* Nodes (btree_nodes.c) */
void nodes_init(struct nodes *nodes);
void nodes_release(struct nodes *nodes);                    /* the table, not the nodes */
void nodes_copy(struct nodes *to, const struct nodes *from);    /* the table; it refers to the same nodes */
uint32_t nodes_add(struct nodes *nodes, void *node);
void nodes_remove(struct nodes *nodes, uint32_t id);        /* frees the id; the caller frees the node */
size_t nodes_memory(const struct nodes *nodes);             /* of the table, without nodes */

static inline void **nodes_slot(const struct nodes *nodes, uint32_t id)
{
    return &nodes->segments[id >> NODES_SHIFT][id & (NODES_SEGMENT - 1)];
}

static inline struct leaf *leaf_at(const struct btree *tree, uint32_t id)
{
    return *nodes_slot(&tree->nodes, id);
}

static inline struct inner *inner_at(const struct btree *tree, uint32_t id)
{
    return *nodes_slot(&tree->nodes, id);
}

/* Leaves (btree_leaf.c): the bytes of a leaf, without regard to the tree */
static inline double *leaf_scores(const struct leaf *leaf)
{
    return (double *)(leaf + 1);
}

static inline uint16_t *leaf_starts(const struct leaf *leaf)
{
    return (uint16_t *)(leaf_scores(leaf) + leaf->count);
}

static inline uint8_t *leaf_tags(const struct leaf *leaf)
{
    return (uint8_t *)(leaf_starts(leaf) + leaf->count);
}

static inline char *leaf_heap(const struct leaf *leaf)
{
    return (char *)leaf_tags(leaf) + leaf->count;
}

static inline size_t leaf_size(const struct leaf *leaf)
{
    return sizeof(*leaf) + (size_t)leaf->count * ELEMENT_SIZE + leaf->heap_size;
}

struct leaf *leaf_create(void);
/* Frees its far members, too. */
void leaf_destroy(struct leaf *leaf);
struct leaf *leaf_copy(const struct leaf *leaf);
struct bytes leaf_member(const struct leaf *leaf, size_t slot);
/* Like memcmp: compares the element with (score, member). */
int leaf_compare(const struct leaf *leaf, size_t slot, double score, struct bytes member);
/* The total size of an element. */
size_t element_size(struct bytes member);
/* There must be room (element_size) below LEAF_SIZE_MAX. May move the leaf. */
void leaf_insert(struct leaf **leaf, size_t slot, double score, uint8_t tag, struct bytes member);
/* Removes the slots from `from` up to, but not including, `to`; may move the leaf. */
enum leaf_cut { LEAF_CUT_FREE, LEAF_CUT_KEEP };     /* what becomes of far members */
void leaf_cut(struct leaf **leaf, size_t from, size_t to, enum leaf_cut cut);
/* Appends the elements of `right` from slot `from` on to `left`, without freeing or changing `right`. */
void leaf_append(struct leaf **left, const struct leaf *right, size_t from);
/* The slot at which to split so that both parts have about the same size; 1 .. count - 1. */
size_t leaf_middle(const struct leaf *leaf);
size_t leaf_memory(const struct leaf *leaf);

/* Inner nodes (btree_inner.c) */
static inline double *inner_scores(const struct inner *inner)
{
    return (double *)(inner + 1);
}

static inline uint32_t *inner_children(const struct inner *inner)
{
    return (uint32_t *)(inner_scores(inner) + inner->capacity);
}

static inline uint32_t *inner_counts(const struct inner *inner)
{
    return inner_children(inner) + inner->capacity;
}

/* The index of a child. */
size_t inner_find(const struct inner *inner, uint32_t child);

enum leaf_side { LEAF_BEFORE, LEAF_AFTER };
/* Adds a leaf that has just been put into the table of nodes next to the leaf `beside`. */
void tree_link_leaf(struct btree *tree, uint32_t id, uint32_t beside, enum leaf_side side);
/* Updates the inner nodes: the leaf's count has changed by `change`, or its first score has changed. */
void tree_adjust(struct btree *tree, uint32_t leaf, int64_t change);
/* Removes an empty leaf from the tree and frees it, unless it is the root. */
void tree_drop_leaf(struct btree *tree, uint32_t id);
struct inner *inner_copy(const struct inner *inner);

/* The index (btree_index.c): from the hash of a member to its leaf. An element is in its leaf before it is added, and
 * still there when it is removed. */
void index_init(struct index *index);
void index_reserve(struct index *index, size_t count);      /* the index must be empty */
void index_release(struct index *index);
void index_copy(struct index *to, const struct index *from);
void index_add(struct btree *tree, uint64_t hash, uint32_t leaf);
void index_remove(struct btree *tree, uint64_t hash, uint32_t leaf);
/* All members of the leaf `to` from slot `from_slot` on have been moved there from the leaf `from`. */
void index_moved(struct btree *tree, uint32_t from, uint32_t to, size_t from_slot);
bool index_find(const struct btree *tree, uint64_t hash, struct bytes member, struct btree_place *place);
size_t index_memory(const struct index *index, size_t samples);
void index_verify(const struct btree *tree);

#endif
