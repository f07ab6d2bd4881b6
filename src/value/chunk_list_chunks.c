/* The chunks of a list, and the ring that contains them. */
#include "value/chunk_list_private.h"

#include "base/check.h"
#include "base/mem.h"
#include "value/lzf.h"

enum { COMPRESS_SIZE_MIN = 48, COMPRESS_GAIN_MIN = 8 };

static void ring_resize(struct chunk_list *list, uint32_t capacity)
{
    struct chunk *ring = mem_alloc(capacity * sizeof(*ring));

    for (uint32_t i = 0; i < list->used; i++)
        ring[i] = *chunk_at(list, i);
    mem_free(list->ring);
    list->ring = ring;
    list->capacity = capacity;
    list->first = 0;
}

/* Moves the shorter side. */
struct chunk *chunk_ring_insert(struct chunk_list *list, size_t index)
{
    if (list->used == list->capacity) {
        CHECK(list->capacity < UINT32_MAX / 2);
        ring_resize(list, list->capacity * 2);
    }
    if (index < list->used / 2) {
        list->first = (list->first - 1) & (list->capacity - 1);
        for (size_t i = 0; i < index; i++)
            *chunk_at(list, i) = *chunk_at(list, i + 1);
    } else {
        for (size_t i = list->used; i > index; i--)
            *chunk_at(list, i) = *chunk_at(list, i - 1);
    }
    list->used++;
    *chunk_at(list, index) = (struct chunk){ 0 };
    return chunk_at(list, index);
}

void chunk_ring_remove(struct chunk_list *list, size_t index, size_t count)
{
    size_t after = list->used - index - count;

    if (count == 0)
        return;
    if (index < after) {
        for (size_t i = index; i-- > 0; )
            *chunk_at(list, i + count) = *chunk_at(list, i);
        list->first = (uint32_t)(list->first + count) & (list->capacity - 1);
    } else {
        for (size_t i = 0; i < after; i++)
            *chunk_at(list, index + i) = *chunk_at(list, index + count + i);
    }
    list->used -= (uint32_t)count;
    if (list->capacity > RING_MIN && list->used <= list->capacity / 4) {
        uint32_t capacity = list->capacity;

        while (capacity > RING_MIN && list->used <= capacity / 4)
            capacity /= 2;
        ring_resize(list, capacity);
    }
}

static struct plain *plain_of(struct bytes element)
{
    struct plain *plain = mem_alloc(sizeof(*plain) + element.size);

    plain->size = element.size;
    memcpy(plain->bytes, element.data, element.size);
    return plain;
}

void chunk_free(struct chunk *chunk)
{
    if (chunk->form == CHUNK_PACK && chunk->gap == 0)
        listpack_destroy(chunk->data);
    else
        mem_free((char *)chunk->data - chunk->gap);
}

char *chunk_unpack(const struct chunk *chunk)
{
    const struct compressed *compressed = chunk->data;
    struct buffer buffer = { .data = mem_alloc(mem_class(compressed->pack_size)), .capacity = compressed->pack_size };

    CHECK(lzf_decode(bytes_of(compressed->bytes, compressed->size), compressed->pack_size, &buffer) == STATUS_OK);
    return buffer.data;
}

struct chunk chunk_copy(const struct chunk *chunk)
{
    const struct compressed *compressed = chunk->data;
    struct chunk copy = *chunk;

    copy.gap = 0;
    switch (chunk->form) {
    case CHUNK_PACK: copy.data = listpack_copy(pack_of(chunk)); break;
    case CHUNK_PLAIN: copy.data = plain_of(plain_bytes(chunk)); break;
    default:
        copy.data = mem_alloc(sizeof(*compressed) + compressed->size);
        memcpy(copy.data, compressed, sizeof(*compressed) + compressed->size);
    }
    return copy;
}

void chunk_decompress(struct chunk *chunk)
{
    char *pack = chunk_unpack(chunk);

    mem_free(chunk->data);
    chunk->data = pack;
    chunk->form = CHUNK_PACK;
}

void chunk_close_gap(struct chunk *chunk)
{
    size_t gap = chunk->gap;

    listpack_gap_close((struct listpack **)&chunk->data, &gap);
    chunk->gap = 0;
}

static void chunk_compress(struct chunk *chunk)
{
    struct bytes pack;
    struct compressed *compressed;
    size_t size;

    if (chunk->form != CHUNK_PACK || chunk->is_incompressible)
        return;
    chunk_close_gap(chunk);
    pack = listpack_bytes(pack_of(chunk));
    chunk->is_incompressible = true;
    if (pack.size < COMPRESS_SIZE_MIN)
        return;
    compressed = mem_alloc(sizeof(*compressed) + pack.size);
    size = lzf_encode(pack, compressed->bytes, pack.size - COMPRESS_GAIN_MIN);
    if (size == 0) {
        mem_free(compressed);
        return;
    }
    compressed->size = (uint32_t)size;
    compressed->pack_size = (uint32_t)pack.size;
    listpack_destroy(pack_of(chunk));
    chunk->data = mem_realloc(compressed, sizeof(*compressed) + size);
    chunk->form = CHUNK_COMPRESSED;
    chunk->is_incompressible = false;
}

void chunk_settle(struct chunk_list *list, size_t index)
{
    if (index >= list->used)
        return;
    if (index >= list->depth && list->used - index > list->depth)
        chunk_compress(chunk_at(list, index));
    else if (chunk_at(list, index)->form == CHUNK_COMPRESSED)
        chunk_decompress(chunk_at(list, index));
}

void chunk_list_settle(struct chunk_list *list, size_t first, size_t last)
{
    size_t depth = list->depth;

    for (size_t i = first; i <= last; i++)
        chunk_settle(list, i);
    for (size_t i = 0; i <= depth + 1 && i < list->used; i++) {
        chunk_settle(list, i);
        chunk_settle(list, list->used - 1 - i);
    }
}

void chunk_list_insert_alone(struct chunk_list *list, size_t index, struct bytes element)
{
    struct chunk *chunk = chunk_ring_insert(list, index);

    chunk->count = 1;
    if (element.size >= PLAIN_SIZE_MIN) {
        chunk->form = CHUNK_PLAIN;
        chunk->data = plain_of(element);
    } else {
        chunk->form = CHUNK_PACK;
        chunk->data = listpack_create();
        listpack_append(pack_slot(chunk), element);
    }
}
