/* String in blocks: a paged value (value/paged.h) whose pages are blocks of the string, all of one size, numbered from 0 on. For strings that are read and changed in parts.
 *
 * A page has the bytes of its block up to the last one that was written; what is missing are zeros. So a bitmap that has only its last bits set takes a page of no bytes
 * for each block before them.
 *
 * What functions miss is read at once. What a call will need, it asks for before: the functions named paged_string_has return false if pages are missing, which are wanted then.
 */
#ifndef KELVIN_VALUE_PAGED_STRING_H
#define KELVIN_VALUE_PAGED_STRING_H

#include "value/paged.h"
#include "value/string.h"

struct paged_string {
    struct paged_value paged;           /* first. Its root has the pages, and the bytes in them at most */
    uint64_t length;                    /* of the string, in bytes; over 0 */
    uint32_t block;                     /* bytes of a block */
};

static inline struct paged_string *paged_string_of(const struct value *value)
{
    return value->object;
}

/* Bytes of the blocks of new strings. */
uint32_t paged_string_block(const struct value_limits *limits);
/* Takes a copy of the bytes, followed by zeros up to `length`, which is not less and over 0, into pages that are created. `access` as it is to be attached, but its root is set here.
 * `consumed`: NULL, or what the bytes are in, which is empty afterwards: its memory is given back meanwhile. */
struct paged_value *paged_string_create(struct bytes bytes, struct blob *consumed, uint64_t length, uint32_t block, uint64_t id, struct paged_access *access);
/* The root of a string whose pages have `size` bytes at most. False: there is none. */
bool paged_string_root(uint64_t size, uint64_t length, uint32_t block, struct paged_root *root);
/* Only the root; the pages exist. */
struct paged_value *paged_string_of_root(const struct paged_root *root, uint64_t length, uint32_t block, uint64_t id);

/* The bytes from `offset` on, which is within the string, up to the end of their block. */
struct string_run paged_string_run(const struct value *value, uint64_t offset);
/* Whether it may get so long. */
static inline bool paged_string_fits(const struct value *value, uint64_t length)
{
    return length <= (uint64_t)paged_string_of(value)->block * PAGED_TREE_FIRST;
}
/* Zeros up to this length, if it is shorter. */
void paged_string_grow(const struct value *value, uint64_t length);
/* Overwrites the bytes from `offset` on; the string grows if they end after it. */
void paged_string_write(const struct value *value, uint64_t offset, struct bytes bytes);

/* The bytes from `offset` on, as far as there are any. */
bool paged_string_has(const struct value *value, uint64_t offset, uint64_t size);
/* The same for writing them: blocks that are overwritten as a whole are not needed. */
bool paged_string_has_write(const struct value *value, uint64_t offset, uint64_t size);

#endif
