/* Lists: elements in the order in which they were inserted. A short list is a listpack, a longer one chunks of
 * listpacks (value/chunk_list.h). Encodings change as in Redis 7.2: list_grow before elements are added or replaced,
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
#include "value/value.h"

struct value list_create(void);                                 /* empty, a listpack */
size_t list_count(const struct value *list);

/* `count` elements with a total of `bytes` bytes are about to be added: a listpack that would be too large becomes chunks. */
void list_grow(struct value *list, const struct value_limits *limits, size_t count, size_t bytes);
/* Elements were removed: a list with a single chunk that is at most half full becomes a listpack. */
void list_shrink(struct value *list, const struct value_limits *limits);

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
    struct chunk_list_iterator chunks;
};
/* The element at an end of a list that is not empty: borrowed until the list changes, or printed into `digits`. */
struct bytes list_end_element(const struct value *list, enum list_end end, char digits[TEXT_INT_SIZE]);
void list_iterate(struct list_iterator *iterator, const struct value *list, size_t index, enum list_end towards);
static inline bool list_step(struct list_iterator *iterator) { return chunk_list_step(&iterator->chunks); }
static inline struct bytes list_element(const struct list_iterator *iterator, char digits[TEXT_INT_SIZE])
{
    return chunk_list_element(&iterator->chunks, digits);
}
static inline bool list_equals(const struct list_iterator *iterator, struct bytes bytes)
{
    return chunk_list_equals(&iterator->chunks, bytes);
}
static inline void list_iterate_end(struct list_iterator *iterator) { chunk_list_iterate_end(&iterator->chunks); }

/* Building a list from untrusted bytes, for the codec. list_build_pack adds the elements of a listpack, which is copied;
 * STATUS_CORRUPT if it is not valid. list_build_end gives the list its encoding; STATUS_CORRUPT if it is empty: free it. */
struct value list_build(const struct value_limits *limits);
void list_build_add(struct value *list, struct bytes element);
enum status list_build_pack(struct value *list, const struct value_limits *limits, struct bytes listpack);
enum status list_build_end(struct value *list, const struct value_limits *limits);

#endif
