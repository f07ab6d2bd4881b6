/* Strings: integers, inline bytes, and large ones on the heap. */
#ifndef KELVIN_VALUE_STRING_H
#define KELVIN_VALUE_STRING_H

#include "base/blob.h"
#include "base/text.h"
#include "value/value.h"

/* A string over STRING_INLINE_MAX is a blob (base/blob.h). It grows like a buffer, and may be shortened in place. While
 * a reply or the log holds it, too, it is copied before it is changed. */

/* The best encoding for the bytes: an integer if it is one (of at most 20 characters), inline (borrowed), or large (copied). */
void string_set(struct value *value, struct bytes bytes);
static inline struct value string_value(struct bytes bytes)
{
    struct value value;

    string_set(&value, bytes);
    return value;
}
static inline struct value string_value_of_int(int64_t number)
{
    return (struct value){ .type = VALUE_STRING, .encoding = STRING_INT, .integer = number };
}
/* For a string that was changed in place: never an integer, reported as raw. Inline (borrowed) or large (copied). */
struct value string_value_raw(struct bytes bytes);

/* A value that takes over the caller's hold of the blob. */
struct value string_value_of_blob(struct blob *blob);

/* The string's bytes; an integer is printed into `digits`, which the result then refers to. Not of a string in blocks. */
struct bytes string_bytes(const struct value *value, char digits[TEXT_INT_SIZE]);
size_t string_size(const struct value *value);
/* True if it is an integer, or its bytes are a canonical one. */
bool string_to_int(const struct value *value, int64_t *number);

/* --- parts of any string: one in blocks (value/paged_string.h) is never there as a whole --- */

static inline bool string_is_in_blocks(const struct value *value) { return value_is_paged(value); }
struct string_run {
    const char *data;           /* NULL: zeros. Valid until the string changes, or `digits` does */
    size_t size;                /* over 0 */
};
/* Bytes from `offset` on, which is within the string: all, or those of a block. */
struct string_run string_run(const struct value *value, uint64_t offset, char digits[TEXT_INT_SIZE]);
/* Copies bytes, which are all within the string. */
void string_read(const struct value *value, uint64_t offset, size_t size, char *to);
/* Changes of a string in blocks, for which the caller has asked (string_has_change): whether it may get so long; zeros up to a length, if it is shorter; bytes, up to which it grows. */
bool string_fits(const struct value *value, uint64_t length);
void string_grow(const struct value *value, uint64_t length);
void string_write(const struct value *value, uint64_t offset, struct bytes bytes);
/* Appends to a string that is in blocks or large. */
void string_append(struct value *value, struct bytes bytes);
/* A copy in one piece of a string in blocks. */
struct blob *string_join(const struct value *value);
/* Whether the bytes from `offset` on are there, as far as the string has them; false: parts are wanted (key_ask). */
bool string_has(const struct value *value, uint64_t offset, uint64_t size);
/* The same for what is needed to overwrite them. */
bool string_has_change(const struct value *value, uint64_t offset, uint64_t size);

#endif
