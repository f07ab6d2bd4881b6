#include "containers/btree.h"

#include "base/check.h"
#include "base/mem.h"
#include "containers/btree_private.h"

/* The bound that an element is compared with. */
struct border {
    enum { BY_BOTH, BY_SCORE, BY_MEMBER } kind;
    double score;
    struct bytes member;
    enum btree_border side;
};

struct btree *btree_create(const struct hash_seed *seed)
{
    struct btree *tree = mem_zalloc(sizeof(*tree));

    tree->seed = *seed;
    nodes_init(&tree->nodes);
    index_init(&tree->index);
    tree->root = tree->first = tree->last = nodes_add(&tree->nodes, leaf_create());
    return tree;
}

void btree_reserve(struct btree *tree, size_t count)
{
    index_reserve(&tree->index, count);
}

static void destroy_below(struct btree *tree, uint32_t id, uint32_t height)
{
    struct inner *inner;

    if (height == 0) {
        leaf_destroy(leaf_at(tree, id));
        return;
    }
    inner = inner_at(tree, id);
    for (size_t i = 0; i < inner->count; i++)
        destroy_below(tree, inner_children(inner)[i], height - 1);
    mem_free(inner);
}

void btree_destroy(struct btree *tree)
{
    if (tree == NULL)
        return;
    destroy_below(tree, tree->root, tree->height);
    nodes_release(&tree->nodes);
    index_release(&tree->index);
    mem_free(tree);
}

/* Nodes keep their ids, so references to them remain valid. */
static void copy_below(struct btree *copy, const struct btree *tree, uint32_t id, uint32_t height)
{
    const struct inner *inner;

    if (height == 0) {
        *nodes_slot(&copy->nodes, id) = leaf_copy(leaf_at(tree, id));
        return;
    }
    inner = inner_at(tree, id);
    *nodes_slot(&copy->nodes, id) = inner_copy(inner);
    for (size_t i = 0; i < inner->count; i++)
        copy_below(copy, tree, inner_children(inner)[i], height - 1);
}

struct btree *btree_copy(const struct btree *tree)
{
    struct btree *copy = mem_alloc(sizeof(*copy));

    *copy = *tree;
    nodes_copy(&copy->nodes, &tree->nodes);
    index_copy(&copy->index, &tree->index);
    copy_below(copy, tree, tree->root, tree->height);
    return copy;
}

size_t btree_count(const struct btree *tree)
{
    return tree->count;
}

size_t btree_size(const struct btree *tree)
{
    return tree->size;
}

size_t btree_blocks(const struct btree *tree)
{
    return tree->nodes.live + (tree->index.buckets.count >> BUCKETS_SEGMENT_SHIFT) + 1;
}

/* Finding places */

static bool is_below(const struct border *border, int order)
{
    return order < 0 || (order == 0 && border->side == BTREE_NOT_ABOVE);
}

static int order_of_score(double own, double score)
{
    return own < score ? -1 : own > score;
}

static bool element_is_below(const struct leaf *leaf, size_t slot, const struct border *border)
{
    switch (border->kind) {
    case BY_SCORE: return is_below(border, order_of_score(leaf_scores(leaf)[slot], border->score));
    case BY_MEMBER: return is_below(border, bytes_compare(leaf_member(leaf, slot), border->member));
    case BY_BOTH: break;
    }
    return is_below(border, leaf_compare(leaf, slot, border->score, border->member));
}

/* True if the first element below a child is below the border. The parent knows its score; the leaf is read only if
 * that does not decide. */
static bool child_is_below(const struct btree *tree, const struct inner *inner, size_t index, uint32_t height,
    const struct border *border)
{
    uint32_t id = inner_children(inner)[index];

    if (border->kind != BY_MEMBER) {
        int order = order_of_score(inner_scores(inner)[index], border->score);

        if (order != 0 || border->kind == BY_SCORE)
            return is_below(border, order);
    }
    for (; height > 1; height--)
        id = inner_children(inner_at(tree, id))[0];
    return element_is_below(leaf_at(tree, id), 0, border);
}

