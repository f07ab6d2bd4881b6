/* Changes in the middle of a list: inserting, deleting, replacing. */
#include "value/chunk_list_private.h"

#include "base/check.h"
#include "base/mem.h"

enum { PACK_SIZE_MAX = 128 * 1024 };   /* replacing elements may let a chunk exceed its limit, but not this */

/* The chunk's elements from `index` on become a new chunk after it. */
static void split_chunk(struct chunk_list *list, size_t chunk_index, size_t index)
{
    struct chunk *left, *right = chunk_ring_insert(list, chunk_index + 1);
    struct listpack *pack = listpack_create();
    char digits[TEXT_INT_SIZE];
    size_t from;

    left = chunk_at(list, chunk_index);
    CHECK(left->form == CHUNK_PACK && index > 0 && index < left->count);
    from = listpack_seek(pack_of(left), (int64_t)index);
    for (size_t at = from; at != LISTPACK_NONE; at = listpack_next(pack_of(left), at)) {
        int64_t number;

        if (listpack_get_int(pack_of(left), at, &number))
            listpack_append_int(&pack, number);
        else
            listpack_append(&pack, listpack_get(pack_of(left), at, digits));
    }
    listpack_delete(pack_slot(left), from, left->count - index);
    *right = (struct chunk){ .data = pack, .form = CHUNK_PACK, .count = left->count - (uint32_t)index };
    left->count = (uint32_t)index;
}

/* Merges a chunk with the next one, if the result is not too large. */
static bool merge_with_next(struct chunk_list *list, size_t index)
{
    struct chunk *left, *right;
    char digits[TEXT_INT_SIZE];

    if (index + 1 >= list->used)
        return false;
    left = chunk_at(list, index);
    right = chunk_at(list, index + 1);
    if (left->form == CHUNK_PLAIN || right->form == CHUNK_PLAIN)
        return false;
    chunk_open(left);
    chunk_open(right);
    if (chunk_exceeds(list->fill, listpack_size(pack_of(left)) + listpack_size(pack_of(right)) - LISTPACK_EMPTY_SIZE, left->count + right->count))
        return false;
    for (size_t at = listpack_first(pack_of(right)); at != LISTPACK_NONE; at = listpack_next(pack_of(right), at))
        listpack_append(pack_slot(left), listpack_get(pack_of(right), at, digits));
    left->count += right->count;
    chunk_free(right);
    chunk_ring_remove(list, index + 1, 1);
    return true;
}

/* Inserts into a chunk that has room, or is about to be divided. */
static void insert_into(struct chunk_list *list, size_t chunk_index, size_t index, struct bytes element)
{
    struct chunk *chunk = chunk_at(list, chunk_index);

    chunk_open(chunk);
    listpack_insert(pack_slot(chunk), index < chunk->count ? listpack_seek(pack_of(chunk), (int64_t)index) : LISTPACK_NONE, element);
    chunk->count++;
}

void chunk_list_insert(struct chunk_list *list, size_t index, struct bytes element)
{
    size_t at = index, first, last;
    struct chunk *chunk;

    if (index == 0 || index == list->count) {
        chunk_list_push(list, index == 0 ? LIST_HEAD : LIST_TAIL, element);
        return;
    }
    first = last = chunk_list_find(list, &at);
    chunk = chunk_at(list, first);
    list->count++;
    if (chunk_has_room(list, chunk, element)) {
        insert_into(list, first, at, element);
    } else if (at == 0 && chunk_has_room(list, chunk_at(list, first - 1), element)) {
        first--;
        insert_into(list, first, chunk_at(list, first)->count, element);
    } else if (at == 0) {
        chunk_list_insert_alone(list, first, element);
        last++;
    } else {
        chunk_open(chunk);
        split_chunk(list, first, at);
        if (chunk_has_room(list, chunk_at(list, first), element)) {
            insert_into(list, first, at, element);
        } else {
            chunk_list_insert_alone(list, first + 1, element);
            last++;
        }
        last++;
        merge_with_next(list, last);
        if (merge_with_next(list, last - 1))
            last--;
        if (first > 0 && merge_with_next(list, first - 1)) {
            first--;
            last--;
        }
    }
    /* A neighbour that was only examined may be decompressed now. */
    settle_around(list, first > 0 ? first - 1 : 0, last + 2);
}

