#include "value/string.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "value/paged_string.h"
#include "value/type.h"

enum { INT_TEXT_MAX = 20 };

static struct value value_of_bytes(enum value_encoding encoding, struct bytes bytes)
{
    return (struct value){ .type = VALUE_STRING, .encoding = (uint8_t)encoding, .bytes = bytes };
}

struct value string_value_of_blob(struct blob *blob)
{
    return (struct value){ .type = VALUE_STRING, .encoding = STRING_BIG, .object = blob };
}

static struct value value_of_big(struct bytes bytes)
{
    return string_value_of_blob(blob_copy(bytes));
}

void string_set(struct value *value, struct bytes bytes)
{
    int64_t number;

    if (bytes.size <= INT_TEXT_MAX && text_to_int(bytes, &number))
        *value = string_value_of_int(number);
    else
        *value = bytes.size <= STRING_INLINE_MAX ? value_of_bytes(STRING_EMBEDDED, bytes) : value_of_big(bytes);
}

struct value string_value_raw(struct bytes bytes)
{
    return bytes.size <= STRING_INLINE_MAX ? value_of_bytes(STRING_RAW, bytes) : value_of_big(bytes);
}

struct bytes string_bytes(const struct value *value, char digits[TEXT_INT_SIZE])
{
    CHECK(value->type == VALUE_STRING && !string_is_in_blocks(value));
    switch (value->encoding) {
    case STRING_INT: return bytes_of(digits, text_of_int(value->integer, digits));
    case STRING_BIG: return buffer_bytes(&((const struct blob *)value->object)->buffer);
    default: return value->bytes;
    }
}

size_t string_size(const struct value *value)
{
    char digits[TEXT_INT_SIZE];

    return UNLIKELY(string_is_in_blocks(value)) ? paged_string_of(value)->length : string_bytes(value, digits).size;
}

struct string_run string_run(const struct value *value, uint64_t offset, char digits[TEXT_INT_SIZE])
{
    struct bytes bytes;

    if (UNLIKELY(string_is_in_blocks(value)))
        return paged_string_run(value, offset);
    bytes = string_bytes(value, digits);
    return (struct string_run){ bytes.data + offset, bytes.size - offset };
}

void string_read(const struct value *value, uint64_t offset, size_t size, char *to)
{
    char digits[TEXT_INT_SIZE];

    while (size > 0) {
        struct string_run run = string_run(value, offset, digits);
        size_t taken = run.size < size ? run.size : size;

        if (run.data != NULL)
            memcpy(to, run.data, taken);
        else
            memset(to, 0, taken);
        offset += taken;
        to += taken;
        size -= taken;
    }
}

bool string_has(const struct value *value, uint64_t offset, uint64_t size)
{
    return LIKELY(!string_is_in_blocks(value)) || paged_string_has(value, offset, size);
}

bool string_has_change(const struct value *value, uint64_t offset, uint64_t size)
{
    return LIKELY(!string_is_in_blocks(value)) || paged_string_has_write(value, offset, size);
}

bool string_fits(const struct value *value, uint64_t length)
{
    return paged_string_fits(value, length);
}

void string_grow(const struct value *value, uint64_t length)
{
    paged_string_grow(value, length);
}

void string_write(const struct value *value, uint64_t offset, struct bytes bytes)
{
    paged_string_write(value, offset, bytes);
}

void string_append(struct value *value, struct bytes bytes)
{
    struct blob *blob = value->object;

    CHECK(value_is_object(value));
    if (string_is_in_blocks(value)) {
        paged_string_write(value, string_size(value), bytes);
        return;
    }
    if (blob_is_shared(blob)) {
        value->object = blob_copy(buffer_bytes(&blob->buffer));
        blob_release(blob);
        blob = value->object;
    }
    buffer_append_bytes(&blob->buffer, bytes);
}

struct blob *string_join(const struct value *value)
{
    size_t size = string_size(value);
    struct blob *blob = blob_create(size);

    blob->buffer.size = size;
    string_read(value, 0, size, blob->buffer.data);
    return blob;
}

bool string_to_int(const struct value *value, int64_t *number)
{
    char digits[TEXT_INT_SIZE];
    struct bytes bytes;

    if (value->encoding == STRING_INT) {
        *number = value->integer;
        return true;
    }
    if (UNLIKELY(string_is_in_blocks(value)))
        return false;
    bytes = string_bytes(value, digits);
    return bytes.size <= INT_TEXT_MAX && text_to_int(bytes, number);
}

/* Operations of the type. Except encoding name and digest they are called only for large strings */

static const char *string_encoding_name(const struct value *string)
{
    switch (string->encoding) {
    case STRING_INT: return "int";
    case STRING_EMBEDDED: return string->bytes.size <= STRING_EMBSTR_MAX ? "embstr" : "raw";
    }
    return "raw";
}

static void string_free(struct value *string)
{
    if (string_is_in_blocks(string))
        mem_free(string->object);
    else
        blob_release(string->object);
}

static size_t string_memory(const struct value *string, size_t samples)
{
    const struct blob *big = string->object;

    if (string_is_in_blocks(string))
        return mem_size(paged_string_of(string));
    return mem_size(big) + (big->buffer.data != NULL ? mem_size(big->buffer.data) : 0);
}

static size_t string_free_effort(const struct value *string)
{
    return 1;
}

static struct value string_copy(const struct value *string)
{
    return string_value_of_blob(string_is_in_blocks(string) ? string_join(string) : blob_hold(string->object));
}

static void string_digest(const struct value *string, struct value_sum *sum)
{
    char digits[TEXT_INT_SIZE];
    struct blob *joined;

    if (!string_is_in_blocks(string)) {
        value_sum_add(sum, string_bytes(string, digits));
        return;
    }
    joined = string_join(string);
    value_sum_add(sum, buffer_bytes(&joined->buffer));
    blob_release(joined);
}

const struct value_operations string_operations = {
    .encoding_name = string_encoding_name,
    .free = string_free,
    .memory = string_memory,
    .free_effort = string_free_effort,
    .copy = string_copy,
    .digest = string_digest,
};
