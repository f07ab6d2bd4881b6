/* Nodes, for the files of page_tree. */
#ifndef KELVIN_CONTAINERS_PAGE_TREE_PRIVATE_H
#define KELVIN_CONTAINERS_PAGE_TREE_PRIVATE_H

#include "containers/page_tree.h"

#include "base/check.h"

enum {
    CHILD_COUNT_AT = 4, CHILD_COUNT_SIZE = 5,
    CHILD_SEPARATOR_AT = CHILD_COUNT_AT + CHILD_COUNT_SIZE + 2,
};
_Static_assert(CHILD_SEPARATOR_AT == PAGE_TREE_CHILD_SIZE(0), "the size of a child without its separator");

/* A child as its node has it. The separator is the node's. */
struct child {
    uint32_t page;
    uint64_t count;
    struct bytes separator;
    size_t size;                    /* in the node */
};

static inline uint64_t child_count(struct bytes node, size_t at)
{
    uint32_t count;

    memcpy(&count, node.data + at + CHILD_COUNT_AT, sizeof(count));         /* not five bytes into eight: the CPU would wait for these to be stored */
    return (uint64_t)(uint8_t)node.data[at + CHILD_COUNT_AT + sizeof(count)] << 32 | count;
}

static inline struct child child_at(struct bytes node, size_t at)
{
    struct child child;
    uint16_t size;

    CHECK(at + CHILD_SEPARATOR_AT <= node.size);
    memcpy(&child.page, node.data + at, sizeof(child.page));
    child.count = child_count(node, at);
    memcpy(&size, node.data + at + CHILD_SEPARATOR_AT - sizeof(size), sizeof(size));
    child.separator = bytes_of(node.data + at + CHILD_SEPARATOR_AT, size);
    child.size = CHILD_SEPARATOR_AT + (size_t)size;
    CHECK(child.size <= node.size - at);
    return child;
}

/* The node at a level of the path; data is NULL if it is missing. */
static inline struct bytes page_tree_node(const struct page_tree *tree, const struct page_tree_path *path, unsigned level)
{
    size_t size = 0;
    const char *data;

    if (level == 0)
        return buffer_bytes(&tree->root->top);
    data = tree->pager->find(tree->pager, path->steps[level].node, PAGER_USE, &size);
    return bytes_of(data, size);
}

#endif
