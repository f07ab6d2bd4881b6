/* List tree: the elements of a list in pages (value/paged_list.h) but those near its ends: a page tree (containers/page_tree.h) by position, whose leaves are list pages (containers/list_page.h).
 *
 * A leaf has up to four times the bytes of a usual page, or one element. An index is that of an element in the tree.
 *
 * The functions are as those of chunk_list, for values of VALUE_LIST with VALUE_PAGED. What they miss is read at once. What a call will need, it asks for before: the functions named
 * list_tree_has_ return false if pages are missing, which are wanted then; after they are loaded others may be, as what is below a missing node is not known.
 */
#ifndef KELVIN_VALUE_LIST_TREE_H
#define KELVIN_VALUE_LIST_TREE_H

#include "containers/list_page.h"
#include "value/chunk_list.h"
#include "value/paged_tree.h"

/* Takes a copy of the elements of a list, which stays as it is, into pages that are created; the tree has none before, and its pages are attached. */
void list_tree_fill(const struct value *value, const struct chunk_list *list);

static inline size_t list_tree_count(const struct value *value)
{
    return paged_ordered_of(value)->tree.count;
}

static inline size_t list_tree_leaves(const struct value *value)
{
    return paged_ordered_of(value)->tree.leaves;
}

void list_tree_push(const struct value *value, enum list_end end, struct bytes element);
/* A leaf at an end, of a sound page with `count` elements. */
void list_tree_add_page(const struct value *value, enum list_end end, struct bytes page, size_t count);
void list_tree_set(const struct value *value, size_t index, struct bytes element);
void list_tree_insert(const struct value *value, size_t index, struct bytes element);
void list_tree_delete(const struct value *value, size_t index, size_t count);
void list_tree_drop_leaf(const struct value *value, const struct page_tree_path *path);
size_t list_tree_remove(const struct value *value, struct bytes element, size_t count_max, enum list_end from);

/* A leaf. Valid until the list changes. */
struct list_tree_place {
    struct page_tree_path path;
    struct bytes page;
};
/* The leaf with the element, which exists; returns where it is in it. */
size_t list_tree_seek(const struct value *value, size_t index, struct list_tree_place *place);
/* Only where it is. False: a node is wanted. */
bool list_tree_find_path(const struct value *value, size_t index, struct page_tree_path *path);
/* The leaf beside the place's. False: there is none. */
bool list_tree_step(const struct value *value, enum list_end towards, struct list_tree_place *place);

/* The leaf at an end is needed soon. */
void list_tree_note_ahead(const struct value *value, enum list_end end);
/* Whether all are resident; none is wanted if not. */
bool list_tree_is_resident(const struct value *value);
/* Needed by a leaf more at an end. */
bool list_tree_has_nodes_at(const struct value *value, enum list_end end);
/* Needed by list_tree_delete: the nodes above, and the leaves of which some elements stay. */
bool list_tree_has_removal(const struct value *value, size_t index, size_t count);
/* Needed by reading and deleting `count` elements at an end; false if more is to be asked for (list_tree_has, list_tree_has_removal). For few elements this is faster. */
bool list_tree_has_end(const struct value *value, enum list_end end, size_t count);
/* The elements from an end on up to the one that is the `matches`th that equals `element`, or `length_max` of them. */
bool list_tree_has_search(const struct value *value, struct bytes element, enum list_end from, size_t matches, size_t length_max);

#endif
