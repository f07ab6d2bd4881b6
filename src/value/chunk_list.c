#include "value/chunk_list.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "value/chunk_list_private.h"

enum {
    SIZE_SAMPLES = 8,               /* chunks of which the sizes are read */
    ELEMENT_OVERHEAD = 8,           /* assumed for a new element, as in Redis */
};

void chunk_limits(int fill, size_t *size_max, size_t *count_max)
{
    static const size_t sizes[] = { 4096, 8192, 16384, 32768, 65536 };

    *size_max = *count_max = SIZE_MAX;
    if (fill >= 0)
        *count_max = fill == 0 ? 1 : (size_t)fill;
    else
        *size_max = sizes[fill < -5 ? 4 : -fill - 1];
}

bool chunk_exceeds(int fill, size_t size, size_t count)
{
    size_t size_max, count_max;

    chunk_limits(fill, &size_max, &count_max);
    if (size_max != SIZE_MAX)
        return size > size_max;
    return size > SIZE_OF_COUNTED || count > count_max;
}

bool chunk_has_room(const struct chunk_list *list, const struct chunk *chunk, struct bytes element)
{
    size_t size;

    if (chunk->form == CHUNK_PLAIN || element.size >= PLAIN_SIZE_MIN)
        return false;
    size = chunk->form == CHUNK_PACK ? listpack_size(pack_of(chunk)) : ((struct compressed *)chunk->data)->pack_size;
    return !chunk_exceeds(list->fill, size + element.size + ELEMENT_OVERHEAD, chunk->count + 1);
}

struct chunk_list *chunk_list_create(int fill, int depth)
{
    struct chunk_list *list = mem_zalloc(sizeof(*list));

    list->fill = (int16_t)(fill < -5 ? -5 : fill > INT16_MAX ? INT16_MAX : fill);
    list->depth = (uint16_t)(depth < 0 ? 0 : depth > UINT16_MAX ? UINT16_MAX : depth);
    list->capacity = RING_MIN;
    list->ring = mem_alloc(RING_MIN * sizeof(struct chunk));
    return list;
}

void chunk_list_destroy(struct chunk_list *list)
{
    for (size_t i = 0; i < list->used; i++)
        chunk_free(chunk_at(list, i));
    mem_free(list->ring);
    mem_free(list);
}

struct chunk_list *chunk_list_copy(const struct chunk_list *list)
{
    struct chunk_list *copy = mem_alloc(sizeof(*copy));

    *copy = *list;
    copy->first = 0;
    copy->ring = mem_alloc(copy->capacity * sizeof(struct chunk));
    for (size_t i = 0; i < list->used; i++)
        copy->ring[i] = chunk_copy(chunk_at(list, i));
    return copy;
}

size_t chunk_list_count(const struct chunk_list *list)
{
    return list->count;
}

size_t chunk_list_chunks(const struct chunk_list *list)
{
    return list->used;
}

static size_t chunk_memory(const struct chunk *chunk)
{
    return mem_size((const char *)chunk->data - chunk->gap);
}

size_t chunk_list_memory(const struct chunk_list *list, size_t samples)
{
    size_t looked_at = samples == 0 || samples > list->used ? list->used : samples, sum = 0;

    for (size_t i = 0; i < looked_at; i++)
        sum += chunk_memory(chunk_at(list, i * list->used / looked_at));
    if (looked_at < list->used)
        sum = (size_t)((double)sum / (double)looked_at * list->used);
    return sum + mem_size(list->ring) + mem_size(list);
}

void chunk_list_add_pack_take(struct chunk_list *list, struct listpack *pack)
{
    struct chunk *chunk = chunk_ring_insert(list, list->used);

    chunk->data = pack;
    chunk->count = (uint32_t)listpack_count(pack);
    CHECK(chunk->count > 0);
    list->count += chunk->count;
    settle_around(list, list->used - 1, list->used - 1);
}

static size_t pack_size_of(const struct chunk *chunk)
{
    switch (chunk->form) {
    case CHUNK_PACK: return listpack_size(pack_of(chunk));
    case CHUNK_PLAIN: return plain_bytes(chunk).size + LISTPACK_EMPTY_SIZE + LISTPACK_ELEMENT_OVERHEAD;
    default: return ((struct compressed *)chunk->data)->pack_size;
    }
}

size_t chunk_list_pack_size(const struct chunk_list *list)
{
    return list->used == 1 ? pack_size_of(chunk_at(list, 0)) : SIZE_MAX;
}

size_t chunk_list_size(const struct chunk_list *list)
{
    size_t sum = 0;

    if (list->used <= SIZE_SAMPLES) {
        for (size_t i = 0; i < list->used; i++)
            sum += pack_size_of(chunk_at(list, i));
        return sum;
    }
    for (size_t i = 0; i < SIZE_SAMPLES; i++)
        sum += pack_size_of(chunk_at(list, i * list->used / SIZE_SAMPLES));
    return (size_t)((double)sum / SIZE_SAMPLES * list->used);
}

struct listpack *chunk_list_take_pack(struct chunk_list *list)
{
    struct chunk *chunk = chunk_at(list, 0);
    struct listpack *pack;

    if (list->used != 1)
        return NULL;
    if (chunk->form == CHUNK_PLAIN) {
        pack = listpack_create();
        listpack_append(&pack, plain_bytes(chunk));
        chunk_free(chunk);
    } else {
        chunk_open(chunk);
        pack = pack_of(chunk);
    }
    list->used = 0;
    list->count = 0;
    return pack;
}
