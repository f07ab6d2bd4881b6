/* Sorted set in pages: a paged value (value/paged.h) whose table has the members with their scores, and beside that a page tree (containers/page_tree.h) whose leaves are
 * order pages (containers/order_page.h). So a score is one page away, as a hash's field is, and ZSCAN goes through members in the order of their hashes, wherever they
 * move; ranges, ranks and borders are the tree's.
 *
 * Separators of leaves: the score as eight bytes that memcmp orders as numbers, and the beginning of the member, as much as it takes.
 *
 * The functions are as those of btree, for values of VALUE_ZSET with VALUE_PAGED. What they miss is read at once. What a call will need, it asks for before: the functions
 * named paged_zset_has_ return false if pages are missing, which are wanted then; after they are loaded others may be, as what is below a missing node is not known.
 */
#ifndef KELVIN_VALUE_PAGED_ZSET_H
#define KELVIN_VALUE_PAGED_ZSET_H

#include "containers/btree.h"
#include "containers/order_page.h"
#include "value/paged_tree.h"

/* As paged_create, of a btree's elements. */
struct paged_value *paged_zset_create(const struct btree *tree, const struct paged_plan *plan, uint64_t id, struct paged_access *access);

bool paged_zset_score(const struct value *value, struct bytes member, double *score);
/* Adds a member or changes its score. True if it is new. */
bool paged_zset_put(const struct value *value, struct bytes member, double score);
/* The same for a member that is known not to be there. */
void paged_zset_insert(const struct value *value, struct bytes member, double score);
/* The same in two steps, for a caller that adds many elements, and does each step in the order of the pages that it changes. Until both are done for all of them nothing else may be done with the set.
 * False: it is there already. */
bool paged_zset_insert_in_tree(const struct value *value, struct bytes member, double score);
bool paged_zset_insert_in_table(const struct value *value, struct bytes member, double score);
bool paged_zset_remove(const struct value *value, struct bytes member);
void paged_zset_remove_ranks(const struct value *value, size_t first, size_t count);

/* These return false if pages are missing, which are wanted then. The number of elements below the border; by member: all scores are equal, and taken for that of the lowest element. */
bool paged_zset_score_border(const struct value *value, double score, enum btree_border border, size_t *rank);
bool paged_zset_member_border(const struct value *value, struct bytes member, enum btree_border border, size_t *rank);
bool paged_zset_rank(const struct value *value, struct bytes member, bool *is_there, size_t *rank, double *score);

/* An element. Valid until the set changes. */
struct paged_zset_place {
    struct page_tree_path path;
    struct bytes page;                  /* the leaf's */
    uint32_t at;                        /* in it */
};
/* The rank exists. */
void paged_zset_seek_rank(const struct value *value, size_t rank, struct paged_zset_place *place);
struct order_element paged_zset_get(const struct paged_zset_place *place);
/* False after the last element, and before the first. */
bool paged_zset_next(const struct value *value, struct paged_zset_place *place);
bool paged_zset_previous(const struct value *value, struct paged_zset_place *place);

/* As paged_scan. */
bool paged_zset_scan(const struct value *value, uint64_t *cursor, size_t count, btree_found *found, void *context);
bool paged_zset_random(const struct value *value, struct random *random, struct bytes *member, double *score);
struct btree *paged_zset_to_btree(const struct value *value);

/* Needed by paged_zset_score; the score, if it is there. */
bool paged_zset_has_score(const struct value *value, struct bytes member, bool *is_there, double *score);
/* Where the tree has this element, or would have it. */
bool paged_zset_has_place(const struct value *value, double score, struct bytes member);
/* Both, of a member that may be there. */
bool paged_zset_has_element(const struct value *value, struct bytes member);
/* All pages of the table. */
bool paged_zset_has_table(const struct value *value);
/* Needed by paged_zset_remove_ranks. */
bool paged_zset_has_removal(const struct value *value, size_t first, size_t count);
/* Needed by paged_zset_put, as one of `count`; `adds`: the score is added to that of the member, if it is there. */
bool paged_zset_has_put(const struct value *value, struct bytes member, double score, bool adds, size_t count);

#endif
