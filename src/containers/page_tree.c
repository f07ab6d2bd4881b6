/* Finding, walking, and what that needs. page_tree_change.c changes the tree, page_tree_bytes.c reads and writes roots. */
#include "containers/page_tree.h"

#include <string.h>

#include "base/compiler.h"
#include "containers/page_tree_private.h"

/* --- finding --- */

enum pick { PICK_FIRST, PICK_LAST, PICK_RANK, PICK_KEY };

struct wanted {
    enum pick pick;
    uint64_t rank;
    struct bytes key;
};

/* The first eight bytes as a number, the highest first; those that are not there are 0. The number says which of two is less, unless it is the same. `readable`: bytes
 * that may be read, `bytes.size` at least. */
static inline uint64_t head_of(struct bytes bytes, size_t readable)
{
    uint64_t head = 0;

    if (LIKELY(readable >= sizeof(head))) {
        memcpy(&head, bytes.data, sizeof(head));
        head = __builtin_bswap64(head);
        return bytes.size >= sizeof(head) ? head : head & ~(UINT64_MAX >> bytes.size * 8);
    }
    if (bytes.size > 0)
        memcpy(&head, bytes.data, bytes.size < sizeof(head) ? bytes.size : sizeof(head));
    return __builtin_bswap64(head);
}

/* A node is walked by one load for where the next child is and one or two more for what is compared: that is most of the time of a search. */
static inline size_t next_child(struct bytes node, size_t at)
{
    uint16_t size;
    size_t next;

    CHECK(node.size - at >= CHILD_SEPARATOR_AT);
    memcpy(&size, node.data + at + CHILD_SEPARATOR_AT - sizeof(size), sizeof(size));
    next = at + CHILD_SEPARATOR_AT + size;
    CHECK(next <= node.size);
    return next;
}

/* As pick_child for a key; from the child at `picked` on, to which it is not below, and before which are `*rank` elements. */
static size_t pick_by_key(struct bytes node, struct bytes key, size_t picked, uint64_t *rank)
{
    uint64_t key_head = head_of(key, key.size), before = *rank;
    size_t next = next_child(node, picked);

    for (size_t at = next; at < node.size; at = next) {
        struct bytes separator;
        uint64_t head;

        before += child_count(node, picked);
        next = next_child(node, at);
        separator = bytes_of(node.data + at + CHILD_SEPARATOR_AT, next - at - CHILD_SEPARATOR_AT);
        head = head_of(separator, node.size - at - CHILD_SEPARATOR_AT);
        if (head > key_head || (UNLIKELY(head == key_head) && bytes_compare(separator, key) > 0))
            break;
        picked = at;
        *rank = before;
    }
    return picked;
}

/* As pick_child for a rank. */
static size_t pick_by_rank(struct bytes node, uint64_t wanted, uint64_t *rank)
{
    uint64_t before = *rank;
    size_t picked = 0;

    for (size_t next = next_child(node, 0); next < node.size; next = next_child(node, next)) {
        before += child_count(node, picked);
        if (before > wanted)
            break;
        picked = next;
        *rank = before;
    }
    return picked;
}

/* As pick_child for the last one. */
static size_t pick_end(struct bytes node, uint64_t *rank)
{
    size_t picked = 0;

    for (size_t next = next_child(node, 0); next < node.size; next = next_child(node, next)) {
        *rank += child_count(node, picked);
        picked = next;
    }
    return picked;
}

/* As pick_child for the last one, where all have the same size but perhaps the first; the node has `count` elements. */
static size_t pick_last(struct bytes node, size_t child_size, uint64_t count, uint64_t *rank)
{
    size_t at = node.size > child_size ? node.size - child_size : 0;
    struct child child = child_at(node, at);

    CHECK(at + child.size == node.size && child.count <= count);
    *rank += count - child.count;
    return at;
}

/* Where the child is: the last one that is wanted, or the first one. `*rank`: the number of elements before the node, then before the child. */
static size_t pick_child(struct bytes node, const struct wanted *wanted, uint64_t *rank)
{
    switch (wanted->pick) {
    case PICK_FIRST: return 0;
    case PICK_LAST: return pick_end(node, rank);
    case PICK_RANK: return pick_by_rank(node, wanted->rank, rank);
    case PICK_KEY: return pick_by_key(node, wanted->key, 0, rank);
    }
    return 0;
}

