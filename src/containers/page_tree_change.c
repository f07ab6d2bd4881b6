/* Changing a page tree. */
#include <string.h>

#include "base/mem.h"
#include "containers/page_tree_private.h"

enum {
    TRUNK_SIZE = sizeof(uint32_t) * (1 + PAGE_TREE_FREE_MAX),
    SMALL_SHARE = 4, JOINED_SHARE_NUM = 3, JOINED_SHARE_OF = 4,         /* a node below a quarter is joined, if both have three quarters at most */
};

void page_tree_root_release(struct page_tree_root *root)
{
    buffer_release(&root->top);
    *root = (struct page_tree_root){ 0 };
}

/* --- pages --- */

static bool is_resident(const struct page_tree *tree, uint32_t number, size_t *size)
{
    return tree->pager->find(tree->pager, number, PAGER_LOOK, size) != NULL;
}

/* A page of that size whose former bytes are of no use. */
static char *overwrite_page(const struct page_tree *tree, uint32_t number, size_t size)
{
    size_t old_size;

    return is_resident(tree, number, &old_size) ? tree->pager->change(tree->pager, number, size) : tree->pager->create(tree->pager, number, size);
}

/* Takes the numbers out of the trunk, which is a free page then, too. False: there is none, or it is missing. */
static bool open_trunk(struct page_tree_root *root, struct pager *pager, uint32_t *number)
{
    size_t size = 0;
    const char *data;

    if (root->trunk == 0)
        return false;
    *number = root->trunk - 1;
    data = pager->find(pager, *number, PAGER_LOOK, &size);
    if (data == NULL)
        return false;
    CHECK(size == TRUNK_SIZE);
    memcpy(&root->trunk, data, sizeof(root->trunk));
    memcpy(root->free, data + sizeof(root->trunk), sizeof(root->free));
    root->free_count = PAGE_TREE_FREE_MAX;
    for (uint8_t i = 0; i < root->free_count; i++)
        CHECK(root->free[i] < root->next);
    return true;
}

/* A page of that size, which is new or was free. */
static char *take_page(const struct page_tree *tree, size_t size, uint32_t *number)
{
    struct page_tree_root *root = tree->root;

    if (root->free_count > 0) {
        *number = root->free[--root->free_count];
        return overwrite_page(tree, *number, size);
    }
    if (open_trunk(root, tree->pager, number))
        return tree->pager->change(tree->pager, *number, size);
    CHECK(root->next < PAGE_TREE_PAGES_MAX);
    *number = root->next++;
    return tree->pager->create(tree->pager, *number, size);
}

/* True if the page was free and in the root; then it is not any more. */
static bool forget_free(struct page_tree_root *root, uint32_t number)
{
    uint8_t at = 0;

    while (at < root->free_count && root->free[at] != number)
        at++;
    if (at == root->free_count)
        return false;
    root->free[at] = root->free[--root->free_count];
    return true;
}

static void drop_page(const struct page_tree *tree, uint32_t number)
{
    struct page_tree_root *root = tree->root;
    size_t size;
    char *trunk;

    if (number + 1 == root->next) {
        do
            tree->pager->drop(tree->pager, --root->next);
        while (root->next > 0 && forget_free(root, root->next - 1));
        return;
    }
    if (root->free_count == PAGE_TREE_FREE_MAX) {
        trunk = overwrite_page(tree, number, TRUNK_SIZE);
        memcpy(trunk, &root->trunk, sizeof(root->trunk));
        memcpy(trunk + sizeof(root->trunk), root->free, sizeof(root->free));
        root->trunk = number + 1;
        root->free_count = 0;
        return;
    }
    if (is_resident(tree, number, &size))
        tree->pager->change(tree->pager, number, 0);
    root->free[root->free_count++] = number;
}

