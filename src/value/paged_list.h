/* List in pages: a page tree (containers/page_tree.h) by position, whose leaves are list pages (containers/list_page.h): a paged value (value/paged.h) without a table.
 *
 * A leaf has up to four times the bytes of a usual page, or one element. list-max-listpack-size and list-compress-depth are not looked at: the store compresses.
 *
 * The functions are as those of chunk_list, for values of VALUE_LIST with VALUE_PAGED. What they miss is read at once. What a call will need, it asks for before: the functions named
 * paged_list_has_ return false if pages are missing, which are wanted then; after they are loaded others may be, as what is below a missing node is not known.
 */
#ifndef KELVIN_VALUE_PAGED_LIST_H
#define KELVIN_VALUE_PAGED_LIST_H

#include "containers/list_page.h"
#include "value/chunk_list.h"
#include "value/paged_tree.h"

/* Takes a copy of the elements of a list, which stays as it is, into pages that are created. `access` as it is to be attached, but its root is set here. */
struct paged_value *paged_list_create(const struct chunk_list *list, uint64_t id, struct paged_access *access);
/* The elements in chunks. */
struct chunk_list *paged_list_to_chunks(const struct value *value, int fill, int depth);

static inline size_t paged_list_count(const struct value *value)
{
    return paged_ordered_of(value)->tree.count;
}

static inline size_t paged_list_leaves(const struct value *value)
{
    return paged_ordered_of(value)->tree.leaves;
}

void paged_list_push(const struct value *value, enum list_end end, struct bytes element);
void paged_list_set(const struct value *value, size_t index, struct bytes element);
void paged_list_insert(const struct value *value, size_t index, struct bytes element);
void paged_list_delete(const struct value *value, size_t index, size_t count);
size_t paged_list_remove(const struct value *value, struct bytes element, size_t count_max, enum list_end from);

/* A leaf. Valid until the list changes. */
struct paged_list_place {
    struct page_tree_path path;
    struct bytes page;
};
/* The leaf with the element, which exists; returns where it is in it. */
size_t paged_list_seek(const struct value *value, size_t index, struct paged_list_place *place);
/* The leaf beside the place's. False: there is none. */
bool paged_list_step(const struct value *value, enum list_end towards, struct paged_list_place *place);

/* The elements with these indices, as far as there are any; 0, SIZE_MAX: all. */
static inline bool paged_list_has(const struct value *value, size_t index, size_t count)
{
    return paged_tree_has_ranks(value, index, count);
}
/* Whether all are resident; none is wanted if not. */
bool paged_list_is_resident(const struct value *value);
/* Needed by paged_list_push of that many elements. */
bool paged_list_has_push(const struct value *value, enum list_end end, size_t count);
/* Needed by paged_list_delete: the nodes above, and the leaves of which some elements stay. */
bool paged_list_has_removal(const struct value *value, size_t index, size_t count);
/* Needed by reading and deleting `count` elements at an end; false if more is to be asked for (paged_list_has, paged_list_has_removal). For few elements this is faster. */
bool paged_list_has_end(const struct value *value, enum list_end end, size_t count);
/* The elements from an end on up to the one that is the `matches`th that equals `element`, or `length_max` of them. */
bool paged_list_has_search(const struct value *value, struct bytes element, enum list_end from, size_t matches, size_t length_max);

#endif
