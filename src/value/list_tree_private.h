/* For the files of list_tree. */
#ifndef KELVIN_VALUE_LIST_TREE_PRIVATE_H
#define KELVIN_VALUE_LIST_TREE_PRIVATE_H

#include "value/list_tree.h"

static inline struct page_tree list_tree_of(const struct value *value)
{
    return paged_tree(paged_of(value)->access);
}

#endif