bool page_tree_has_free(const struct page_tree *tree, uint64_t pages, uint32_t *number)
{
    const struct page_tree_root *root = tree->root;
    uint64_t found = root->free_count;

    for (uint32_t trunk = root->trunk; trunk > 0 && found < pages; found += PAGE_TREE_FREE_MAX + 1) {
        size_t size = 0;
        const char *data = tree->pager->find(tree->pager, trunk - 1, PAGER_LOOK, &size);

        *number = trunk - 1;
        if (data == NULL)
            return false;
        CHECK(size == TRUNK_SIZE);
        memcpy(&trunk, data, sizeof(trunk));
    }
    return true;
}

/* --- nodes --- */

static struct bytes node_at(const struct page_tree *tree, const struct page_tree_path *path, unsigned level)
{
    struct bytes node = page_tree_node(tree, path, level);

    CHECK(node.data != NULL || level == 0);
    return node;
}

/* In the node at the level, replaces `removed` bytes at `at` by `added` ones, which the caller writes. */
static char *node_edit(const struct page_tree *tree, const struct page_tree_path *path, unsigned level, size_t at, size_t removed, size_t added)
{
    size_t size = node_at(tree, path, level).size, new_size = size - removed + added;
    struct pager *pager = tree->pager;
    struct buffer *top = &tree->root->top;
    char *data;

    if (level == 0) {
        buffer_reserve(top, added);
        data = top->data;
    } else {
        data = pager->change(pager, path->steps[level].node, new_size > size ? new_size : size);
    }
    memmove(data + at + added, data + at + removed, size - at - removed);
    if (level == 0)
        top->size = new_size;
    else if (new_size < size)
        data = pager->change(pager, path->steps[level].node, new_size);
    return data + at;
}

static void write_child(char *to, uint32_t page, uint64_t count, struct bytes separator)
{
    uint16_t size = (uint16_t)separator.size;

    memcpy(to, &page, sizeof(page));
    memcpy(to + CHILD_COUNT_AT, &count, CHILD_COUNT_SIZE);
    memcpy(to + CHILD_SEPARATOR_AT - sizeof(size), &size, sizeof(size));
    if (separator.size > 0)
        memcpy(to + CHILD_SEPARATOR_AT, separator.data, separator.size);
}

/* Adds to the count of the path's child of the node at the level. */
static void add_count(const struct page_tree *tree, const struct page_tree_path *path, unsigned level, uint64_t more)
{
    size_t at = path->steps[level].at;
    struct bytes node = node_at(tree, path, level);
    uint64_t count = child_at(node, at).count + more;
    char *data = level == 0 ? tree->root->top.data : tree->pager->change(tree->pager, path->steps[level].node, node.size);

    CHECK(count <= PAGE_TREE_COUNT_MAX);
    memcpy(data + at + CHILD_COUNT_AT, &count, CHILD_COUNT_SIZE);
}

static uint64_t sum_counts(struct bytes node)
{
    uint64_t sum = 0;
    struct child child;

    for (size_t at = 0; at < node.size; at += child.size) {
        child = child_at(node, at);
        sum += child.count;
    }
    return sum;
}

void page_tree_set_count(const struct page_tree *tree, const struct page_tree_path *path, uint64_t count)
{
    for (unsigned level = 0; level <= tree->root->height; level++)
        add_count(tree, path, level, count - path->count);
    tree->root->count += count - path->count;
}

/* --- growing --- */

/* Where in the tree a leaf is added. */
enum spot { SPOT_INNER, SPOT_BEGIN, SPOT_END };

static enum spot spot_of(const struct page_tree *tree, const struct page_tree_path *path)
{
    bool is_begin = true, is_end = true;

    for (unsigned level = 0; level <= tree->root->height; level++) {
        struct bytes node = node_at(tree, path, level);
        size_t at = path->steps[level].at;

        is_begin &= at == 0;
        is_end &= at + child_at(node, at).size == node.size;
    }
    return is_end ? SPOT_END : is_begin ? SPOT_BEGIN : SPOT_INNER;
}

/* Where a node is to be split to which a child was added after the one at `path_at`, or before it. At an end of the tree the next one may be added there, too: the others stay together, so nodes of
 * what only grows at an end are full. */
