/* Inner nodes: the order of the leaves and the number of elements below. All changes of the tree's shape are here. */
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "containers/btree_private.h"

static size_t inner_size(size_t capacity)
{
    return sizeof(struct inner) + capacity * (sizeof(double) + 2 * sizeof(uint32_t));
}

static struct inner *inner_create(size_t capacity)
{
    struct inner *inner = mem_zalloc(inner_size(capacity));

    inner->capacity = (uint16_t)capacity;
    return inner;
}

struct inner *inner_copy(const struct inner *inner)
{
    struct inner *copy = mem_alloc(inner_size(inner->capacity));

    memcpy(copy, inner, inner_size(inner->capacity));
    return copy;
}

size_t inner_find(const struct inner *inner, uint32_t child)
{
    const uint32_t *children = inner_children(inner);

    for (size_t i = 0; i < inner->count; i++) {
        if (children[i] == child)
            return i;
    }
    CHECK(!"a node is a child of its parent");
    return 0;
}

/* The part of a parent that describes a child. */
struct child {
    double score;
    uint32_t id, count;
};

static struct child child_get(const struct inner *inner, size_t index)
{
    return (struct child){ inner_scores(inner)[index], inner_children(inner)[index], inner_counts(inner)[index] };
}

static void child_set(struct inner *inner, size_t index, struct child child)
{
    inner_scores(inner)[index] = child.score;
    inner_children(inner)[index] = child.id;
    inner_counts(inner)[index] = child.count;
}

static void set_parent(struct btree *tree, uint32_t id, uint32_t parent)
{
    *(uint32_t *)*nodes_slot(&tree->nodes, id) = parent;        /* the first field of both kinds of node */
}

static uint32_t parent_of(const struct btree *tree, uint32_t id)
{
    return *(const uint32_t *)*nodes_slot(&tree->nodes, id);
}

/* Appends `count` children of `from`, from `index` on, to `to`. */
static void append_children(struct btree *tree, struct inner *to, uint32_t to_id, const struct inner *from, size_t index,
    size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct child child = child_get(from, index + i);

        child_set(to, to->count++, child);
        set_parent(tree, child.id, to_id);
    }
}

/* Reallocates the node's block; its id stays. */
static void resize_inner(struct btree *tree, uint32_t id, size_t capacity)
{
    struct inner *old = inner_at(tree, id), *inner = inner_create(capacity);

    inner->parent = old->parent;
    append_children(tree, inner, id, old, 0, old->count);
    *nodes_slot(&tree->nodes, id) = inner;
    mem_free(old);
}

static void close_gap(struct inner *inner, size_t index)
{
    inner->count--;
    for (size_t i = index; i < inner->count; i++)
        child_set(inner, i, child_get(inner, i + 1));
}

static struct child sum_of(const struct inner *inner, uint32_t id)
{
    struct child sum = { inner_scores(inner)[0], id, 0 };

    for (size_t i = 0; i < inner->count; i++)
        sum.count += inner_counts(inner)[i];
    return sum;
}

/* Adds a root above the root. */
static void add_root(struct btree *tree, struct child only)
{
    struct inner *inner = inner_create(INNER_COUNT_FIRST);

    tree->root = nodes_add(&tree->nodes, inner);
    tree->height++;
    CHECK(tree->height < 32);
    inner->count = 1;
    child_set(inner, 0, only);
    set_parent(tree, only.id, tree->root);
}

static void put_child(struct btree *tree, uint32_t id, size_t index, struct child child)
{
    struct inner *inner = inner_at(tree, id);

    for (size_t i = inner->count++; i > index; i--)
        child_set(inner, i, child_get(inner, i - 1));
    child_set(inner, index, child);
    set_parent(tree, child.id, id);
}

/* Moves the upper half of a full node to a new one. */
static uint32_t split_inner(struct btree *tree, uint32_t id)
{
    struct inner *inner = inner_at(tree, id), *right = inner_create(INNER_COUNT_MAX);
    uint32_t right_id = nodes_add(&tree->nodes, right);

    append_children(tree, right, right_id, inner, INNER_COUNT_MAX / 2, inner->count - INNER_COUNT_MAX / 2);
    inner->count = INNER_COUNT_MAX / 2;
    return right_id;
}

/* Inserts a child whose elements are already included in the counts above. A full node splits; the levels above are
 * updated when the child is in one of the halves, so the sums are right at every level. */
static void insert_child(struct btree *tree, uint32_t id, size_t index, struct child child)
{
    struct inner *inner = inner_at(tree, id), *parent;
    uint32_t right;

    if (inner->count == inner->capacity && inner->capacity < INNER_COUNT_MAX) {
        resize_inner(tree, id, (size_t)inner->capacity * 2 + 1);
        inner = inner_at(tree, id);
    }
    if (inner->count < inner->capacity) {
        put_child(tree, id, index, child);
        return;
    }
    right = split_inner(tree, id);
    if (index > inner->count)
        put_child(tree, right, index - inner->count, child);
    else
        put_child(tree, id, index, child);
    if (inner->parent == 0)
        add_root(tree, sum_of(inner, id));
    parent = inner_at(tree, inner->parent);
    index = inner_find(parent, id);
    child_set(parent, index, sum_of(inner, id));
    insert_child(tree, inner->parent, index + 1, sum_of(inner_at(tree, right), right));
}

