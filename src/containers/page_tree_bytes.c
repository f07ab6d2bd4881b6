/* Roots as bytes, and what is sound. */
#include <string.h>

#include "base/mem.h"
#include "containers/page_tree_private.h"

enum { ROOT_HEAD = 8 + 4 + 4 + 4 + 1 + 1 };

/* The bytes are children; `*count` is their elements in all. */
static bool children_are_sound(struct bytes node, uint32_t next, uint64_t *count)
{
    struct bytes before = { NULL, 0 };

    *count = 0;
    for (size_t at = 0; at < node.size;) {
        uint16_t size;
        struct child child;

        if (node.size - at < CHILD_SEPARATOR_AT)
            return false;
        memcpy(&size, node.data + at + CHILD_SEPARATOR_AT - sizeof(size), sizeof(size));
        if (size > PAGE_TREE_SEPARATOR_MAX || size > node.size - at - CHILD_SEPARATOR_AT)
            return false;
        child = child_at(node, at);
        if (child.page >= next || child.count > PAGE_TREE_COUNT_MAX - *count)
            return false;
        if (at > 0 && before.data != NULL && bytes_compare(before, child.separator) > 0)
            return false;
        if (at > 0)
            before = child.separator;       /* that of the first child is not looked at */
        *count += child.count;
        at += child.size;
    }
    return true;
}

bool page_tree_node_is_sound(struct bytes node, uint32_t next)
{
    uint64_t count;

    return node.size > 0 && children_are_sound(node, next, &count);
}

void page_tree_root_write(const struct page_tree_root *root, struct buffer *out)
{
    buffer_append(out, &root->count, 8);
    buffer_append(out, &root->leaves, 4);
    buffer_append(out, &root->next, 4);
    buffer_append(out, &root->trunk, 4);
    buffer_append_u8(out, root->height);
    buffer_append_u8(out, root->free_count);
    buffer_append(out, root->free, root->free_count * sizeof(root->free[0]));
    buffer_append_bytes(out, buffer_bytes(&root->top));
}

static bool has_child(struct bytes node, uint32_t page)
{
    struct child child = { .page = page + 1 };

    for (size_t at = 0; at < node.size && child.page != page; at += child.size)
        child = child_at(node, at);
    return child.page == page;
}

static uint32_t count_children(struct bytes node)
{
    uint32_t count = 0;

    for (size_t at = 0; at < node.size; at += child_at(node, at).size)
        count++;
    return count;
}

/* Numbers that are free are below `next`, different, and not those of children. The top's children are sound. */
static bool free_are_sound(const struct page_tree_root *root, struct bytes top)
{
    for (uint8_t i = 0; i < root->free_count; i++) {
        if (root->free[i] >= root->next || has_child(top, root->free[i]))
            return false;
        for (uint8_t k = 0; k < i; k++) {
            if (root->free[k] == root->free[i])
                return false;
        }
    }
    return true;
}

static bool root_is_sound(const struct page_tree_root *root, struct bytes top)
{
    uint64_t count;
    uint32_t children;

    if (!children_are_sound(top, root->next, &count) || count != root->count || !free_are_sound(root, top) || root->trunk > root->next || root->height > PAGE_TREE_HEIGHT_MAX)
        return false;
    children = count_children(top);
    if (root->height == 0)
        return root->leaves == children && root->leaves <= root->next;
    return children > 0 && root->leaves >= children && root->leaves < root->next;
}

bool page_tree_root_read(struct bytes bytes, struct page_tree_root *root)
{
    size_t free_size;

    *root = (struct page_tree_root){ 0 };
    if (bytes.size < ROOT_HEAD)
        return false;
    memcpy(&root->count, bytes.data, 8);
    memcpy(&root->leaves, bytes.data + 8, 4);
    memcpy(&root->next, bytes.data + 12, 4);
    memcpy(&root->trunk, bytes.data + 16, 4);
    root->height = (uint8_t)bytes.data[20];
    root->free_count = (uint8_t)bytes.data[21];
    free_size = root->free_count * sizeof(root->free[0]);
    if (root->free_count <= PAGE_TREE_FREE_MAX && free_size <= bytes.size - ROOT_HEAD) {
        struct bytes top = bytes_of(bytes.data + ROOT_HEAD + free_size, bytes.size - ROOT_HEAD - free_size);

        memcpy(root->free, bytes.data + ROOT_HEAD, free_size);
        if (root_is_sound(root, top)) {
            buffer_append_bytes(&root->top, top);
            return true;
        }
    }
    *root = (struct page_tree_root){ 0 };
    return false;
}

/* --- for tests --- */

struct verifying {
    const struct page_tree *tree;
    uint8_t *is_used;               /* by page */
    uint32_t leaves;
    struct bytes last;              /* the separator of the leaf before */
};

static void note_page(struct verifying *verifying, uint32_t number)
{
    CHECK(number < verifying->tree->root->next && !verifying->is_used[number]);
    verifying->is_used[number] = 1;
}

/* `separator` is what the node's parent says of it. */
static uint64_t verify_node(struct verifying *verifying, struct bytes node, unsigned levels, struct bytes separator)
{
    uint64_t sum = 0;
    struct child child;

    CHECK(node.size > 0);
    for (size_t at = 0; at < node.size; at += child.size) {
        child = child_at(node, at);
        note_page(verifying, child.page);
        if (at > 0)
            separator = child.separator;
        if (levels > 0) {
            size_t size = 0;
            const char *data = verifying->tree->pager->find(verifying->tree->pager, child.page, PAGER_LOOK, &size);

            CHECK(data != NULL && size <= verifying->tree->limits.node_size_max && page_tree_node_is_sound(bytes_of(data, size), verifying->tree->root->next));
            CHECK(verify_node(verifying, bytes_of(data, size), levels - 1, separator) == child.count);
        } else {
            CHECK(verifying->leaves++ < 2 || bytes_compare(verifying->last, separator) <= 0);
            verifying->last = separator;
        }
        sum += child.count;
    }
    return sum;
}

/* Returns the next one. */
static uint32_t verify_trunk(struct verifying *verifying, uint32_t number)
{
    size_t size = 0;
    const char *data = verifying->tree->pager->find(verifying->tree->pager, number, PAGER_LOOK, &size);
    uint32_t next, free;

    CHECK(data != NULL && size == sizeof(next) * (1 + PAGE_TREE_FREE_MAX));
    note_page(verifying, number);
    for (int i = 0; i < PAGE_TREE_FREE_MAX; i++) {
        memcpy(&free, data + sizeof(next) * (size_t)(i + 1), sizeof(free));
        note_page(verifying, free);
    }
    memcpy(&next, data, sizeof(next));
    return next;
}

void page_tree_verify(const struct page_tree *tree)
{
    const struct page_tree_root *root = tree->root;
    struct verifying verifying = { tree, mem_zalloc((size_t)root->next + 1), 0, { NULL, 0 } };

    CHECK(root->top.size <= tree->limits.top_size_max);
    CHECK((root->leaves == 0) == (root->top.size == 0));
    if (root->leaves > 0)
        CHECK(verify_node(&verifying, buffer_bytes(&root->top), root->height, BYTES("")) == root->count);
    CHECK(verifying.leaves == root->leaves);
    for (uint8_t i = 0; i < root->free_count; i++)
        note_page(&verifying, root->free[i]);
    for (uint32_t trunk = root->trunk; trunk > 0; )
        trunk = verify_trunk(&verifying, trunk - 1);
    for (uint32_t i = 0; i < root->next; i++)
        CHECK(verifying.is_used[i]);
    mem_free(verifying.is_used);
}
