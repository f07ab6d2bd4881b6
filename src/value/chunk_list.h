/* Chunk list: the elements of a large list, in listpacks of some kilobytes. A ring of descriptors (16 bytes per chunk) contains
 * the number of elements of each chunk, so both ends are reached at once, and an index by adding up the numbers.
 *
 *   fill    list-max-listpack-size: how much goes into a chunk. -1 to -5: at most 4, 8, 16, 32, 64 KiB; positive: at most this
 *           number of elements and 8 KiB; one element always fits
 *   depth   list-compress-depth: this number of chunks at either end are never compressed, the others are if that saves a few
 *           bytes; 0: nothing is compressed
 *
 * Both stay as they were when the list was created. Elements are distributed as in Redis' quicklist, so that a list becomes a
 * listpack again (list_shrink) when Redis' would. An element of 64 KiB or more has a chunk of its own, without a listpack.
 *
 * Reading changes nothing, so several threads may read: a compressed chunk is unpacked into the iterator. Bytes passed
 * to a function must not be part of the list.
 */
#ifndef KELVIN_VALUE_CHUNK_LIST_H
#define KELVIN_VALUE_CHUNK_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/text.h"

struct listpack;
struct chunk_list;

enum list_end { LIST_HEAD, LIST_TAIL };

/* True if a listpack of `count` elements and `size` bytes exceeds the limits of a chunk. */
bool chunk_exceeds(int fill, size_t size, size_t count);
/* The limits; SIZE_MAX: none. */
void chunk_limits(int fill, size_t *size_max, size_t *count_max);

struct chunk_list *chunk_list_create(int fill, int depth);
void chunk_list_destroy(struct chunk_list *list);
struct chunk_list *chunk_list_copy(const struct chunk_list *list);

size_t chunk_list_count(const struct chunk_list *list);         /* of elements */
size_t chunk_list_chunks(const struct chunk_list *list);
/* Bytes of the elements as their chunks have them, uncompressed; of many chunks about: a few are looked at. */
size_t chunk_list_size(const struct chunk_list *list);
/* As the allocator counts it. Measures `samples` chunks and extrapolates; 0 measures all. */
size_t chunk_list_memory(const struct chunk_list *list, size_t samples);

/* Appends the pack, which must not be empty, as a chunk, and takes ownership of it. */
void chunk_list_add_pack_take(struct chunk_list *list, struct listpack *pack);
/* Returns the list's only chunk as a listpack that the caller owns; NULL if there are several. The list must be destroyed then. */
struct listpack *chunk_list_take_pack(struct chunk_list *list);
/* The size in bytes of that listpack; SIZE_MAX if there are several chunks. */
size_t chunk_list_pack_size(const struct chunk_list *list);

void chunk_list_push(struct chunk_list *list, enum list_end end, struct bytes element);
/* `index` must exist. */
void chunk_list_set(struct chunk_list *list, size_t index, struct bytes element);
/* Inserts before the element `index`; chunk_list_count appends. */
void chunk_list_insert(struct chunk_list *list, size_t index, struct bytes element);
/* Removes `count` elements from `index` on, which must exist. */
void chunk_list_delete(struct chunk_list *list, size_t index, size_t count);

/* Moves elements from an end, in their order, to the end of a pack in memory of the caller (listpack_place), which may grow to `size_max` bytes: as many as fit. Returns how many. Of a list whose
 * elements are all in listpacks that are not compressed. */
size_t chunk_list_move(struct chunk_list *list, enum list_end from, struct listpack *pack, size_t size_max);

/* The element at an end of a list that is not empty: borrowed until the list changes, or printed into `digits`. */
struct bytes chunk_list_end_element(const struct chunk_list *list, enum list_end end, char digits[TEXT_INT_SIZE]);

/* Removes elements equal to `element`, at most `count_max`, starting from that end. Returns the number removed. */
size_t chunk_list_remove(struct chunk_list *list, struct bytes element, size_t count_max, enum list_end from);
/* The same in a listpack. */
size_t chunk_remove_from_pack(struct listpack **pack, struct bytes element, size_t count_max, enum list_end from);

/* Iterates from an element to either end:
 *
 *   chunk_list_iterate(&iterator, list, index, LIST_TAIL);
 *   while (chunk_list_step(&iterator)) ... chunk_list_element(&iterator, digits) ...
 *   chunk_list_iterate_end(&iterator);
 *
 * `index` may be the count: then there are no elements. The list must not change meanwhile. All fields are private. */
struct chunk_list_iterator {
    const struct chunk_list *list;  /* NULL: only `pack` */
    enum list_end towards;
    size_t chunk, at;               /* the chunk; the position in its pack */
    size_t skip;                    /* elements to skip in the first chunk */
    bool begun, ended;
    const struct listpack *pack;    /* of the chunk, unpacked; NULL: the chunk is plain */
    struct bytes plain;
    char *unpacked;
};
void chunk_list_iterate(struct chunk_list_iterator *iterator, const struct chunk_list *list, size_t index, enum list_end towards);
/* Iterates over a listpack of `count` elements as if it were a list's only chunk. */
void chunk_list_iterate_pack(struct chunk_list_iterator *iterator, const struct listpack *pack, size_t count, size_t index,
    enum list_end towards);
bool chunk_list_step(struct chunk_list_iterator *iterator);
/* Borrowed until the iterator's next step, or printed into `digits`. */
struct bytes chunk_list_element(const struct chunk_list_iterator *iterator, char digits[TEXT_INT_SIZE]);
bool chunk_list_equals(const struct chunk_list_iterator *iterator, struct bytes bytes);
void chunk_list_iterate_end(struct chunk_list_iterator *iterator);

/* The chunks as stored, for encoding. */
enum chunk_form { CHUNK_PACK, CHUNK_PLAIN, CHUNK_COMPRESSED };
struct chunk_view {
    enum chunk_form form;
    struct bytes bytes;             /* of the listpack or the element; or the output of lzf_encode for a listpack */
    size_t size;                    /* of the listpack, if it is compressed */
};
struct chunk_view chunk_list_view(const struct chunk_list *list, size_t chunk);

#endif
