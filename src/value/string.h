/* Strings: integers, inline bytes, and big ones on the heap. */
#ifndef KELVIN_VALUE_STRING_H
#define KELVIN_VALUE_STRING_H

#include "base/blob.h"
#include "base/text.h"
#include "value/value.h"

/* A string over STRING_INLINE_MAX is a blob (base/blob.h). It grows like a buffer, and may become shorter in place. While a reply or the
 * log holds it, too, it is copied before it is changed. */

/* The best encoding for the bytes: integer if it is one (and at most 20 characters), inline (borrowed), or big (copied). */
struct value string_value(struct bytes bytes);
struct value string_value_of_int(int64_t number);
/* For what was changed in place: never an integer, says raw. Inline (borrowed) or big (copied). */
struct value string_value_raw(struct bytes bytes);

/* A value that takes one hold of the blob over. */
struct value string_value_of_blob(struct blob *blob);

/* The string's bytes; an integer is printed into `digits`, so the result may point there. */
struct bytes string_bytes(const struct value *value, char digits[TEXT_INT_SIZE]);
size_t string_size(const struct value *value);
/* True if it is an integer or its bytes are a canonical one. */
bool string_to_int(const struct value *value, int64_t *number);

#endif
