/* Sorted set in pages: a paged value (value/paged.h) whose table has the members with their scores, and beside that a tree with the elements in their order (value/paged_order.h). So a score
 * is one page away, as a hash's field is, and ZSCAN goes through members in the order of their hashes, wherever they move; ranges, ranks and borders are the tree's.
 *
 * The functions are as those of btree, for values of VALUE_ZSET with VALUE_PAGED. What they miss is read at once. What a call will need, it asks for before: the functions
 * named paged_zset_has_ return false if pages are missing, which are wanted then; after they are loaded others may be, as what is below a missing node is not known.
 */
#ifndef KELVIN_VALUE_PAGED_ZSET_H
#define KELVIN_VALUE_PAGED_ZSET_H

#include "value/paged_order.h"

/* As paged_create, of a btree's elements. */
struct paged_value *paged_zset_create(const struct btree *tree, const struct paged_plan *plan, uint64_t id, struct paged_access *access);

bool paged_zset_score(const struct value *value, struct bytes member, double *score);
/* Adds a member or changes its score. True if it is new. */
bool paged_zset_put(const struct value *value, struct bytes member, double score);
/* The same for a member that is known not to be there. */
void paged_zset_insert(const struct value *value, struct bytes member, double score);
/* The other of two steps, after paged_order_insert, for a caller that adds many elements, and does each step in the order of the pages that it changes. Until both are done for all of them nothing else may be
 * done with the set. False: it is there already. */
bool paged_zset_insert_in_table(const struct value *value, struct bytes member, double score);
bool paged_zset_remove(const struct value *value, struct bytes member);
void paged_zset_remove_ranks(const struct value *value, size_t first, size_t count);

/* False: pages are missing, which are wanted then. */
bool paged_zset_rank(const struct value *value, struct bytes member, bool *is_there, size_t *rank, double *score);

/* As paged_scan. */
bool paged_zset_scan(const struct value *value, uint64_t *cursor, size_t count, btree_found *found, void *context);
bool paged_zset_random(const struct value *value, struct random *random, struct bytes *member, double *score);
struct btree *paged_zset_to_btree(const struct value *value);

/* Needed by paged_zset_score; the score, if it is there. */
bool paged_zset_has_score(const struct value *value, struct bytes member, bool *is_there, double *score);
/* That, and where the tree has it, of a member that may be there. */
bool paged_zset_has_element(const struct value *value, struct bytes member);
/* All pages of the table. */
bool paged_zset_has_table(const struct value *value);
/* Needed by paged_zset_remove_ranks. */
bool paged_zset_has_removal(const struct value *value, size_t first, size_t count);
/* Needed by paged_zset_put, as one of `count`; `adds`: the score is added to that of the member, if it is there. */
bool paged_zset_has_put(const struct value *value, struct bytes member, double score, bool adds, size_t count);

#endif
