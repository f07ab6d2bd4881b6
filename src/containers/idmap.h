/* Idmap: values of one size in the order of 128-bit IDs, those of streams. What streams keep by ID is all in this: their nodes, what
 * their groups have pending, and what each consumer has.
 *
 * Two levels: a row of chunks, each an array of up to 64 entries, and in the row each chunk's first ID. An ID behind all others, which
 * is nearly always what is added, goes into the last chunk, so chunks are full; one that goes between splits a chunk in half. What is taken
 * away at the front costs no move of the row. Chunks that have become small join their neighbours.
 *
 *   entry = ID, 16 bytes | value
 *
 * An entry takes its 16 bytes and the value's, and half a byte of the row. Searching is two binary searches.
 *
 * Owner: whoever embeds it. Functions that take a const map change nothing, so any number of threads may read while nobody writes. Pointers
 * to values, which are aligned to 8, and places hold until the map changes.
 */
#ifndef KELVIN_CONTAINERS_IDMAP_H
#define KELVIN_CONTAINERS_IDMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ordered by `ms`, then by `seq`. */
struct stream_id {
    uint64_t ms, seq;
};

#define STREAM_ID_MAX ((struct stream_id){ UINT64_MAX, UINT64_MAX })

static inline int stream_id_compare(struct stream_id a, struct stream_id b)
{
    if (a.ms != b.ms)
        return a.ms < b.ms ? -1 : 1;
    return a.seq < b.seq ? -1 : a.seq > b.seq;
}

static inline bool stream_id_is_zero(struct stream_id id)
{
    return id.ms == 0 && id.seq == 0;
}

/* The next one and the one before; false, and unchanged, at the end. */
bool stream_id_increment(struct stream_id *id);
bool stream_id_decrement(struct stream_id *id);

struct idmap {              /* all private but `count` */
    size_t count;           /* entries */
    uint32_t value_size;
    uint32_t chunk_count, chunk_start, chunk_room;
    struct idmap_chunk *chunks;
};

struct idmap_place {
    uint32_t chunk, slot;
};

/* `value_size` is a multiple of 8; 0 makes it a set. Holds no memory while it is empty. */
void idmap_init(struct idmap *map, size_t value_size);
void idmap_release(struct idmap *map);                  /* frees; it is empty then */
/* `to` holds nothing yet. */
void idmap_copy(struct idmap *to, const struct idmap *from);

/* The value of an ID, where it is or where it is to be written; it is all zero then. */
void *idmap_put(struct idmap *map, struct stream_id id, bool *is_new);
/* NULL if the ID is not there. Of a set: any pointer. */
void *idmap_find(const struct idmap *map, struct stream_id id);
/* False if it was not there. */
bool idmap_remove(struct idmap *map, struct stream_id id);
/* The place is then that of the entry behind; false: there is none. */
bool idmap_remove_at(struct idmap *map, struct idmap_place *place);

/* The first entry not below an ID, the last one not above it. */
bool idmap_seek(const struct idmap *map, struct stream_id id, struct idmap_place *place);
bool idmap_seek_back(const struct idmap *map, struct stream_id id, struct idmap_place *place);
bool idmap_first(const struct idmap *map, struct idmap_place *place);
bool idmap_last(const struct idmap *map, struct idmap_place *place);
bool idmap_next(const struct idmap *map, struct idmap_place *place);
bool idmap_previous(const struct idmap *map, struct idmap_place *place);
struct stream_id idmap_id(const struct idmap *map, struct idmap_place place);
void *idmap_value(const struct idmap *map, struct idmap_place place);

/* Bytes of memory, as the allocator counts them, and in how many blocks. */
size_t idmap_memory(const struct idmap *map);
size_t idmap_blocks(const struct idmap *map);

/* For tests: CHECKs everything that must hold. */
void idmap_verify(const struct idmap *map);

#endif
