/* Elements in the order of (score, member) in pages: a page tree (containers/page_tree.h) whose leaves are order pages (containers/order_page.h). A sorted set in pages has one beside its table, and so
 * has a hash with times of fields: there the scores are times. The tree is that of the value, a struct paged_ordered.
 *
 * Separators of leaves: the score as eight bytes that memcmp orders as numbers, and the beginning of the member, as much as it takes.
 *
 * What functions miss is read at once. What a call will need, it asks for before: the functions named paged_order_has_ return false if pages are missing, which are wanted then; after they are loaded others
 * may be, as what is below a missing node is not known. So do those that find a rank.
 */
#ifndef KELVIN_VALUE_PAGED_ORDER_H
#define KELVIN_VALUE_PAGED_ORDER_H

#include "containers/btree.h"
#include "containers/order_page.h"
#include "value/paged_tree.h"

/* Takes the elements of a btree into a tree that has none. */
void paged_order_build(const struct value *value, const struct btree *tree);
/* False: it is there already. */
bool paged_order_insert(const struct value *value, struct bytes member, double score);
/* The element with the score `from`, which is there, gets another one. */
void paged_order_move(const struct value *value, struct bytes member, double from, double to);
/* The element, which is there. */
void paged_order_remove(const struct value *value, struct bytes member, double score);
/* Calls `gone` for each element that was removed; the bytes are valid for the call. */
typedef void paged_order_gone(void *context, struct bytes member);
void paged_order_remove_ranks(const struct value *value, size_t first, size_t count, paged_order_gone *gone, void *context);

/* These return false if pages are missing, which are wanted then. The number of elements below the border; by member: all scores are equal, and taken for that of the lowest element. */
bool paged_order_score_border(const struct value *value, double score, enum btree_border border, size_t *rank);
bool paged_order_member_border(const struct value *value, struct bytes member, enum btree_border border, size_t *rank);
/* The same for the rank of an element, which is there. */
bool paged_order_rank(const struct value *value, struct bytes member, double score, size_t *rank);

/* An element. Valid until the set changes. */
struct paged_order_place {
    struct page_tree_path path;
    struct bytes page;                  /* the leaf's */
    uint32_t at;                        /* in it */
};
/* The rank exists. */
void paged_order_seek_rank(const struct value *value, size_t rank, struct paged_order_place *place);
struct order_element paged_order_get(const struct paged_order_place *place);
/* False after the last element, and before the first. */
bool paged_order_next(const struct value *value, struct paged_order_place *place);
bool paged_order_previous(const struct value *value, struct paged_order_place *place);

/* Where the tree has this element, or would have it. */
bool paged_order_has_place(const struct value *value, double score, struct bytes member);
/* Needed to insert an element or, if `old` is not NULL, to give it another score than `old`; as one of `count` such changes. */
bool paged_order_has_move(const struct value *value, struct bytes member, const double *old, double score, size_t count);
/* Needed to remove an element, which is there, as one of `count` such changes. */
bool paged_order_has_removal(const struct value *value, struct bytes member, double score, size_t count);

#endif
