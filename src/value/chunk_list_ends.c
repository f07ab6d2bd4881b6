/* Adding and removing at the ends of a list. Listpacks get a gap for that, see listpack.h. */
#include "value/chunk_list_private.h"

static void prepend(const struct chunk_list *list, struct chunk *chunk, struct bytes element)
{
    size_t gap = chunk->gap, size_max, count_max;

    if (element.size > GAP_ELEMENT_MAX) {
        chunk_open(chunk);
        listpack_insert(pack_slot(chunk), listpack_first(pack_of(chunk)), element);
        return;
    }
    chunk_limits(list->fill, &size_max, &count_max);
    if (size_max == SIZE_MAX)
        size_max = SIZE_OF_COUNTED;
    listpack_gap_prepend((struct listpack **)&chunk->data, &gap, size_max, element);
    chunk->gap = (uint16_t)gap;
}

static void add_to_chunk(const struct chunk_list *list, struct chunk *chunk, enum list_end end, struct bytes element)
{
    chunk->is_incompressible = false;
    chunk->count++;
    if (end == LIST_HEAD)
        prepend(list, chunk, element);
    else
        listpack_gap_append((struct listpack **)&chunk->data, chunk->gap, element);
}

void chunk_list_push(struct chunk_list *list, enum list_end end, struct bytes element)
{
    size_t index = end == LIST_HEAD || list->used == 0 ? 0 : list->used - 1;
    struct chunk *chunk = list->used > 0 ? chunk_at(list, index) : NULL;

    list->count++;
    if (chunk != NULL && chunk_has_room(list, chunk, element)) {      /* the ends are never compressed */
        add_to_chunk(list, chunk, end, element);
        return;
    }
    if (chunk != NULL && end == LIST_HEAD)
        chunk_close_gap(chunk);
    index = end == LIST_HEAD ? 0 : list->used;
    chunk_list_insert_alone(list, index, element);
    settle_around(list, index, index);
}

/* The ends are never compressed. */
struct bytes chunk_list_end_element(const struct chunk_list *list, enum list_end end, char digits[TEXT_INT_SIZE])
{
    const struct chunk *chunk = chunk_at(list, end == LIST_HEAD ? 0 : list->used - 1);
    const struct listpack *pack = pack_of(chunk);

    if (chunk->form == CHUNK_PLAIN)
        return plain_bytes(chunk);
    CHECK(chunk->form == CHUNK_PACK);
    return listpack_get(pack, end == LIST_HEAD ? listpack_first(pack) : listpack_last(pack), digits);
}

void chunk_delete_first(struct chunk *chunk, size_t count)
{
    size_t gap = chunk->gap;

    listpack_gap_delete_first((struct listpack **)&chunk->data, &gap, count);
    chunk->gap = (uint16_t)gap;
    chunk->is_incompressible = false;
    chunk->count -= (uint32_t)count;
}

void chunk_delete_last(struct chunk *chunk, size_t count)
{
    listpack_gap_delete_last((struct listpack **)&chunk->data, chunk->gap, count);
    chunk->is_incompressible = false;
    chunk->count -= (uint32_t)count;
}