/* The number of elements below the border. The place is after the last of them, in its leaf: the slot may be the leaf's
 * count. */
static size_t seek_border(const struct btree *tree, const struct border *border, struct btree_place *place)
{
    uint32_t id = tree->root;
    size_t rank = 0, low, high;
    const struct leaf *leaf;

    for (uint32_t height = tree->height; height > 0; height--) {
        const struct inner *inner = inner_at(tree, id);

        /* The children 0 .. low - 1 begin below the border, those from high on do not. The first child is taken in any
         * case. */
        for (low = 1, high = inner->count; low < high;) {
            size_t middle = (low + high) / 2;

            if (child_is_below(tree, inner, middle, height, border))
                low = middle + 1;
            else
                high = middle;
        }
        for (size_t i = 0; i + 1 < low; i++)
            rank += inner_counts(inner)[i];
        id = inner_children(inner)[low - 1];
    }
    leaf = leaf_at(tree, id);
    for (low = 0, high = leaf->count; low < high;) {
        size_t middle = (low + high) / 2;

        if (element_is_below(leaf, middle, border))
            low = middle + 1;
        else
            high = middle;
    }
    *place = (struct btree_place){ id, (uint32_t)low };
    return rank + low;
}

size_t btree_count_by_score(const struct btree *tree, double score, enum btree_border side)
{
    struct border border = { .kind = BY_SCORE, .score = score, .side = side };
    struct btree_place place;

    return seek_border(tree, &border, &place);
}

size_t btree_count_by_member(const struct btree *tree, struct bytes member, enum btree_border side)
{
    struct border border = { .kind = BY_MEMBER, .member = member, .side = side };
    struct btree_place place;

    return seek_border(tree, &border, &place);
}

bool btree_find(const struct btree *tree, struct bytes member, struct btree_place *place)
{
    return index_find(tree, hash_bytes(&tree->seed, member), member, place);
}

double btree_get(const struct btree *tree, struct btree_place place, struct bytes *member)
{
    const struct leaf *leaf = leaf_at(tree, place.leaf);

    if (member != NULL)
        *member = leaf_member(leaf, place.slot);
    return leaf_scores(leaf)[place.slot];
}

size_t btree_rank(const struct btree *tree, struct btree_place place)
{
    size_t rank = place.slot;
    uint32_t id = place.leaf;

    for (uint32_t parent = leaf_at(tree, id)->parent; parent != 0; id = parent, parent = inner_at(tree, id)->parent) {
        const struct inner *inner = inner_at(tree, parent);

        for (size_t i = inner_find(inner, id); i-- > 0;)
            rank += inner_counts(inner)[i];
    }
    return rank;
}

bool btree_seek_rank(const struct btree *tree, size_t rank, struct btree_place *place)
{
    uint32_t id = tree->root;

    if (rank >= tree->count)
        return false;
    for (uint32_t height = tree->height; height > 0; height--) {
        const struct inner *inner = inner_at(tree, id);
        size_t index = 0;

        while (rank >= inner_counts(inner)[index])
            rank -= inner_counts(inner)[index++];
        id = inner_children(inner)[index];
    }
    *place = (struct btree_place){ id, (uint32_t)rank };
    return true;
}

bool btree_next(const struct btree *tree, struct btree_place *place)
{
    const struct leaf *leaf = leaf_at(tree, place->leaf);

    if (place->slot + 1 < leaf->count) {
        place->slot++;
        return true;
    }
    if (leaf->next == 0)
        return false;
    *place = (struct btree_place){ leaf->next, 0 };
    /* The leaf after it will be needed next; only its address is known now. */
    leaf = leaf_at(tree, leaf->next);
    if (leaf->next != 0)
        __builtin_prefetch(leaf_at(tree, leaf->next));
    return true;
}

