/* Iterating over a list, and reading its chunks as stored. */
#include "value/chunk_list_private.h"

#include "base/mem.h"

static bool enter_chunk(struct chunk_list_iterator *iterator)
{
    const struct chunk *chunk;

    if (iterator->list == NULL) {
        iterator->ended = iterator->chunk != 0;
        return !iterator->ended;
    }
    chunk_list_iterate_end(iterator);
    iterator->pack = NULL;
    if (iterator->chunk >= iterator->list->used) {
        iterator->ended = true;
        return false;
    }
    chunk = chunk_at(iterator->list, iterator->chunk);
    if (chunk->form == CHUNK_PLAIN) {
        iterator->plain = plain_bytes(chunk);
    } else if (chunk->form == CHUNK_PACK) {
        iterator->pack = pack_of(chunk);
    } else {
        iterator->unpacked = chunk_unpack(chunk);
        iterator->pack = (const struct listpack *)iterator->unpacked;
    }
    return true;
}

void chunk_list_iterate(struct chunk_list_iterator *iterator, const struct chunk_list *list, size_t index, enum list_end towards)
{
    *iterator = (struct chunk_list_iterator){ .list = list, .towards = towards, .ended = index >= list->count };
    if (!iterator->ended) {
        iterator->chunk = chunk_list_find(list, &index);
        iterator->skip = index;
    }
}

void chunk_list_iterate_pack(struct chunk_list_iterator *iterator, const struct listpack *pack, size_t count, size_t index,
    enum list_end towards)
{
    *iterator = (struct chunk_list_iterator){ .pack = pack, .towards = towards, .skip = index, .ended = index >= count };
}

bool chunk_list_step(struct chunk_list_iterator *iterator)
{
    bool backwards = iterator->towards == LIST_HEAD;

    if (iterator->ended)
        return false;
    if (!iterator->begun) {
        iterator->begun = true;
        if (enter_chunk(iterator) && iterator->pack != NULL)
            iterator->at = listpack_seek(iterator->pack, (int64_t)iterator->skip);
        return !iterator->ended;
    }
    if (iterator->pack != NULL) {
        iterator->at = backwards ? listpack_previous(iterator->pack, iterator->at) : listpack_next(iterator->pack, iterator->at);
        if (iterator->at != LISTPACK_NONE)
            return true;
    }
    iterator->chunk = backwards ? iterator->chunk - 1 : iterator->chunk + 1;    /* before the first: wraps to beyond the last */
    if (!enter_chunk(iterator))
        return false;
    if (iterator->pack != NULL)
        iterator->at = backwards ? listpack_last(iterator->pack) : listpack_first(iterator->pack);
    return true;
}

struct bytes chunk_list_element(const struct chunk_list_iterator *iterator, char digits[TEXT_INT_SIZE])
{
    return iterator->pack != NULL ? listpack_get(iterator->pack, iterator->at, digits) : iterator->plain;
}

bool chunk_list_equals(const struct chunk_list_iterator *iterator, struct bytes bytes)
{
    return iterator->pack != NULL ? listpack_equals(iterator->pack, iterator->at, bytes) : bytes_equal(iterator->plain, bytes);
}

void chunk_list_iterate_end(struct chunk_list_iterator *iterator)
{
    if (iterator->unpacked != NULL)
        mem_free(iterator->unpacked);
    iterator->unpacked = NULL;
}

struct chunk_view chunk_list_view(const struct chunk_list *list, size_t index)
{
    const struct chunk *chunk = chunk_at(list, index);
    const struct compressed *compressed = chunk->data;

    switch (chunk->form) {
    case CHUNK_PACK: return (struct chunk_view){ .form = CHUNK_PACK, .bytes = listpack_bytes(pack_of(chunk)) };
    case CHUNK_PLAIN: return (struct chunk_view){ .form = CHUNK_PLAIN, .bytes = plain_bytes(chunk) };
    default: break;
    }
    return (struct chunk_view){
        .form = CHUNK_COMPRESSED, .bytes = bytes_of(compressed->bytes, compressed->size), .size = compressed->pack_size,
    };
}
