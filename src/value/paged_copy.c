#include "value/paged.h"

#include "value/paged_list.h"
#include "value/paged_string.h"
#include "value/paged_times.h"
#include "value/stream_nodes.h"

static struct page_tree_root copy_tree(const struct page_tree_root *tree)
{
    struct page_tree_root copy = *tree;

    copy.top = (struct buffer){ 0 };
    buffer_append_bytes(&copy.top, buffer_bytes(&tree->top));
    return copy;
}

static struct paged_value *copy_ordered(const struct value *value, uint64_t id)
{
    const struct paged_root *root = &paged_of(value)->root;
    struct page_tree_root tree = copy_tree(&paged_ordered_of(value)->tree);

    if (value->type == VALUE_STREAM)
        return stream_copy_root(stream_of(value), root, &tree, id);
    if (value->type == VALUE_HASH)
        return paged_times_of_roots(root, &tree, &paged_times_of(value)->bounds, id);
    if (value->type == VALUE_LIST)
        return paged_list_copy_root(value, &tree, id);
    return paged_ordered_of_roots(root, &tree, id);
}

struct value paged_copy_root(const struct value *value, uint64_t id)
{
    const struct paged_root *root = &paged_of(value)->root;
    struct value copy = { .type = value->type, .encoding = value->encoding };

    if (paged_has_tree(value))
        copy.object = copy_ordered(value, id);
    else if (value->type == VALUE_STRING)
        copy.object = paged_string_of_root(root, paged_string_of(value)->length, paged_string_of(value)->block, id);
    else
        copy.object = paged_of_root(root, id);
    return copy;
}
