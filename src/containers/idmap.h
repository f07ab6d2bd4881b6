/* Idmap: values of equal size in the order of 128-bit IDs, those of streams. Streams use it for everything they keep by
 * ID: their nodes, the pending entries of their groups and of each consumer.
 *
 * Two levels: a row of chunks, each an array of up to 64 entries, and in the row the first ID of each chunk. An ID
 * greater than all others, which is nearly always the one added, goes into the last chunk, so chunks are full; one in
 * between splits a full chunk in half. Removing at the front does not move the row. Chunks that have become small are
 * merged with their neighbours.
 *
 *   entry = ID, 16 bytes | value
 *
 * An entry takes 16 bytes, the size of a value, and half a byte of the row. A lookup is two binary searches.
 *
 * Owner: the struct that embeds it. Functions that take a const map change nothing, so any number of threads may read
 * while none writes. Pointers to values, which are aligned to 8, and places are valid until the map changes.
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

/* The next and the previous ID; false, and unchanged, if there is none. */
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

/* `value_size` is a multiple of 8; 0 makes it a set. Allocates nothing while it is empty. */
void idmap_init(struct idmap *map, size_t value_size);
void idmap_release(struct idmap *map);                  /* frees the memory; the map is empty then */
/* `to` must not be initialized. */
void idmap_copy(struct idmap *to, const struct idmap *from);

/* The value of an ID, which is added if it is not there; a new value is all zero. */
void *idmap_put(struct idmap *map, struct stream_id id, bool *is_new);
/* NULL if the ID is not there. In a set: any other pointer if it is. */
void *idmap_find(const struct idmap *map, struct stream_id id);
/* False if it is not there. */
bool idmap_remove(struct idmap *map, struct stream_id id);
/* Moves the place to the entry after the removed one; false if there is none. */
bool idmap_remove_at(struct idmap *map, struct idmap_place *place);

/* The first entry not below an ID; the last one not above it. */
bool idmap_seek(const struct idmap *map, struct stream_id id, struct idmap_place *place);
bool idmap_seek_back(const struct idmap *map, struct stream_id id, struct idmap_place *place);
bool idmap_first(const struct idmap *map, struct idmap_place *place);
bool idmap_last(const struct idmap *map, struct idmap_place *place);
bool idmap_next(const struct idmap *map, struct idmap_place *place);
bool idmap_previous(const struct idmap *map, struct idmap_place *place);
struct stream_id idmap_id(const struct idmap *map, struct idmap_place place);
void *idmap_value(const struct idmap *map, struct idmap_place place);

/* Bytes of memory as the allocator counts them; the number of blocks. */
size_t idmap_memory(const struct idmap *map);
size_t idmap_blocks(const struct idmap *map);

/* For tests: CHECKs all invariants. */
void idmap_verify(const struct idmap *map);

#endif