/* Goes on to the child at path->steps[level].at, whose elements are counted in path->rank. */
static void take_child(const struct page_tree *tree, struct page_tree_path *path, unsigned level, struct bytes node)
{
    struct child child = child_at(node, path->steps[level].at);

    path->leaf = child.page;
    path->count = child.count;
    if (level < tree->root->height)
        path->steps[level + 1].node = child.page;
}

/* From the node at the level on, which has `count` elements; before it there are path->rank. */
static enum page_tree_answer descend(const struct page_tree *tree, const struct wanted *wanted, unsigned level, uint64_t count, struct page_tree_path *path)
{
    size_t child_size = wanted->pick == PICK_LAST ? tree->limits.child_size : 0;

    for (;; level++) {
        struct bytes node = page_tree_node(tree, path, level);

        if (node.data == NULL) {
            path->missing = path->steps[level].node;
            return PAGE_TREE_MISSING;
        }
        path->steps[level].at = (uint32_t)(child_size > 0 ? pick_last(node, child_size, count, &path->rank) : pick_child(node, wanted, &path->rank));
        take_child(tree, path, level, node);
        count = path->count;
        if (level == tree->root->height)
            return PAGE_TREE_YES;
    }
}

static enum page_tree_answer seek(const struct page_tree *tree, struct wanted wanted, struct page_tree_path *path)
{
    path->rank = 0;
    return tree->root->leaves == 0 ? PAGE_TREE_NO : descend(tree, &wanted, 0, tree->root->count, path);
}

enum page_tree_answer page_tree_seek_rank(const struct page_tree *tree, uint64_t rank, struct page_tree_path *path)
{
    return rank >= tree->root->count ? PAGE_TREE_NO : seek(tree, (struct wanted){ .pick = PICK_RANK, .rank = rank }, path);
}

enum page_tree_answer page_tree_seek(const struct page_tree *tree, struct bytes key, struct page_tree_path *path)
{
    return seek(tree, (struct wanted){ .pick = PICK_KEY, .key = key }, path);
}

static void fetch_children(const struct page_tree *tree, const struct page_tree_path *low, const struct page_tree_path *high, bool are_leaves)
{
    struct pager *pager = tree->pager;

    for (enum pager_part part = PAGER_PLACE; part <= (are_leaves ? PAGER_REST : PAGER_BEGIN); part++) {
        pager->fetch(pager, low->leaf, part);
        if (high->leaf != low->leaf)
            pager->fetch(pager, high->leaf, part);
    }
}

bool page_tree_seek_both(const struct page_tree *tree, struct bytes low_key, struct bytes high_key, struct page_tree_path *low, struct page_tree_path *high)
{
    if (tree->root->leaves == 0)
        return false;
    low->rank = high->rank = 0;
    low->leaf = high->leaf = 0;
    for (unsigned level = 0; level <= tree->root->height; level++) {
        struct bytes low_node = page_tree_node(tree, low, level), high_node = high->leaf == low->leaf ? low_node : page_tree_node(tree, high, level);
        bool is_same = high->leaf == low->leaf;

        if (low_node.data == NULL || high_node.data == NULL)
            return false;
        low->steps[level].at = (uint32_t)pick_by_key(low_node, low_key, 0, &low->rank);
        if (is_same)
            high->rank = low->rank;
        high->steps[level].at = (uint32_t)pick_by_key(high_node, high_key, is_same ? low->steps[level].at : 0, &high->rank);
        take_child(tree, low, level, low_node);
        take_child(tree, high, level, high_node);
        if (tree->pager->fetch != NULL)
            fetch_children(tree, low, high, level == tree->root->height);
    }
    return true;
}

enum page_tree_answer page_tree_first(const struct page_tree *tree, struct page_tree_path *path)
{
    return seek(tree, (struct wanted){ .pick = PICK_FIRST }, path);
}

enum page_tree_answer page_tree_last(const struct page_tree *tree, struct page_tree_path *path)
{
    return seek(tree, (struct wanted){ .pick = PICK_LAST }, path);
}

void page_tree_use(const struct page_tree *tree, const struct page_tree_path *path)
{
    size_t size;

    for (unsigned level = 1; level <= tree->root->height; level++)
        (void)page_tree_node(tree, path, level);
    (void)tree->pager->find(tree->pager, path->leaf, PAGER_USE, &size);
}

/* --- walking --- */

