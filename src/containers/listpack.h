/* Listpack: a list of byte strings and integers in one block of memory, as Redis stores small collections.
 * docs/formats/listpack.md has the bytes. A string that is a canonical decimal int64 is kept as an integer,
 * and comes back as the same text.
 *
 * Owner: one thread, or whoever holds the value's lock. The functions that change a pack may move it, so they
 * take the address of the caller's pointer. Walking is from element to element; nothing here is indexed.
 *
 * A position is the offset of an element in the block, 0 for "none". It holds until the pack changes before or
 * at it. Bytes given to a function must not lie in the pack itself.
 */
#ifndef KELVIN_CONTAINERS_LISTPACK_H
#define KELVIN_CONTAINERS_LISTPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/text.h"

struct listpack;

enum {
    LISTPACK_NONE = 0,
    LISTPACK_SIZE_MAX = 1 << 30,        /* bytes; it is a bug to grow beyond, see listpack_has_room */
    LISTPACK_ELEMENT_OVERHEAD = 10,     /* what an element takes beyond its bytes, at most */
};

struct listpack *listpack_create(void);
void listpack_destroy(struct listpack *pack);           /* NULL is fine */
struct listpack *listpack_copy(const struct listpack *pack);

/* The whole block, header and end byte included: what goes into a dump. Borrowed until the pack changes. */
struct bytes listpack_bytes(const struct listpack *pack);
size_t listpack_size(const struct listpack *pack);      /* of that block */
size_t listpack_memory(const struct listpack *pack);    /* as the allocator counts it */

/* True if the bytes are a listpack in every detail: sizes, counts and both directions of walking. Trusts nothing. */
bool listpack_is_valid(struct bytes bytes);
/* A pack that is a copy of bytes for which listpack_is_valid answered true. */
struct listpack *listpack_of_bytes(struct bytes bytes);

/* Elements. Up to 65534 are counted in the header; beyond it the pack is walked. */
size_t listpack_count(const struct listpack *pack);
/* True if `elements` more with `bytes` bytes in all will keep it below LISTPACK_SIZE_MAX. */
bool listpack_has_room(const struct listpack *pack, size_t elements, size_t bytes);

/* Walking. All give LISTPACK_NONE behind the last and before the first. */
size_t listpack_first(const struct listpack *pack);
size_t listpack_last(const struct listpack *pack);
size_t listpack_next(const struct listpack *pack, size_t at);
size_t listpack_previous(const struct listpack *pack, size_t at);
/* `index` 0 is the first, -1 the last. */
size_t listpack_seek(const struct listpack *pack, int64_t index);

/* The element as text: borrowed from the pack, or, for an integer, printed into `digits`. */
struct bytes listpack_get(const struct listpack *pack, size_t at, char digits[TEXT_INT_SIZE]);
/* True if the element is kept as an integer. */
bool listpack_get_int(const struct listpack *pack, size_t at, int64_t *number);

/* The first element from `at` on that equals `bytes`, looking at every (skip + 1)th only. */
size_t listpack_find(const struct listpack *pack, size_t at, struct bytes bytes, size_t skip);
bool listpack_equals(const struct listpack *pack, size_t at, struct bytes bytes);

/* True if two of the elements 0, stride, 2 * stride ... are equal as text. Takes linear time under the keyed hash. */
bool listpack_has_twins(const struct listpack *pack, size_t stride, const struct hash_seed *seed);

void listpack_append(struct listpack **pack, struct bytes bytes);
void listpack_append_int(struct listpack **pack, int64_t number);

/* Many to append at once: they are gathered, and put into the pack together. Between begin and end the pack is left alone. */
struct listpack_gather {                /* all private */
    struct listpack **pack;
    size_t size, count;
    uint8_t bytes[512];
};
void listpack_gather_begin(struct listpack_gather *gather, struct listpack **pack);
void listpack_gather(struct listpack_gather *gather, struct bytes bytes);
void listpack_gather_int(struct listpack_gather *gather, int64_t number);
void listpack_gather_end(struct listpack_gather *gather);

/* Before the element `at`; LISTPACK_NONE appends. Returns where the new element is. */
size_t listpack_insert(struct listpack **pack, size_t at, struct bytes bytes);
size_t listpack_insert_int(struct listpack **pack, size_t at, int64_t number);
/* The element stays at its position. */
void listpack_replace(struct listpack **pack, size_t at, struct bytes bytes);
void listpack_replace_int(struct listpack **pack, size_t at, int64_t number);
/* `count` elements from `at` on, or as many as there are. Returns the position of what follows. */
size_t listpack_delete(struct listpack **pack, size_t at, size_t count);

#endif
