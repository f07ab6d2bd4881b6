/* Lists: elements in an order of their own. Few and short ones are a listpack, else chunks of them (value/chunk_list.h). Encodings
 * change as in Redis 7.2: list_grow before elements are added or replaced, list_shrink after some have gone or were replaced.
 *
 * Every function that takes a list without const may change list->encoding and list->object; the caller puts the value back into its
 * entry (key_changed does). Bytes given to one must not lie in the list. An index counts from 0 at the head.
 */
#ifndef KELVIN_VALUE_LIST_H
#define KELVIN_VALUE_LIST_H

#include "base/status.h"
#include "base/text.h"
#include "value/chunk_list.h"
#include "value/value.h"

struct value list_create(void);                                 /* empty, a listpack */
size_t list_count(const struct value *list);

/* `count` elements with `bytes` bytes in all are about to come: a listpack that would be too large becomes chunks. */
void list_grow(struct value *list, const struct value_limits *limits, size_t count, size_t bytes);
/* Elements have gone: chunks that are one chunk, at most half full, become a listpack. */
void list_shrink(struct value *list, const struct value_limits *limits);

void list_push(struct value *list, enum list_end end, struct bytes element);
/* `index` is there. */
void list_set(struct value *list, size_t index, struct bytes element);
/* Before the element `index`; list_count appends. */
void list_insert(struct value *list, size_t index, struct bytes element);
/* `count` elements from `index` on, which are there. */
void list_delete(struct value *list, size_t index, size_t count);
/* Removes elements that equal `element`, at most `count_max`, the first ones seen from that end. Returns how many. */
size_t list_remove(struct value *list, struct bytes element, size_t count_max, enum list_end from);

/* Walking from the element `index` (or beyond the last: nothing to see) towards an end:
 *
 *   list_iterate(&iterator, list, 0, LIST_TAIL);
 *   while (list_step(&iterator)) ... list_element(&iterator, digits) ...
 *   list_iterate_end(&iterator);
 *
 * An element is borrowed until the next step, or printed into `digits`. The list does not change meanwhile. */
struct list_iterator {
    struct chunk_list_iterator chunks;
};
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

/* Building one from bytes that nobody vouches for, as the codec does. list_build_pack: the elements of a listpack, which is copied;
 * STATUS_CORRUPT if it is none. list_build_end gives the list its encoding; STATUS_CORRUPT if it is empty: free it. */
struct value list_build(const struct value_limits *limits);
void list_build_add(struct value *list, struct bytes element);
enum status list_build_pack(struct value *list, const struct value_limits *limits, struct bytes listpack);
enum status list_build_end(struct value *list, const struct value_limits *limits);

#endif