/* Where the child before the one at `at` is. */
static size_t before(const struct page_tree *tree, struct bytes node, size_t at)
{
    size_t last = 0;

    if (tree->limits.child_size > 0)
        return at > tree->limits.child_size ? at - tree->limits.child_size : 0;
    for (size_t next = 0; next < at; next += child_at(node, next).size)
        last = next;
    return last;
}

/* Goes on in the child at `at` of the node at the level. */
static enum page_tree_answer turn(const struct page_tree *tree, struct page_tree_path *path, unsigned level, struct bytes node, size_t at, enum pick pick)
{
    path->steps[level].at = (uint32_t)at;
    take_child(tree, path, level, node);
    return level == tree->root->height ? PAGE_TREE_YES : descend(tree, &(struct wanted){ .pick = pick }, level + 1, path->count, path);
}

/* The leaf beside the path's: the lowest node that has a child on that side decides. */
static enum page_tree_answer step(const struct page_tree *tree, struct page_tree_path *path, bool is_forward)
{
    for (unsigned level = tree->root->height + 1u; level-- > 0;) {
        struct bytes node = page_tree_node(tree, path, level);
        size_t at = path->steps[level].at, next;

        if (node.data == NULL) {
            path->missing = path->steps[level].node;
            return PAGE_TREE_MISSING;
        }
        next = at + child_at(node, at).size;
        if (is_forward && next < node.size)
            return turn(tree, path, level, node, next, PICK_FIRST);
        if (!is_forward && at > 0)
            return turn(tree, path, level, node, before(tree, node, at), PICK_LAST);
    }
    return PAGE_TREE_NO;
}

static enum page_tree_answer take_step(const struct page_tree *tree, struct page_tree_path *path, bool is_forward)
{
    struct page_tree_path next = *path;
    enum page_tree_answer answer = step(tree, &next, is_forward);

    if (answer == PAGE_TREE_YES) {
        next.rank = is_forward ? path->rank + path->count : path->rank - next.count;
        *path = next;
    }
    path->missing = next.missing;
    return answer;
}

enum page_tree_answer page_tree_next(const struct page_tree *tree, struct page_tree_path *path)
{
    return take_step(tree, path, true);
}

enum page_tree_answer page_tree_previous(const struct page_tree *tree, struct page_tree_path *path)
{
    return take_step(tree, path, false);
}

bool page_tree_separator(const struct page_tree *tree, const struct page_tree_path *path, struct bytes *separator)
{
    for (unsigned level = tree->root->height + 1u; level-- > 0;) {
        size_t at = path->steps[level].at;

        if (at > 0) {
            struct bytes node = page_tree_node(tree, path, level);

            CHECK(node.data != NULL);
            *separator = child_at(node, at).separator;
            return true;
        }
    }
    return false;
}

/* --- what is missing --- */

struct needs {
    const struct page_tree *tree;
    uint64_t from, to;              /* ranks */
    bool with_leaves;
    uint32_t *numbers;
    uint32_t count, max;
    uint64_t nodes_left;            /* that may be visited: damaged ones may refer to each other in circles */
};

/* A node with `before` elements before it, `levels` above the leaves. */
static void needs_of(struct needs *needs, struct bytes node, unsigned levels, uint64_t before)
{
    struct pager *pager = needs->tree->pager;
    struct child child;

    for (size_t at = 0; at < node.size && before <= needs->to && needs->count < needs->max && needs->nodes_left > 0; at += child.size) {
        size_t size = 0;
        const char *data;

        child = child_at(node, at);
        before += child.count;
        if (child.count == 0 || before <= needs->from || (levels == 0 && !needs->with_leaves))
            continue;
        data = pager->find(pager, child.page, PAGER_LOOK, &size);
        if (data == NULL)
            needs->numbers[needs->count++] = child.page;
        else if (levels > 0 && needs->nodes_left-- > 0)
            needs_of(needs, bytes_of(data, size), levels - 1, before - child.count);
    }
}

uint32_t page_tree_needs(const struct page_tree *tree, uint64_t from, uint64_t to, bool with_leaves, uint32_t *numbers, uint32_t max)
{
    struct needs needs = { tree, from, to, with_leaves, numbers, 0, max, (uint64_t)tree->root->next + 1 };

    needs_of(&needs, buffer_bytes(&tree->root->top), tree->root->height, 0);
    return needs.count;
}
