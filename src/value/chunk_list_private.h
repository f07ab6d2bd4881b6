/* Chunk list, private: the chunks. The design is described in chunk_list.h. */
#ifndef KELVIN_VALUE_CHUNK_LIST_PRIVATE_H
#define KELVIN_VALUE_CHUNK_LIST_PRIVATE_H

#include <string.h>

#include "base/check.h"
#include "containers/listpack.h"
#include "value/chunk_list.h"

enum {
    RING_MIN = 2,
    PLAIN_SIZE_MIN = 64 * 1024,     /* an element of this size has a chunk of its own */
    SIZE_OF_COUNTED = 8 * 1024,     /* limit of a chunk when its elements are counted */
    GAP_ELEMENT_MAX = 1024,         /* a gap is not made for larger elements */
};

struct chunk {
    void *data;                     /* a struct listpack, struct plain or struct compressed */
    uint32_t count;                 /* elements */
    uint8_t form;                   /* enum chunk_form */
    bool is_incompressible;         /* compressing it was tried */
    uint16_t gap;                   /* unused bytes before the listpack in its block, see listpack.h */
};

struct plain {
    size_t size;
    char bytes[];
};

struct compressed {
    uint32_t size;                  /* of the bytes that follow */
    uint32_t pack_size;
    char bytes[];
};

/* Chunk i is ring[(first + i) & (capacity - 1)]. No chunk is empty. The first and the last `depth` chunks are not compressed. */
struct chunk_list {
    struct chunk *ring;
    uint32_t capacity, first, used;
    int16_t fill;
    uint16_t depth;
    uint64_t count;
};

static inline struct chunk *chunk_at(const struct chunk_list *list, size_t index)
{
    return &list->ring[(list->first + index) & (list->capacity - 1)];
}

static inline struct listpack *pack_of(const struct chunk *chunk)
{
    return chunk->data;
}

/* The chunk's listpack, which may move when it changes. It must have no gap. Forgets whether it can be compressed. */
static inline struct listpack **pack_slot(struct chunk *chunk)
{
    CHECK(chunk->gap == 0);
    chunk->is_incompressible = false;
    return (struct listpack **)&chunk->data;
}

static inline struct bytes plain_bytes(const struct chunk *chunk)
{
    const struct plain *plain = chunk->data;

    return bytes_of(plain->bytes, plain->size);
}

/* The chunk that contains the element `*index`, which becomes the index within the chunk. Counts from the nearer end. */
static inline size_t chunk_list_find(const struct chunk_list *list, size_t *index)
{
    size_t chunk;

    CHECK(*index < list->count);
    if (*index < list->count / 2) {
        for (chunk = 0; *index >= chunk_at(list, chunk)->count; chunk++)
            *index -= chunk_at(list, chunk)->count;
    } else {
        size_t begins = list->count;

        for (chunk = list->used; begins > *index; )
            begins -= chunk_at(list, --chunk)->count;
        *index -= begins;
    }
    return chunk;
}

/* chunk_list.c: whether the element fits into the chunk. */
bool chunk_has_room(const struct chunk_list *list, const struct chunk *chunk, struct bytes element);
/* chunk_list_ends.c: removes `count` elements from an end of a chunk, which has more. */
void chunk_delete_first(struct chunk *chunk, size_t count);
void chunk_delete_last(struct chunk *chunk, size_t count);

/* chunk_list_chunks.c */

/* Inserts a descriptor before chunk `index`, for the caller to fill in. Pointers to descriptors become invalid. */
struct chunk *chunk_ring_insert(struct chunk_list *list, size_t index);
/* Removes `count` descriptors; what they point to must have been freed. */
void chunk_ring_remove(struct chunk_list *list, size_t index, size_t count);
/* Inserts a chunk with one element before chunk `index`. */
void chunk_list_insert_alone(struct chunk_list *list, size_t index, struct bytes element);
/* Frees what it points to; the descriptor stays. */
void chunk_free(struct chunk *chunk);
struct chunk chunk_copy(const struct chunk *chunk);
/* The listpack of a compressed chunk, unpacked; freed with mem_free. */
char *chunk_unpack(const struct chunk *chunk);
/* The chunk must be compressed. */
void chunk_decompress(struct chunk *chunk);
void chunk_close_gap(struct chunk *chunk);
/* Compresses or decompresses the chunk, depending on its position. */
void chunk_settle(struct chunk_list *list, size_t index);
void chunk_list_settle(struct chunk_list *list, size_t first, size_t last);

/* Decompresses the chunk or closes its gap if necessary, so that its elements can be changed. */
static inline void chunk_open(struct chunk *chunk)
{
    if (chunk->form == CHUNK_COMPRESSED)
        chunk_decompress(chunk);
    else if (chunk->gap > 0)
        chunk_close_gap(chunk);
}

/* Must be called after each change: the chunks from `first` to `last` have changed. In addition, chunks may have
 * crossed the border of the compressed part because others were added or removed: at most two are added at a time. */
static inline void settle_around(struct chunk_list *list, size_t first, size_t last)
{
    if (list->depth > 0)
        chunk_list_settle(list, first, last);
}

#endif