bool btree_previous(const struct btree *tree, struct btree_place *place)
{
    const struct leaf *leaf = leaf_at(tree, place->leaf);

    if (place->slot > 0) {
        place->slot--;
        return true;
    }
    if (leaf->previous == 0)
        return false;
    *place = (struct btree_place){ leaf->previous, leaf_at(tree, leaf->previous)->count - 1u };
    return true;
}

/* Changes */

static struct leaf **leaf_slot(struct btree *tree, uint32_t id)
{
    return (struct leaf **)nodes_slot(&tree->nodes, id);
}

static uint32_t add_leaf(struct btree *tree, uint32_t beside, enum leaf_side side)
{
    uint32_t id = nodes_add(&tree->nodes, leaf_create());

    tree_link_leaf(tree, id, beside, side);
    return id;
}

/* Moves `count` elements from `from_slot` on, which are the last ones of `from`, to the end of the leaf `to`. */
static void move_elements(struct btree *tree, uint32_t from, size_t from_slot, uint32_t to)
{
    size_t count = leaf_at(tree, from)->count - from_slot, to_slot = leaf_at(tree, to)->count;

    leaf_append(leaf_slot(tree, to), leaf_at(tree, from), from_slot);
    leaf_cut(leaf_slot(tree, from), from_slot, from_slot + count, LEAF_CUT_KEEP);
    tree_adjust(tree, from, -(int64_t)count);
    tree_adjust(tree, to, (int64_t)count);
    index_moved(tree, from, to, to_slot);
}

/* Makes room in a full leaf and updates the place. At either end of the tree the leaf gets an empty neighbour instead
 * of being divided, so that members added in order leave full leaves. */
static void split_leaf(struct btree *tree, struct btree_place *place)
{
    const struct leaf *leaf = leaf_at(tree, place->leaf);
    size_t middle;
    uint32_t right;

    if (place->slot == leaf->count && leaf->next == 0) {
        *place = (struct btree_place){ add_leaf(tree, place->leaf, LEAF_AFTER), 0 };
        return;
    }
    if (place->slot == 0 && leaf->previous == 0) {
        *place = (struct btree_place){ add_leaf(tree, place->leaf, LEAF_BEFORE), 0 };
        return;
    }
    middle = leaf_middle(leaf);
    right = add_leaf(tree, place->leaf, LEAF_AFTER);
    move_elements(tree, place->leaf, middle, right);
    if (place->slot > middle)
        *place = (struct btree_place){ right, place->slot - (uint32_t)middle };
}

static void insert_new(struct btree *tree, uint64_t hash, struct bytes member, double score)
{
    struct border border = { .kind = BY_BOTH, .score = score, .member = member, .side = BTREE_BELOW };
    struct btree_place place;

    seek_border(tree, &border, &place);
    if (leaf_size(leaf_at(tree, place.leaf)) + element_size(member) > LEAF_SIZE_MAX)
        split_leaf(tree, &place);
    leaf_insert(leaf_slot(tree, place.leaf), place.slot, score, (uint8_t)(hash >> TAG_SHIFT), member);
    tree->count++;
    tree->size += member.size + sizeof(score);
    tree_adjust(tree, place.leaf, 1);
    index_add(tree, hash, place.leaf);
}

/* A leaf that has lost elements is removed if it is empty, or merged with a neighbour if both are small. */
static void shrink_leaf(struct btree *tree, uint32_t id)
{
    const struct leaf *leaf = leaf_at(tree, id);
    uint32_t left = id, right = leaf->next;

    if (leaf->count == 0) {
        tree_drop_leaf(tree, id);
        return;
    }
    if (leaf_size(leaf) >= LEAF_MERGE_BELOW || tree->height == 0)
        return;
    if (right == 0) {
        left = leaf->previous;
        right = id;
    }
    if (leaf_size(leaf_at(tree, left)) + leaf_size(leaf_at(tree, right)) > LEAF_MERGED_MAX)
        return;
    move_elements(tree, right, 0, left);
    tree_drop_leaf(tree, right);
}