/* Removes `count` elements of one chunk, not all of it. */
static void delete_within(struct chunk *chunk, size_t index, size_t count)
{
    if (chunk->form == CHUNK_COMPRESSED)
        chunk_decompress(chunk);
    if (index == 0) {
        chunk_delete_first(chunk, count);
    } else if (index + count == chunk->count) {
        chunk_delete_last(chunk, count);
    } else {
        chunk_open(chunk);
        listpack_delete(pack_slot(chunk), listpack_seek(pack_of(chunk), (int64_t)index), count);
        chunk->count -= (uint32_t)count;
    }
}

void chunk_list_delete(struct chunk_list *list, size_t index, size_t count)
{
    size_t chunk_index, whole_first, whole_count = 0, touched;

    if (count == 0)
        return;
    CHECK(index + count <= list->count);
    chunk_index = touched = chunk_list_find(list, &index);
    list->count -= count;
    if (index > 0) {
        struct chunk *chunk = chunk_at(list, chunk_index);
        size_t here = chunk->count - index < count ? chunk->count - index : count;

        delete_within(chunk, index, here);
        count -= here;
        chunk_index++;
    }
    whole_first = chunk_index;
    for (; count > 0 && chunk_at(list, chunk_index)->count <= count; chunk_index++, whole_count++) {
        count -= chunk_at(list, chunk_index)->count;
        chunk_free(chunk_at(list, chunk_index));
    }
    if (count > 0)
        delete_within(chunk_at(list, chunk_index), 0, count);
    chunk_ring_remove(list, whole_first, whole_count);
    settle_around(list, touched, touched + 1);
}

void chunk_list_set(struct chunk_list *list, size_t index, struct bytes element)
{
    size_t at = index, chunk_index = chunk_list_find(list, &at);
    struct chunk *chunk = chunk_at(list, chunk_index);

    if (chunk->form != CHUNK_PLAIN)
        chunk_open(chunk);
    if (chunk->count == 1) {
        chunk_free(chunk);
        chunk_ring_remove(list, chunk_index, 1);
        chunk_list_insert_alone(list, chunk_index, element);
    } else if (element.size < PLAIN_SIZE_MIN && listpack_size(pack_of(chunk)) + element.size < PACK_SIZE_MAX) {
        listpack_replace(pack_slot(chunk), listpack_seek(pack_of(chunk), (int64_t)at), element);
    } else {
        chunk_list_delete(list, index, 1);
        chunk_list_insert(list, index, element);
        return;
    }
    settle_around(list, chunk_index, chunk_index);
}

size_t chunk_remove_from_pack(struct listpack **pack, struct bytes element, size_t count_max, enum list_end from)
{
    size_t removed = 0, at;

    if (from == LIST_TAIL) {
        for (at = listpack_last(*pack); at != LISTPACK_NONE && removed < count_max; ) {
            size_t previous = listpack_previous(*pack, at);

            if (listpack_equals(*pack, at, element)) {
                listpack_delete(pack, at, 1);
                removed++;
            }
            at = previous;
        }
        return removed;
    }
    at = listpack_find(*pack, listpack_first(*pack), element, 0);
    while (at != LISTPACK_NONE) {
        at = listpack_delete(pack, at, 1);
        if (++removed == count_max)
            break;
        at = listpack_find(*pack, at, element, 0);
    }
    return removed;
}

