/* For the files of paged_order. */
#ifndef KELVIN_VALUE_PAGED_ORDER_PRIVATE_H
#define KELVIN_VALUE_PAGED_ORDER_PRIVATE_H

#include <string.h>

#include "value/paged_order.h"

/* Bytes of a member that a separator can have. */
enum { KEY_MEMBER_MAX = PAGE_TREE_SEPARATOR_MAX - sizeof(uint64_t) };

struct page_tree paged_order_tree(const struct value *value);

/* Where the element is, which is there. */
void paged_order_find_element(const struct value *value, double score, struct bytes member, struct paged_order_place *place);

/* Whether the element at the place stays in its leaf with another score: there are elements on both sides of where it goes, or no other leaves are. */
bool paged_order_stays(const struct value *value, const struct paged_order_place *place, double score, struct bytes member);

/* Where the element is, or where it would be: `at` may be the number of elements then. False: pages are wanted. */
bool paged_order_find_place(const struct value *value, double score, struct bytes member, struct paged_order_place *place, bool *is_there);

/* Places that were found before: leaves have come or gone; or the path's leaf gets another number of elements. */
void paged_order_forget_found(const struct value *value);
void paged_order_change_found(const struct value *value, const struct page_tree_path *path, uint64_t count);

/* A key that separators are compared with: bits of the score, which memcmp orders as numbers, and as much of the member as they can have. 0 and -0 have the same bits. */
uint64_t paged_order_score_bits(double score);
struct bytes paged_order_key(char room[PAGE_TREE_SEPARATOR_MAX], uint64_t score_bits, struct bytes member);

#endif
