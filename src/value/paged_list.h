/* List in pages: the elements near both ends are with the root, in chunks; those between them are in a tree of pages (value/list_tree.h). So a call at an end, which is what queues are used for, changes
 * nothing but the root, and costs little more than in a list in chunks.
 *
 *   list = head, chunks | tree | tail, chunks
 *
 * An end has up to two leaves of the tree in bytes. When it gets longer, the elements that are farthest from the end become a leaf; when it is empty and elements are taken there, the tree's leaf at that end
 * becomes the end. An element that does not fit into a leaf with others is in the tree. list-max-listpack-size and list-compress-depth are not looked at: the store compresses.
 *
 * The functions are as those of chunk_list, for values of VALUE_LIST with VALUE_PAGED. What they miss is read at once. What a call will need, it asks for before: the functions named paged_list_has_ return
 * false if pages are missing, which are wanted then; after they are loaded others may be.
 */
#ifndef KELVIN_VALUE_PAGED_LIST_H
#define KELVIN_VALUE_PAGED_LIST_H

#include "value/list_tree.h"

struct paged_list {
    struct paged_ordered ordered;       /* first */
    struct chunk_list *ends[2];         /* by enum list_end; NULL or empty: no elements */
};

/* Takes a copy of the elements of a list, which stays as it is, into pages that are created. `access` as it is to be attached, but its root is set here. */
struct paged_value *paged_list_create(const struct chunk_list *list, uint64_t id, struct paged_access *access);
/* Only roots; the pages exist. The tree's root and the ends (each may be NULL) are the value's afterwards. */
struct paged_value *paged_list_of_roots(const struct paged_root *root, const struct page_tree_root *tree, struct chunk_list *const ends[2], uint64_t id);
/* The root of a copy, with copies of the ends. */
struct paged_value *paged_list_copy_root(const struct value *value, const struct page_tree_root *tree, uint64_t id);
/* An end as one listpack, appended to the buffer: nothing if it has no elements. */
void paged_list_write_end(const struct value *value, enum list_end end, struct buffer *out);
/* Whether bytes from outside are that. */
bool paged_list_end_is_sound(struct bytes bytes);
/* The end that such bytes are, for paged_list_of_roots. */
struct chunk_list *paged_list_read_end(struct bytes bytes);
void paged_list_free(struct value *value);
size_t paged_list_memory(const struct value *value);

static inline const struct chunk_list *paged_list_end(const struct value *value, enum list_end end)
{
    return ((const struct paged_list *)value->object)->ends[end];
}

static inline size_t paged_list_end_count(const struct value *value, enum list_end end)
{
    const struct chunk_list *chunks = paged_list_end(value, end);

    return chunks != NULL ? chunk_list_count(chunks) : 0;
}

static inline size_t paged_list_count(const struct value *value)
{
    return paged_list_end_count(value, LIST_HEAD) + list_tree_count(value) + paged_list_end_count(value, LIST_TAIL);
}

/* Bytes of all pages and ends. Of leaves that were removed unread it is not known exactly. */
size_t paged_list_size(const struct value *value);

void paged_list_push(const struct value *value, enum list_end end, struct bytes element);
void paged_list_set(const struct value *value, size_t index, struct bytes element);
void paged_list_insert(const struct value *value, size_t index, struct bytes element);
void paged_list_delete(const struct value *value, size_t index, size_t count);
size_t paged_list_remove(const struct value *value, struct bytes element, size_t count_max, enum list_end from);
/* As chunk_list_end_element. */
struct bytes paged_list_end_element(const struct value *value, enum list_end end, char digits[TEXT_INT_SIZE]);

/* Iterates as over a list in chunks (value/chunk_list.h): `chunks` has the elements of one part at a time, and paged_list_next_part goes on to the next one when they are at their end. */
enum list_part { PART_HEAD, PART_TREE, PART_TAIL };
struct paged_list_iterator {
    const struct value *list;           /* NULL: it is not in pages, or there are no more parts */
    enum list_part part;
    struct list_tree_place leaf;
};
void paged_list_iterate(struct paged_list_iterator *iterator, struct chunk_list_iterator *chunks, const struct value *list, size_t index, enum list_end towards);
/* Steps to its first element. False: there is none. */
bool paged_list_next_part(struct paged_list_iterator *iterator, struct chunk_list_iterator *chunks);

/* The elements with these indices, as far as there are any; 0, SIZE_MAX: all. */
bool paged_list_has(const struct value *value, size_t index, size_t count);
/* Needed by paged_list_push of that many elements, which have `bytes` bytes together; by paged_list_set of one. */
bool paged_list_has_push(const struct value *value, enum list_end end, size_t count, size_t bytes);
bool paged_list_has_set(const struct value *value, size_t index, size_t bytes);
/* Needed by paged_list_delete: the nodes above, and the leaves of which some elements stay. */
bool paged_list_has_removal(const struct value *value, size_t index, size_t count);
/* Needed by reading and deleting `count` elements at an end; false if more is to be asked for (paged_list_has, paged_list_has_removal). For few elements this is faster. */
bool paged_list_has_end(const struct value *value, enum list_end end, size_t count);
/* The elements from an end on up to the one that is the `matches`th that equals `element`, or `length_max` of them; and what inserting or removing something there needs. */
bool paged_list_has_search(const struct value *value, struct bytes element, enum list_end from, size_t matches, size_t length_max);

#endif
