/* Chunk list: the elements of a large list, in listpacks of some kilobytes. A ring of descriptors (16 bytes a chunk) knows each one's
 * count, so both ends are reached at once, and an index by adding up counts.
 *
 *   fill    list-max-listpack-size: how much goes into a chunk. -1 to -5: at most 4, 8, 16, 32, 64 KiB; positive: so many elements,
 *           but at most 8 KiB; one element always fits
 *   depth   list-compress-depth: so many chunks at either end are never compressed, the others are if that saves a few bytes;
 *           0: nothing is compressed
 *
 * Both stay as they were when the list was created. How elements are distributed follows Redis' quicklist, so that a list becomes a
 * listpack again (list_shrink) when Redis' would. An element of 64 KiB or more lies in a chunk of its own, without a listpack.
 *
 * Reading changes nothing, so several threads may read: a compressed chunk is unpacked into the iterator. Bytes given to a
 * function must not lie in the list.
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

/* True if a listpack of `count` elements and `size` bytes is more than one chunk may be. */
bool chunk_exceeds(int fill, size_t size, size_t count);
/* The limits; SIZE_MAX: none. */
void chunk_limits(int fill, size_t *size_max, size_t *count_max);

struct chunk_list *chunk_list_create(int fill, int depth);
void chunk_list_destroy(struct chunk_list *list);
struct chunk_list *chunk_list_copy(const struct chunk_list *list);

size_t chunk_list_count(const struct chunk_list *list);         /* of elements */
size_t chunk_list_chunks(const struct chunk_list *list);
/* As the allocator counts it. `samples` chunks are measured and the rest extrapolated; 0: all. */
size_t chunk_list_memory(const struct chunk_list *list, size_t samples);

/* Behind the last chunk comes another: the pack, which is taken over and not empty. */
void chunk_list_add_pack_take(struct chunk_list *list, struct listpack *pack);
/* The list's one chunk as a listpack, which is handed out; NULL if it has several. The list is then to be destroyed. */
struct listpack *chunk_list_take_pack(struct chunk_list *list);
/* Bytes that it has, or would have; SIZE_MAX if there are several chunks. */
size_t chunk_list_pack_size(const struct chunk_list *list);

void chunk_list_push(struct chunk_list *list, enum list_end end, struct bytes element);
/* `index` is there. */
void chunk_list_set(struct chunk_list *list, size_t index, struct bytes element);
/* Before the element `index`; chunk_list_count appends. */
void chunk_list_insert(struct chunk_list *list, size_t index, struct bytes element);
/* `count` elements from `index` on, which are there. */
void chunk_list_delete(struct chunk_list *list, size_t index, size_t count);

/* Removes elements that equal `element`, `count_max` at most, the first ones seen from that end. Returns how many. */
size_t chunk_list_remove(struct chunk_list *list, struct bytes element, size_t count_max, enum list_end from);
/* The same in a listpack. */
size_t chunk_remove_from_pack(struct listpack **pack, struct bytes element, size_t count_max, enum list_end from);

/* Walking, from a place to either end:
 *
 *   chunk_list_iterate(&iterator, list, index, LIST_TAIL);
 *   while (chunk_list_step(&iterator)) ... chunk_list_element(&iterator, digits) ...
 *   chunk_list_iterate_end(&iterator);
 *
 * `index` may be the count: then there is nothing to see. The list does not change meanwhile. All fields are private. */
struct chunk_list_iterator {
    const struct chunk_list *list;  /* NULL: only `pack` */
    enum list_end towards;
    size_t chunk, at;               /* the chunk; position in its pack */
    size_t skip;                    /* elements of the first chunk in front of the first to be seen */
    bool begun, ended;
    const struct listpack *pack;    /* of the chunk, unpacked; NULL: it is plain */
    struct bytes plain;
    char *unpacked;
};
void chunk_list_iterate(struct chunk_list_iterator *iterator, const struct chunk_list *list, size_t index, enum list_end towards);
/* Over a listpack of `count` elements, as if it were a list's one chunk. */
void chunk_list_iterate_pack(struct chunk_list_iterator *iterator, const struct listpack *pack, size_t count, size_t index,
    enum list_end towards);
bool chunk_list_step(struct chunk_list_iterator *iterator);
/* Borrowed until the iterator's next step, or printed into `digits`. */
struct bytes chunk_list_element(const struct chunk_list_iterator *iterator, char digits[TEXT_INT_SIZE]);
bool chunk_list_equals(const struct chunk_list_iterator *iterator, struct bytes bytes);
void chunk_list_iterate_end(struct chunk_list_iterator *iterator);

/* The chunks as they lie there, for who writes them down. */
enum chunk_form { CHUNK_PACK, CHUNK_PLAIN, CHUNK_COMPRESSED };
struct chunk_view {
    enum chunk_form form;
    struct bytes bytes;             /* the listpack's, the element's; or what lzf_encode made of a listpack */
    size_t size;                    /* of the listpack, if it is compressed */
};
struct chunk_view chunk_list_view(const struct chunk_list *list, size_t chunk);

#endif
