/* Lists: elements in the order in which they were inserted. A short list is a listpack, a longer one chunks of
 * listpacks (value/chunk_list.h), or in pages (value/paged_list.h). Encodings change as in Redis 7.2: list_grow before elements are added or replaced,
 * list_shrink after elements were removed or replaced.
 *
 * Every function that takes a list without const may change list->encoding and list->object; the caller puts the value back into
 * its entry (key_changed does). Bytes passed to a function must not be part of the list. An index counts from 0 at the head.
 */
#ifndef KELVIN_VALUE_LIST_H
#define KELVIN_VALUE_LIST_H

#include "base/status.h"
#include "base/text.h"
#include "value/chunk_list.h"
#include "value/paged_list.h"
#include "value/value.h"

struct value list_create(void);                                 /* empty, a listpack */
size_t list_count(const struct value *list);

/* `count` elements with a total of `bytes` bytes are about to be added: a listpack that would be too large becomes chunks. */
void list_grow(struct value *list, const struct value_limits *limits, size_t count, size_t bytes);
/* Elements were removed: a list with a single chunk that is at most half full becomes a listpack. */
void list_shrink(struct value *list, const struct value_limits *limits);
/* The same for a list that is not as a whole in memory: `*pack` has its elements, and the caller stores that in its place (key_replace). False: it stays as it is. */
bool list_becomes_pack(const struct value *list, const struct value_limits *limits, struct value *pack);

void list_push(struct value *list, enum list_end end, struct bytes element);
/* `index` must exist. */
void list_set(struct value *list, size_t index, struct bytes element);
/* Inserts before the element `index`; list_count appends. */
void list_insert(struct value *list, size_t index, struct bytes element);
/* Removes `count` elements from `index` on, which must exist. */
void list_delete(struct value *list, size_t index, size_t count);
/* Removes elements equal to `element`, at most `count_max`, starting from that end. Returns the number removed. */
size_t list_remove(struct value *list, struct bytes element, size_t count_max, enum list_end from);

/* Iterates from the element `index` towards an end; if `index` is the count, there are no elements:
 *
 *   list_iterate(&iterator, list, 0, LIST_TAIL);
 *   while (list_step(&iterator)) ... list_element(&iterator, digits) ...
 *   list_iterate_end(&iterator);
 *
 * An element is borrowed until the next step, or printed into `digits`. The list must not change meanwhile. */
struct list_iterator {
    struct chunk_list_iterator chunks;          /* of one in pages: a part's or a leaf's */
    struct paged_list_iterator in_pages;
};
/* The element at an end of a list that is not empty: borrowed until the list changes, or printed into `digits`. */
struct bytes list_end_element(const struct value *list, enum list_end end, char digits[TEXT_INT_SIZE]);
void list_iterate(struct list_iterator *iterator, const struct value *list, size_t index, enum list_end towards);
static inline bool list_step(struct list_iterator *iterator)
{
    return chunk_list_step(&iterator->chunks) || (iterator->in_pages.list != NULL && paged_list_next_part(&iterator->in_pages, &iterator->chunks));
}
static inline struct bytes list_element(const struct list_iterator *iterator, char digits[TEXT_INT_SIZE])
{
    return chunk_list_element(&iterator->chunks, digits);
}
static inline bool list_equals(const struct list_iterator *iterator, struct bytes bytes)
{
    return chunk_list_equals(&iterator->chunks, bytes);
}
static inline void list_iterate_end(struct list_iterator *iterator) { chunk_list_iterate_end(&iterator->chunks); }

/* Questions of a call about what it is about to do with a list that may be in pages. False: pages are missing, and the call asks for them (key_ask); the question is to be put again then. */
static inline bool list_is_here(const struct value *list) { return !value_is_paged(list); }       /* nothing needs to be asked */
bool list_has_ranks(const struct value *list, size_t index, size_t count);              /* reading these, as far as they are there; 0, SIZE_MAX: all */
bool list_has_push(const struct value *list, enum list_end end, size_t count, size_t bytes);           /* list_push of that many, which have `bytes` bytes together */
bool list_has_set(const struct value *list, size_t index, size_t bytes);                /* list_set of one, which exists */
bool list_has_popped(const struct value *list, const struct value_limits *limits, enum list_end end, size_t count);     /* reading and deleting these, which exist */
bool list_has_trim(const struct value *list, const struct value_limits *limits, size_t from, size_t to);            /* list_delete of all but these, of which there is one at least, or of all */
/* Reading from an end up to the `matches`th element that equals this one, `length_max` at most; and list_insert there, or list_remove of them. */
bool list_has_search(const struct value *list, struct bytes element, enum list_end from, size_t matches, size_t length_max);

/* NULL: it is not in chunks. */
const struct chunk_list *list_chunks(const struct value *list);

/* Building a list from untrusted bytes, for the codec. list_build_pack adds the elements of a listpack, which is copied;
 * STATUS_CORRUPT if it is not valid. list_build_end gives the list its encoding; STATUS_CORRUPT if it is empty: free it. */
struct value list_build(const struct value_limits *limits);
void list_build_add(struct value *list, struct bytes element);
enum status list_build_pack(struct value *list, const struct value_limits *limits, struct bytes listpack);
enum status list_build_end(struct value *list, const struct value_limits *limits);

#endif
