/* List page: some elements of a large list as one run of bytes, in memory as on disk: a leaf of a page tree (containers/page_tree.h).
 *
 *   page = 0 u8 | listpack          elements, one at least (containers/listpack.h)
 *        | 1 u8 | bytes             an element that is too large to be with others
 *
 * A position is that of an element in the listpack. Functions that change a page have one with room for what it becomes, and don't change pages of a large element. All but
 * list_page_is_sound trust the bytes. Bytes of elements must not be part of a page that is changed.
 */
#ifndef KELVIN_CONTAINERS_LIST_PAGE_H
#define KELVIN_CONTAINERS_LIST_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "containers/listpack.h"

enum list_page_form { LIST_PAGE_PACK, LIST_PAGE_LARGE };
enum { LIST_PAGE_FORM_SIZE = 1, LIST_PAGE_EMPTY_SIZE = LIST_PAGE_FORM_SIZE + LISTPACK_EMPTY_SIZE };

/* For bytes from outside: nothing else is read. */
bool list_page_is_sound(struct bytes page);

static inline bool list_page_is_large(struct bytes page)
{
    return page.data[0] != LIST_PAGE_PACK;
}

/* Returns the listpack of a page that is not one of a large element. */
static inline const struct listpack *list_page_pack(struct bytes page)
{
    return (const struct listpack *)(page.data + LIST_PAGE_FORM_SIZE);
}

/* The same, to be changed (listpack_place ...). */
static inline struct listpack *list_page_pack_in(char *page)
{
    return (struct listpack *)(page + LIST_PAGE_FORM_SIZE);
}

/* The large element. */
static inline struct bytes list_page_large(struct bytes page)
{
    return bytes_of(page.data + LIST_PAGE_FORM_SIZE, page.size - LIST_PAGE_FORM_SIZE);
}

size_t list_page_count(struct bytes page);

/* Whether a page with this element, and no other, would have more than `size_max` bytes: then it is one of a large element. */
bool list_page_is_too_large(struct bytes element, size_t size_max);
/* A page of LIST_PAGE_EMPTY_SIZE bytes without elements, which gets some at once. */
void list_page_write_empty(char *page);
/* Bytes of a page with this element only, which is a large one if it would have more than `size_max` bytes otherwise; writes it. */
size_t list_page_size_of(struct bytes element, size_t size_max);
void list_page_write(char *page, struct bytes element, size_t size_max);

/* Inserts before the position; LISTPACK_NONE appends. It gets larger by listpack_element_size. */
void list_page_insert(char *page, size_t at, struct bytes element);
/* Removes `count` elements from the position on. It gets smaller by listpack_size_between. Returns the position after them. */
size_t list_page_remove(char *page, size_t at, size_t count);

/* Bytes of a page of `count` elements from the position on; writes it. */
size_t list_page_size_of_some(struct bytes page, size_t at, size_t count);
void list_page_write_some(char *to, struct bytes page, size_t at, size_t count);
/* Bytes of a page that gets the elements of another one, too; appends them. */
size_t list_page_size_of_both(struct bytes left, struct bytes right);
void list_page_append(char *left, struct bytes right);

#endif