void tree_link_leaf(struct btree *tree, uint32_t id, uint32_t beside, enum leaf_side side)
{
    struct leaf *leaf = leaf_at(tree, id), *neighbour = leaf_at(tree, beside);
    size_t index;

    leaf->previous = side == LEAF_AFTER ? beside : neighbour->previous;
    leaf->next = side == LEAF_AFTER ? neighbour->next : beside;
    if (leaf->previous != 0)
        leaf_at(tree, leaf->previous)->next = id;
    else
        tree->first = id;
    if (leaf->next != 0)
        leaf_at(tree, leaf->next)->previous = id;
    else
        tree->last = id;
    /* tree_adjust corrects the counts and scores of both. */
    if (neighbour->parent == 0)
        add_root(tree, (struct child){ leaf_scores(neighbour)[0], beside, (uint32_t)tree->count });
    index = inner_find(inner_at(tree, neighbour->parent), beside) + (side == LEAF_AFTER ? 1 : 0);
    insert_child(tree, neighbour->parent, index, (struct child){ leaf_scores(neighbour)[0], id, 0 });
}

void tree_adjust(struct btree *tree, uint32_t id, int64_t change)
{
    const struct leaf *leaf = leaf_at(tree, id);
    double score = leaf->count > 0 ? leaf_scores(leaf)[0] : 0;
    bool is_first = leaf->count > 0;

    for (uint32_t parent = leaf->parent; parent != 0; id = parent, parent = inner_at(tree, id)->parent) {
        struct inner *inner = inner_at(tree, parent);
        size_t index = inner_find(inner, id);

        inner_counts(inner)[index] = (uint32_t)(inner_counts(inner)[index] + change);
        if (is_first)
            inner_scores(inner)[index] = score;
        is_first = is_first && index == 0;
    }
}

/* The node's first child has a new first score: updates the nodes above. */
static void adjust_first(struct btree *tree, uint32_t id)
{
    double score = inner_scores(inner_at(tree, id))[0];

    for (uint32_t parent = parent_of(tree, id); parent != 0; id = parent, parent = parent_of(tree, id)) {
        struct inner *inner = inner_at(tree, parent);
        size_t index = inner_find(inner, id);

        inner_scores(inner)[index] = score;
        if (index > 0)
            return;
    }
}

static void drop_inner(struct btree *tree, uint32_t id)
{
    mem_free(inner_at(tree, id));
    nodes_remove(&tree->nodes, id);
}

static void remove_child(struct btree *tree, uint32_t id, size_t index);

/* Merges a node that has become small with a neighbour below the same parent, if both are small enough. */
static void merge_inner(struct btree *tree, uint32_t id)
{
    struct inner *inner = inner_at(tree, id), *parent = inner_at(tree, inner->parent), *left, *right;
    size_t index = inner_find(parent, id);
    uint32_t left_id, right_id;
    struct child joined;

    if (parent->count < 2)
        return;
    if (index + 1 == parent->count)
        index--;
    left_id = inner_children(parent)[index];
    right_id = inner_children(parent)[index + 1];
    left = inner_at(tree, left_id);
    right = inner_at(tree, right_id);
    if (left->count + right->count > INNER_MERGED_MAX)
        return;
    if (left->capacity < left->count + right->count) {
        resize_inner(tree, left_id, INNER_COUNT_MAX);
        left = inner_at(tree, left_id);
    }
    append_children(tree, left, left_id, right, 0, right->count);
    joined = child_get(parent, index);
    joined.count += inner_counts(parent)[index + 1];
    child_set(parent, index, joined);
    drop_inner(tree, right_id);
    remove_child(tree, left->parent, index + 1);
}

/* Removes a root with a single child. */
static void collapse_root(struct btree *tree)
{
    while (tree->height > 0 && inner_at(tree, tree->root)->count == 1) {
        uint32_t only = inner_children(inner_at(tree, tree->root))[0];

        drop_inner(tree, tree->root);
        tree->root = only;
        tree->height--;
        set_parent(tree, only, 0);
    }
}

/* The child has no elements below it any more. */
static void remove_child(struct btree *tree, uint32_t id, size_t index)
{
    struct inner *inner = inner_at(tree, id);

    close_gap(inner, index);
    if (inner->count == 0) {
        uint32_t parent = inner->parent;

        CHECK(parent != 0);
        index = inner_find(inner_at(tree, parent), id);
        drop_inner(tree, id);
        remove_child(tree, parent, index);
        return;
    }
    if (index == 0)
        adjust_first(tree, id);
    if (inner->capacity > INNER_COUNT_FIRST && inner->count <= inner->capacity / 4) {
        resize_inner(tree, id, inner->capacity / 2);
        inner = inner_at(tree, id);
    }
    if (inner->parent == 0)
        collapse_root(tree);
    else if (inner->count < INNER_MERGE_BELOW)
        merge_inner(tree, id);
}

void tree_drop_leaf(struct btree *tree, uint32_t id)
{
    struct leaf *leaf = leaf_at(tree, id);
    uint32_t parent = leaf->parent;
    size_t index;

    CHECK(leaf->count == 0);
    if (parent == 0)
        return;
    if (leaf->previous != 0)
        leaf_at(tree, leaf->previous)->next = leaf->next;
    else
        tree->first = leaf->next;
    if (leaf->next != 0)
        leaf_at(tree, leaf->next)->previous = leaf->previous;
    else
        tree->last = leaf->previous;
    index = inner_find(inner_at(tree, parent), id);
    leaf_destroy(leaf);
    nodes_remove(&tree->nodes, id);
    remove_child(tree, parent, index);
}