static void remove_place(struct btree *tree, struct btree_place place, uint64_t hash)
{
    index_remove(tree, hash, place.leaf);
    tree->size -= leaf_member(leaf_at(tree, place.leaf), place.slot).size + sizeof(double);
    leaf_cut(leaf_slot(tree, place.leaf), place.slot, place.slot + 1, LEAF_CUT_FREE);
    tree->count--;
    tree_adjust(tree, place.leaf, -1);
    shrink_leaf(tree, place.leaf);
}

/* True if the element keeps its position with another score. False also if only another leaf could tell. */
static bool keeps_position(const struct btree *tree, struct btree_place place, double score, struct bytes member)
{
    const struct leaf *leaf = leaf_at(tree, place.leaf);
    bool above_lower = place.slot > 0 ? leaf_compare(leaf, place.slot - 1, score, member) < 0 : leaf->previous == 0;
    bool below_upper = place.slot + 1 < leaf->count ? leaf_compare(leaf, place.slot + 1, score, member) > 0 : leaf->next == 0;

    return above_lower && below_upper;
}

void btree_insert(struct btree *tree, struct bytes member, double score)
{
    CHECK(score == score);
    insert_new(tree, hash_bytes(&tree->seed, member), member, score);
}

bool btree_put(struct btree *tree, struct bytes member, double score)
{
    uint64_t hash = hash_bytes(&tree->seed, member);
    struct btree_place place;

    CHECK(score == score);
    if (!index_find(tree, hash, member, &place)) {
        insert_new(tree, hash, member, score);
        return true;
    }
    if (keeps_position(tree, place, score, member)) {
        leaf_scores(leaf_at(tree, place.leaf))[place.slot] = score;
        if (place.slot == 0)
            tree_adjust(tree, place.leaf, 0);
    } else {
        remove_place(tree, place, hash);
        insert_new(tree, hash, member, score);
    }
    return false;
}

bool btree_remove(struct btree *tree, struct bytes member)
{
    uint64_t hash = hash_bytes(&tree->seed, member);
    struct btree_place place;

    if (!index_find(tree, hash, member, &place))
        return false;
    remove_place(tree, place, hash);
    return true;
}

void btree_remove_ranks(struct btree *tree, size_t first, size_t count)
{
    struct btree_place place;

    CHECK(first <= tree->count && count <= tree->count - first);
    /* One leaf at a time: its elements are removed from the index, then from the leaf at once. */
    for (bool found = btree_seek_rank(tree, first, &place); found && count > 0;) {
        const struct leaf *leaf = leaf_at(tree, place.leaf);
        size_t gone = leaf->count - place.slot < count ? leaf->count - place.slot : count;
        uint32_t next = leaf->next;

        for (size_t i = 0; i < gone; i++) {
            struct bytes member = leaf_member(leaf, place.slot + i);

            index_remove(tree, hash_bytes(&tree->seed, member), place.leaf);
            tree->size -= member.size + sizeof(double);
        }
        leaf_cut(leaf_slot(tree, place.leaf), place.slot, place.slot + gone, LEAF_CUT_FREE);
        tree->count -= gone;
        tree_adjust(tree, place.leaf, -(int64_t)gone);
        if (leaf_at(tree, place.leaf)->count == 0)
            tree_drop_leaf(tree, place.leaf);
        count -= gone;
        place = (struct btree_place){ next, 0 };
    }
    /* The leaves on both sides of the gap may be small now. */
    if (first > 0 && btree_seek_rank(tree, first - 1, &place))
        shrink_leaf(tree, place.leaf);
    if (btree_seek_rank(tree, first, &place))
        shrink_leaf(tree, place.leaf);
}

/* The whole tree */

struct memory {
    size_t leaves_max, leaves_seen, leaves, leaf_size, inner_size;
};