/* May leave the chunk empty. */
static size_t remove_from_chunk(struct chunk *chunk, struct bytes element, size_t count_max, enum list_end from)
{
    size_t removed;

    if (chunk->form == CHUNK_PLAIN) {
        removed = bytes_equal(plain_bytes(chunk), element);
    } else {
        if (chunk->form == CHUNK_COMPRESSED) {
            char *pack = chunk_unpack(chunk);
            bool is_there = listpack_find((struct listpack *)pack, listpack_first((struct listpack *)pack), element, 0) != LISTPACK_NONE;

            mem_free(pack);
            if (!is_there)
                return 0;
        }
        chunk_open(chunk);
        removed = chunk_remove_from_pack((struct listpack **)&chunk->data, element, count_max, from);
        if (removed > 0)
            chunk->is_incompressible = false;
    }
    chunk->count -= (uint32_t)removed;
    return removed;
}

/* Removes the chunks that are empty. */
static void drop_empty(struct chunk_list *list)
{
    size_t kept = 0;

    for (size_t i = 0; i < list->used; i++) {
        struct chunk *chunk = chunk_at(list, i);

        if (chunk->count == 0)
            chunk_free(chunk);
        else if (kept++ != i)
            *chunk_at(list, kept - 1) = *chunk;
    }
    chunk_ring_remove(list, kept, list->used - kept);
}

size_t chunk_list_remove(struct chunk_list *list, struct bytes element, size_t count_max, enum list_end from)
{
    size_t removed = 0;
    bool any_empty = false;

    for (size_t i = 0; i < list->used && removed < count_max; i++) {
        size_t index = from == LIST_HEAD ? i : list->used - 1 - i, here;

        here = remove_from_chunk(chunk_at(list, index), element, count_max - removed, from);
        any_empty |= chunk_at(list, index)->count == 0;
        removed += here;
        if (here > 0 && list->depth > 0 && chunk_at(list, index)->count > 0)
            chunk_settle(list, index);
    }
    list->count -= removed;
    if (any_empty) {
        drop_empty(list);
        settle_around(list, 0, 0);
    }
    return removed;
}

static size_t elements_size(const struct chunk *chunk)
{
    CHECK(chunk->form == CHUNK_PACK);
    return listpack_size(pack_of(chunk)) - LISTPACK_EMPTY_SIZE;
}

/* The elements at an end of the chunk that have at most `room` bytes together are copied to the pack. */
static size_t copy_some(const struct chunk *chunk, enum list_end from, struct listpack *pack, size_t room)
{
    const struct listpack *source = pack_of(chunk);
    size_t first = listpack_first(source), count = 0, size = elements_size(chunk), skipped = 0;

    if (from == LIST_TAIL) {
        while (size - skipped > room) {
            skipped += listpack_size_between(source, first + skipped, 1);
            count++;
        }
        listpack_place_some(pack, source, first + skipped, size - skipped, chunk->count - count);
        return chunk->count - count;
    }
    for (size_t more; count < chunk->count && (more = listpack_size_between(source, first + skipped, 1)) <= room - skipped; count++)
        skipped += more;
    listpack_place_some(pack, source, first, skipped, count);
    return count;
}

size_t chunk_list_move(struct chunk_list *list, enum list_end from, struct listpack *pack, size_t size_max)
{
    size_t room = size_max - listpack_size(pack), whole = 0, moved = 0, index = 0;

    /* The chunks that go as a whole, and a part of the next one. */
    while (whole < list->used && elements_size(chunk_at(list, from == LIST_HEAD ? whole : list->used - 1 - whole)) <= room) {
        room -= elements_size(chunk_at(list, from == LIST_HEAD ? whole : list->used - 1 - whole));
        whole++;
    }
    if (from == LIST_TAIL && whole < list->used && room > 0)
        moved = copy_some(chunk_at(list, list->used - 1 - whole), from, pack, room);
    for (size_t i = 0; i < whole; i++) {
        const struct chunk *chunk = chunk_at(list, from == LIST_HEAD ? i : list->used - whole + i);

        listpack_place_some(pack, pack_of(chunk), listpack_first(pack_of(chunk)), elements_size(chunk), chunk->count);
        moved += chunk->count;
    }
    if (from == LIST_HEAD && whole < list->used)
        moved += copy_some(chunk_at(list, whole), from, pack, room);
    if (from == LIST_TAIL)
        index = list->count - moved;
    chunk_list_delete(list, index, moved);
    return moved;
}
