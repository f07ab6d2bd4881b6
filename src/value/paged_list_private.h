/* For the files of paged_list. */
#ifndef KELVIN_VALUE_PAGED_LIST_PRIVATE_H
#define KELVIN_VALUE_PAGED_LIST_PRIVATE_H

#include "value/paged_list.h"

static inline struct page_tree paged_list_tree(const struct value *value)
{
    return paged_tree(paged_of(value)->access);
}

/* Where the leaf with the element is, which exists. False: a node is wanted. */
bool paged_list_find_path(const struct value *value, size_t index, struct page_tree_path *path);

#endif
