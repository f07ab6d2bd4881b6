#include "containers/list_page.h"

#include <string.h>

#include "base/check.h"

bool list_page_is_sound(struct bytes page)
{
    if (page.size <= LIST_PAGE_FORM_SIZE)
        return false;
    if (page.data[0] == LIST_PAGE_LARGE)
        return true;
    return page.data[0] == LIST_PAGE_PACK && listpack_is_valid(list_page_large(page)) && listpack_count(list_page_pack(page)) > 0;
}

size_t list_page_count(struct bytes page)
{
    return list_page_is_large(page) ? 1 : listpack_count(list_page_pack(page));
}

bool list_page_is_too_large(struct bytes element, size_t size_max)
{
    return element.size >= size_max || LIST_PAGE_EMPTY_SIZE + listpack_element_size(element) > size_max;
}

size_t list_page_size_of(struct bytes element, size_t size_max)
{
    return list_page_is_too_large(element, size_max) ? LIST_PAGE_FORM_SIZE + element.size : LIST_PAGE_EMPTY_SIZE + listpack_element_size(element);
}

void list_page_write_empty(char *page)
{
    page[0] = LIST_PAGE_PACK;
    listpack_place_empty(list_page_pack_in(page));
}

void list_page_write(char *page, struct bytes element, size_t size_max)
{
    if (list_page_is_too_large(element, size_max)) {
        page[0] = LIST_PAGE_LARGE;
        memcpy(page + LIST_PAGE_FORM_SIZE, element.data, element.size);
    } else {
        list_page_write_empty(page);
        listpack_place(list_page_pack_in(page), LISTPACK_NONE, element);
    }
}

void list_page_insert(char *page, size_t at, struct bytes element)
{
    CHECK(page[0] == LIST_PAGE_PACK);
    listpack_place(list_page_pack_in(page), at, element);
}

size_t list_page_remove(char *page, size_t at, size_t count)
{
    CHECK(page[0] == LIST_PAGE_PACK);
    return listpack_take_out(list_page_pack_in(page), at, count);
}

size_t list_page_size_of_some(struct bytes page, size_t at, size_t count)
{
    return LIST_PAGE_EMPTY_SIZE + listpack_size_between(list_page_pack(page), at, count);
}

void list_page_write_some(char *to, struct bytes page, size_t at, size_t count)
{
    list_page_write_empty(to);
    listpack_place_some(list_page_pack_in(to), list_page_pack(page), at, listpack_size_between(list_page_pack(page), at, count), count);
}

size_t list_page_size_of_both(struct bytes left, struct bytes right)
{
    return left.size + right.size - LIST_PAGE_EMPTY_SIZE;
}

void list_page_append(char *left, struct bytes right)
{
    const struct listpack *pack = list_page_pack(right);

    listpack_place_some(list_page_pack_in(left), pack, listpack_first(pack), right.size - LIST_PAGE_EMPTY_SIZE, listpack_count(pack));
}