static size_t split_of(struct bytes node, size_t path_at, enum spot spot)
{
    size_t at = child_at(node, 0).size, next;

    if (spot == SPOT_END)
        return path_at + child_at(node, path_at).size;
    if (spot == SPOT_BEGIN)
        return at + child_at(node, at).size;
    while (at < node.size / 2 && (next = at + child_at(node, at).size) < node.size)
        at = next;
    return at;
}

/* The end of a node that is not the top becomes a node after it. */
static void split_node(const struct page_tree *tree, const struct page_tree_path *path, unsigned level, enum spot spot)
{
    struct bytes node = node_at(tree, path, level), half, separator;
    size_t middle = split_of(node, path->steps[level].at, spot), parent_at = path->steps[level - 1].at;
    uint32_t number;
    uint64_t count;
    char *copy;

    half = bytes_of(node.data + middle, node.size - middle);
    count = sum_counts(half);
    copy = mem_alloc(half.size);
    memcpy(copy, half.data, half.size);
    half.data = copy;
    memcpy(take_page(tree, half.size, &number), copy, half.size);
    tree->pager->change(tree->pager, path->steps[level].node, middle);
    add_count(tree, path, level - 1, 0 - count);
    parent_at += child_at(node_at(tree, path, level - 1), parent_at).size;
    separator = child_at(half, 0).separator;
    write_child(node_edit(tree, path, level - 1, parent_at, 0, CHILD_SEPARATOR_AT + separator.size), number, count, separator);
    mem_free(copy);
}

/* The top becomes a node below it. */
static void push_down(const struct page_tree *tree)
{
    struct page_tree_root *root = tree->root;
    uint32_t number;

    CHECK(root->height < PAGE_TREE_HEIGHT_MAX);
    memcpy(take_page(tree, root->top.size, &number), root->top.data, root->top.size);
    root->top.size = 0;
    write_child(buffer_reserve(&root->top, CHILD_SEPARATOR_AT), number, root->count, BYTES(""));
    root->top.size = CHILD_SEPARATOR_AT;
    root->height++;
}

char *page_tree_insert(const struct page_tree *tree, const struct page_tree_path *path, enum page_tree_side side, struct bytes separator, uint64_t count, size_t size, uint32_t *number)
{
    struct page_tree_root *root = tree->root;
    struct page_tree_path first = { 0 };
    unsigned level = root->height;
    char copy[PAGE_TREE_SEPARATOR_MAX];
    enum spot spot = path != NULL ? spot_of(tree, path) : SPOT_END;
    uint32_t leaf;
    size_t at = 0;

    CHECK(separator.size <= PAGE_TREE_SEPARATOR_MAX && count <= PAGE_TREE_COUNT_MAX - root->count && (path == NULL) == (root->leaves == 0));
    CHECK(side == PAGE_TREE_AFTER || separator.size == 0);
    if (separator.size > 0)
        memcpy(copy, separator.data, separator.size);       /* it may be part of a page */
    separator.data = copy;
    (void)take_page(tree, size, &leaf);
    if (path == NULL)
        path = &first;
    else
        at = path->steps[level].at + (side == PAGE_TREE_AFTER ? child_at(node_at(tree, path, level), path->steps[level].at).size : 0);
    write_child(node_edit(tree, path, level, at, 0, CHILD_SEPARATOR_AT + separator.size), leaf, count, separator);
    for (unsigned above = 0; above < level; above++)
        add_count(tree, path, above, count);
    root->count += count;
    root->leaves++;
    for (; level > 0 && node_at(tree, path, level).size > tree->limits.node_size_max; level--)
        split_node(tree, path, level, side == PAGE_TREE_BEFORE && spot == SPOT_END ? SPOT_INNER : spot);
    if (root->top.size > tree->limits.top_size_max)
        push_down(tree);
    if (number != NULL)
        *number = leaf;
    return tree->pager->change(tree->pager, leaf, size);
}

