/* Paged tree: what a sorted set, a list or a stream in pages (value/paged_zset.h, paged_list.h, stream_nodes.h) has beside its table, or in place of it: a page tree whose pages have the numbers from
 * PAGED_TREE_FIRST on.
 */
#ifndef KELVIN_VALUE_PAGED_TREE_H
#define KELVIN_VALUE_PAGED_TREE_H

#include "containers/page_tree.h"
#include "value/paged.h"

struct paged_ordered {
    struct paged_value paged;           /* first. Of a list or a stream: only the size; they have no table */
    struct page_tree_root tree;
};

static inline struct paged_ordered *paged_ordered_of(const struct value *value)
{
    return value->object;
}

/* Prepares what is to be attached. Not all of its bytes are written, as each call makes one. */
void paged_access_init(struct paged_access *access, struct pager *pages, const struct value_limits *limits);
/* Numbers pages from 0 on that `all` has from PAGED_TREE_FIRST on. */
void paged_tree_pager_init(struct paged_tree_pager *pager, struct pager *all);
/* The tree of the value whose pages are attached. */
static inline struct page_tree paged_tree(const struct paged_access *access)
{
    return (struct page_tree){ access->tree, (struct pager *)&access->tree_pager.pager, access->tree_limits };
}

/* Only roots; the pages exist. The tree's root is the value's afterwards. */
struct paged_value *paged_ordered_of_roots(const struct paged_root *root, const struct page_tree_root *tree, uint64_t id);
/* The roots, not the pages. */
void paged_ordered_free(struct value *value);
size_t paged_ordered_memory(const struct value *value);

/* A page of the tree is missing: it is read, and the search is to be done again; or it is wanted (paged_access.asks): false. */
bool paged_tree_resolve(const struct value *value, uint32_t tree_page);
/* The page of the path's leaf; data is NULL if it is wanted. */
struct bytes paged_tree_leaf(const struct value *value, const struct page_tree_path *path);
/* Where a step, or page_tree_first or page_tree_last, leads. False: nowhere, or pages are wanted. */
typedef enum page_tree_answer paged_tree_step(const struct page_tree *tree, struct page_tree_path *path);
bool paged_tree_reach(const struct value *value, struct page_tree_path *path, paged_tree_step *step);
/* The leaf if it is resident; data is NULL if not. */
struct bytes paged_tree_resident_leaf(const struct page_tree *tree, uint32_t leaf);

/* Leaves of lists and streams have at most this number of bytes, or one element. */
size_t paged_tree_leaf_max(const struct paged_access *access);
/* The size of a value without a table changes; of leaves that were removed unread it is not known exactly. */
void paged_tree_change_size(struct paged_ordered *ordered, size_t more, size_t less);
/* Removes a leaf of such a value, resident or not. */
void paged_tree_remove_leaf(struct paged_ordered *ordered, const struct page_tree_path *path);
/* Joins the path's leaf with the one after it or before it, if `join`, which does so if both are there and small enough, says yes for one of them. */
typedef bool paged_tree_join(const struct value *value, const struct page_tree_path *left, const struct page_tree_path *right);
void paged_tree_join_beside(const struct value *value, const struct page_tree_path *path, paged_tree_join *join);

/* A question: from the beginning to the end pages that are missing are wanted, not read, and no uses are counted. */
struct paged_access *paged_begin_question(const struct value *value);
bool paged_end_question(struct paged_access *access, bool answer);
/* Whether the elements with these ranks are there, as far as there are any; 0, SIZE_MAX: all. False: pages are wanted. */
bool paged_tree_has_ranks(const struct value *value, size_t first, size_t count);
/* The same for the nodes above them only. */
bool paged_tree_has_nodes(const struct value *value, size_t first, size_t count);

#endif