static void measure_node(const struct btree *tree, uint32_t id, uint32_t height, struct memory *memory)
{
    const struct inner *inner;

    if (height == 0) {
        memory->leaves++;
        if (memory->leaves_seen < memory->leaves_max) {
            memory->leaf_size += leaf_memory(leaf_at(tree, id));
            memory->leaves_seen++;
        }
        return;
    }
    inner = inner_at(tree, id);
    memory->inner_size += mem_size(inner);
    if (height == 1 && memory->leaves_seen >= memory->leaves_max) {
        memory->leaves += inner->count;
        return;
    }
    for (size_t i = 0; i < inner->count; i++)
        measure_node(tree, inner_children(inner)[i], height - 1, memory);
}

size_t btree_memory(const struct btree *tree, size_t samples)
{
    struct memory memory = { .leaves_max = samples == 0 ? SIZE_MAX : samples };

    measure_node(tree, tree->root, tree->height, &memory);
    return mem_size(tree) + nodes_memory(&tree->nodes) + index_memory(&tree->index, samples) + memory.inner_size +
        (size_t)((double)memory.leaf_size / (double)memory.leaves_seen * (double)memory.leaves);
}

struct verified {
    uint32_t last_leaf;
    size_t count, nodes;
};

static void verify_leaf(const struct btree *tree, uint32_t id, uint32_t parent, struct verified *verified)
{
    const struct leaf *leaf = leaf_at(tree, id);

    CHECK(leaf->parent == parent && leaf->previous == verified->last_leaf);
    CHECK(leaf_size(leaf) <= leaf->capacity && leaf->capacity <= LEAF_SIZE_MAX);
    CHECK(leaf->count > 0 || id == tree->root);
    if (verified->last_leaf != 0) {
        const struct leaf *last = leaf_at(tree, verified->last_leaf);

        CHECK(last->next == id);
        CHECK(leaf_compare(last, last->count - 1u, leaf_scores(leaf)[0], leaf_member(leaf, 0)) < 0);
    }
    for (size_t i = 0; i < leaf->count; i++) {
        struct btree_place place;

        CHECK(i == 0 || leaf_compare(leaf, i - 1, leaf_scores(leaf)[i], leaf_member(leaf, i)) < 0);
        CHECK(leaf_tags(leaf)[i] == hash_bytes(&tree->seed, leaf_member(leaf, i)) >> TAG_SHIFT);
        CHECK(btree_find(tree, leaf_member(leaf, i), &place) && place.leaf == id && place.slot == i);
    }
    verified->last_leaf = id;
    verified->count += leaf->count;
}

static void verify_below(const struct btree *tree, uint32_t id, uint32_t parent, uint32_t height, struct verified *verified)
{
    const struct inner *inner;

    verified->nodes++;
    if (height == 0) {
        verify_leaf(tree, id, parent, verified);
        return;
    }
    inner = inner_at(tree, id);
    CHECK(inner->parent == parent && inner->count > 0 && inner->count <= inner->capacity);
    CHECK(id != tree->root || inner->count > 1);
    for (size_t i = 0; i < inner->count; i++) {
        size_t before = verified->count;
        uint32_t first = inner_children(inner)[i];

        verify_below(tree, first, id, height - 1, verified);
        CHECK(verified->count - before == inner_counts(inner)[i]);
        for (uint32_t below = height; below > 1; below--)
            first = inner_children(inner_at(tree, first))[0];
        CHECK(inner_scores(inner)[i] == leaf_scores(leaf_at(tree, first))[0]);
    }
}

void btree_verify(const struct btree *tree)
{
    struct verified verified = { 0 };
    uint32_t first = tree->root;

    verify_below(tree, tree->root, 0, tree->height, &verified);
    CHECK(verified.count == tree->count && verified.nodes == tree->nodes.live);
    CHECK(verified.last_leaf == tree->last && leaf_at(tree, tree->last)->next == 0);
    for (uint32_t below = tree->height; below > 0; below--)
        first = inner_children(inner_at(tree, first))[0];
    CHECK(first == tree->first);
    index_verify(tree);
}