/* --- shrinking --- */

/* Appends the node of the child at `from` of the node at `level` to that of the child at `to`, which is before it. False: it is missing, or they are too large. */
static bool join_children(const struct page_tree *tree, const struct page_tree_path *path, unsigned level, size_t to, size_t from)
{
    struct bytes parent = node_at(tree, path, level);
    struct child left = child_at(parent, to), right = child_at(parent, from);
    struct pager *pager = tree->pager;
    struct page_tree_path of_left = *path;
    size_t left_size = 0, right_size = 0;
    const char *left_data = pager->find(pager, left.page, PAGER_LOOK, &left_size), *right_data = pager->find(pager, right.page, PAGER_LOOK, &right_size);
    struct child first;
    size_t joined_size;
    char *copy;

    if (left_data == NULL || right_data == NULL)
        return false;
    first = child_at(bytes_of(right_data, right_size), 0);
    joined_size = left_size + right_size - first.separator.size + right.separator.size;
    if (joined_size > tree->limits.node_size_max * JOINED_SHARE_NUM / JOINED_SHARE_OF)
        return false;
    copy = mem_alloc(joined_size - left_size);
    write_child(copy, first.page, first.count, right.separator);
    memcpy(copy + CHILD_SEPARATOR_AT + right.separator.size, right_data + first.size, right_size - first.size);
    memcpy(pager->change(pager, left.page, joined_size) + left_size, copy, joined_size - left_size);
    mem_free(copy);
    drop_page(tree, right.page);
    node_edit(tree, path, level, from, right.size, 0);
    of_left.steps[level].at = (uint32_t)to;
    add_count(tree, &of_left, level, right.count);
    return true;
}

/* Joins the path's node at the level with a neighbour below the same parent if it is small. */
static void join_if_small(const struct page_tree *tree, const struct page_tree_path *path, unsigned level)
{
    size_t at = path->steps[level - 1].at, last = 0, next;
    struct bytes parent = node_at(tree, path, level - 1);

    if (node_at(tree, path, level).size >= tree->limits.node_size_max / SMALL_SHARE)
        return;
    next = at + child_at(parent, at).size;
    if (next < parent.size && join_children(tree, path, level - 1, at, next))
        return;
    for (size_t before = 0; before < at; before += child_at(parent, before).size)
        last = before;
    if (at > 0)
        (void)join_children(tree, path, level - 1, last, at);
}

/* As long as the top has one child only, and that is there and small, it takes its place. */
static void pull_up(const struct page_tree *tree)
{
    struct page_tree_root *root = tree->root;

    while (root->height > 0) {
        struct child child = child_at(buffer_bytes(&root->top), 0);
        size_t size = 0;
        const char *data = child.size == root->top.size ? tree->pager->find(tree->pager, child.page, PAGER_LOOK, &size) : NULL;

        if (data == NULL || size > tree->limits.top_size_max / 2)
            return;
        root->top.size = 0;
        buffer_append(&root->top, data, size);
        drop_page(tree, child.page);
        root->height--;
    }
}

void page_tree_remove(const struct page_tree *tree, const struct page_tree_path *path)
{
    struct page_tree_root *root = tree->root;
    unsigned level = root->height;

    drop_page(tree, path->leaf);
    for (unsigned above = 0; above < level; above++)
        add_count(tree, path, above, 0 - path->count);
    root->count -= path->count;
    root->leaves--;
    /* A node that would be empty goes, too. */
    while (level > 0 && child_at(node_at(tree, path, level), path->steps[level].at).size == node_at(tree, path, level).size)
        drop_page(tree, path->steps[level--].node);
    node_edit(tree, path, level, path->steps[level].at, child_at(node_at(tree, path, level), path->steps[level].at).size, 0);
    if (root->leaves == 0) {
        root->height = 0;
        buffer_release(&root->top);
        return;
    }
    for (; level > 0; level--)
        join_if_small(tree, path, level);
    pull_up(tree);
}
