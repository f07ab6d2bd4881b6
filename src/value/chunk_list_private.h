/* Chunk list, private: the chunks. chunk_list.h says what it is and why. */
#ifndef KELVIN_VALUE_CHUNK_LIST_PRIVATE_H
#define KELVIN_VALUE_CHUNK_LIST_PRIVATE_H

#include <string.h>

#include "base/check.h"
#include "containers/listpack.h"
#include "value/chunk_list.h"

enum {
    RING_MIN = 2,
    PLAIN_SIZE_MIN = 64 * 1024,     /* elements of this size have a chunk of their own */
    PACK_EMPTY_SIZE = 7,
};

struct chunk {
    void *data;                     /* a struct listpack, struct plain or struct compressed */
    uint32_t count;                 /* elements */
    uint8_t form;                   /* enum chunk_form */
    bool is_incompressible;         /* that was tried */
};

struct plain {
    size_t size;
    char bytes[];
};

struct compressed {
    uint32_t size;                  /* of these bytes */
    uint32_t pack_size;
    char bytes[];
};

/* Chunk i lies at ring[(first + i) & (capacity - 1)]. No chunk is empty. The first and the last `depth` ones are not compressed. */
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

/* Its listpack may move when it changes. What was known about compressing it no longer holds. */
static inline struct listpack **pack_slot(struct chunk *chunk)
{
    chunk->is_incompressible = false;
    return (struct listpack **)&chunk->data;
}

static inline struct bytes plain_bytes(const struct chunk *chunk)
{
    const struct plain *plain = chunk->data;

    return bytes_of(plain->bytes, plain->size);
}

/* Which chunk has the element `*index`, which becomes an index in there. Counted from the nearer end. */
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

/* chunk_list.c. Whether the element goes into the chunk, too. */
bool chunk_has_room(const struct chunk_list *list, const struct chunk *chunk, struct bytes element);

/* chunk_list_chunks.c */

/* Opens a gap before chunk `index`, which is to be filled. Chunks that were looked at have moved. */
struct chunk *chunk_ring_insert(struct chunk_list *list, size_t index);
/* Takes `count` descriptors out; what they pointed to has been freed. */
void chunk_ring_remove(struct chunk_list *list, size_t index, size_t count);
/* A chunk of one element, before chunk `index`. */
void chunk_list_insert_alone(struct chunk_list *list, size_t index, struct bytes element);
/* Of what it points to; the descriptor stays. */
void chunk_free(struct chunk *chunk);
struct chunk chunk_copy(const struct chunk *chunk);
/* The listpack that a compressed chunk is; freed with mem_free. */
char *chunk_unpack(const struct chunk *chunk);
/* Of a compressed one. */
void chunk_decompress(struct chunk *chunk);
/* Compresses or opens the chunk, as its place demands. */
void chunk_settle(struct chunk_list *list, size_t index);
void chunk_list_settle(struct chunk_list *list, size_t first, size_t last);

/* So that its elements can be changed. */
static inline void chunk_open(struct chunk *chunk)
{
    if (chunk->form == CHUNK_COMPRESSED)
        chunk_decompress(chunk);
}

/* To be called after each change: `first` to `last` are the chunks that changed. Besides them, a chunk may have crossed a border
 * because others came or went: at most two come at a time. */
static inline void settle_around(struct chunk_list *list, size_t first, size_t last)
{
    if (list->depth > 0)
        chunk_list_settle(list, first, last);
}

#endif
