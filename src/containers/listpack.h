/* Listpack: a list of byte strings and integers in one block of memory, in Redis' format for small collections,
 * described in docs/formats/listpack.md. A string that is a canonical decimal int64 is stored as an integer and
 * returned as the same text.
 *
 * Owner: one thread, or the holder of the value's lock. The functions that change a pack may move it, so they take the
 * address of the caller's pointer. Access is sequential, from element to element; there is no index.
 *
 * A position is the offset of an element in the block, 0 for none. It is valid until the pack changes before or at it.
 * Bytes passed to a function must not be part of the pack.
 */
#ifndef KELVIN_CONTAINERS_LISTPACK_H
#define KELVIN_CONTAINERS_LISTPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/siphash.h"
#include "base/text.h"

struct listpack;

enum {
    LISTPACK_NONE = 0,
    LISTPACK_SIZE_MAX = 1 << 30,        /* bytes; a larger pack is a bug of the caller, see listpack_has_room */
    LISTPACK_ELEMENT_OVERHEAD = 10,     /* what an element takes in addition to its bytes, at most */
};

struct listpack *listpack_create(void);
void listpack_destroy(struct listpack *pack);           /* NULL is fine */
struct listpack *listpack_copy(const struct listpack *pack);

/* The whole block, with header and end byte, as it is stored in a dump. Borrowed until the pack changes. */
struct bytes listpack_bytes(const struct listpack *pack);
size_t listpack_size(const struct listpack *pack);      /* of that block */
size_t listpack_memory(const struct listpack *pack);    /* as the allocator counts it */

/* True if the bytes are a listpack in every detail: sizes, counts and both directions of iteration. The bytes may come
 * from outside. */
bool listpack_is_valid(struct bytes bytes);
/* A pack that is a copy of bytes for which listpack_is_valid has returned true. */
struct listpack *listpack_of_bytes(struct bytes bytes);

/* The number of elements. Up to 65534 it is in the header; above, they are counted. */
size_t listpack_count(const struct listpack *pack);
/* True if the pack stays below LISTPACK_SIZE_MAX when `elements` more with a total of `bytes` bytes are added. */
bool listpack_has_room(const struct listpack *pack, size_t elements, size_t bytes);

/* Iteration. All return LISTPACK_NONE after the last element and before the first. */
size_t listpack_first(const struct listpack *pack);
size_t listpack_last(const struct listpack *pack);
size_t listpack_next(const struct listpack *pack, size_t at);
size_t listpack_previous(const struct listpack *pack, size_t at);
/* `index` 0 is the first element, -1 the last. */
size_t listpack_seek(const struct listpack *pack, int64_t index);

/* The element as text: borrowed from the pack, or, for an integer, printed into `digits`. */
struct bytes listpack_get(const struct listpack *pack, size_t at, char digits[TEXT_INT_SIZE]);
/* True if the element is stored as an integer. */
bool listpack_get_int(const struct listpack *pack, size_t at, int64_t *number);

/* The first element from `at` on that equals `bytes`; compares only every (skip + 1)th element. */
size_t listpack_find(const struct listpack *pack, size_t at, struct bytes bytes, size_t skip);
bool listpack_equals(const struct listpack *pack, size_t at, struct bytes bytes);

/* True if two of the elements 0, stride, 2 * stride ... are equal as text. Takes linear time, with the keyed hash. */
bool listpack_has_twins(const struct listpack *pack, size_t stride, const struct hash_seed *seed);

void listpack_append(struct listpack **pack, struct bytes bytes);
void listpack_append_int(struct listpack **pack, int64_t number);

/* To append many elements: they are collected and added to the pack together. Between begin and end the pack must not
 * be used. */
struct listpack_gather {                /* all private */
    struct listpack **pack;
    size_t size, count;
    uint8_t bytes[512];
};
void listpack_gather_begin(struct listpack_gather *gather, struct listpack **pack);
void listpack_gather(struct listpack_gather *gather, struct bytes bytes);
void listpack_gather_int(struct listpack_gather *gather, int64_t number);
void listpack_gather_end(struct listpack_gather *gather);

/* Inserts before the element `at`; LISTPACK_NONE appends. Returns the position of the new element. */
size_t listpack_insert(struct listpack **pack, size_t at, struct bytes bytes);
size_t listpack_insert_int(struct listpack **pack, size_t at, int64_t number);
/* The position of the element does not change. */
void listpack_replace(struct listpack **pack, size_t at, struct bytes bytes);
void listpack_replace_int(struct listpack **pack, size_t at, int64_t number);
/* Removes `count` elements from `at` on, or as many as there are. Returns the position of the element after them. */
size_t listpack_delete(struct listpack **pack, size_t at, size_t count);

/* Packs in memory of the caller, as in a page, that is made larger before a call or smaller after it: nothing is allocated. */
enum { LISTPACK_EMPTY_SIZE = 7 };
size_t listpack_element_size(struct bytes bytes);                               /* what the element adds to a pack's size */
size_t listpack_size_between(const struct listpack *pack, size_t at, size_t count);   /* of `count` elements from `at` on, which exist */
void listpack_place_empty(struct listpack *pack);
/* Inserts before the element `at`; LISTPACK_NONE appends. */
void listpack_place(struct listpack *pack, size_t at, struct bytes bytes);
/* Appends `count` elements of another pack from `at` on, which exist and have `size` bytes. */
void listpack_place_some(struct listpack *pack, const struct listpack *from, size_t at, size_t size, size_t count);
/* Removes `count` elements from `at` on, which exist. Returns the position of the element after them. */
size_t listpack_take_out(struct listpack *pack, size_t at, size_t count);

/* A pack with a gap: unused bytes before the pack, in the same block, so that elements are added and removed at the front without
 * moving the others. The pointer is to the pack, and the owner keeps the size of the gap. While it is not 0, only the functions
 * that read and these may be used; listpack_memory and listpack_destroy must not. */
enum { LISTPACK_GAP_MAX = 16 * 1024 };
void listpack_gap_close(struct listpack **pack, size_t *gap);
/* Makes a gap if there is no room: as large as a quarter of the pack, but not for a pack of more than `size_max` bytes. It is below
 * LISTPACK_GAP_MAX + a quarter of the pack + the element. */
void listpack_gap_prepend(struct listpack **pack, size_t *gap, size_t size_max, struct bytes bytes);
void listpack_gap_append(struct listpack **pack, size_t gap, struct bytes bytes);
/* `count` elements, which must exist. The gap grows by them, to at most half of the pack and LISTPACK_GAP_MAX: then it is closed. */
void listpack_gap_delete_first(struct listpack **pack, size_t *gap, size_t count);
void listpack_gap_delete_last(struct listpack **pack, size_t gap, size_t count);

#endif
