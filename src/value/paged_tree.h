/* Paged tree: what a sorted set in pages (value/paged_zset.h) has beside its table: a page tree whose pages have the numbers from PAGED_TREE_FIRST on.
 */
#ifndef KELVIN_VALUE_PAGED_TREE_H
#define KELVIN_VALUE_PAGED_TREE_H

#include "containers/page_tree.h"
#include "value/paged.h"

struct paged_zset {
    struct paged_value paged;           /* first */
    struct page_tree_root tree;
};

static inline struct paged_zset *paged_zset_of(const struct value *value)
{
    return value->object;
}

/* Numbers pages from 0 on that `all` has from PAGED_TREE_FIRST on. */
void paged_tree_pager_init(struct paged_tree_pager *pager, struct pager *all);
/* The tree of the sorted set whose pages are attached. */
struct page_tree paged_tree(const struct paged_access *access);

#endif
