#include "value/string.h"

#include "base/check.h"
#include "base/mem.h"
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
    CHECK(value->type == VALUE_STRING);
    switch (value->encoding) {
    case STRING_INT: return bytes_of(digits, text_of_int(value->integer, digits));
    case STRING_BIG: return buffer_bytes(&((const struct blob *)value->object)->buffer);
    default: return value->bytes;
    }
}

size_t string_size(const struct value *value)
{
    char digits[TEXT_INT_SIZE];

    return string_bytes(value, digits).size;
}

bool string_to_int(const struct value *value, int64_t *number)
{
    char digits[TEXT_INT_SIZE];
    struct bytes bytes;

    if (value->encoding == STRING_INT) {
        *number = value->integer;
        return true;
    }
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
    blob_release(string->object);
}

static size_t string_memory(const struct value *string, size_t samples)
{
    const struct blob *big = string->object;

    return mem_size(big) + (big->buffer.data != NULL ? mem_size(big->buffer.data) : 0);
}

static size_t string_free_effort(const struct value *string)
{
    return 1;
}

static struct value string_copy(const struct value *string)
{
    return string_value_of_blob(blob_hold(string->object));
}

static void string_digest(const struct value *string, struct value_sum *sum)
{
    char digits[TEXT_INT_SIZE];

    value_sum_add(sum, string_bytes(string, digits));
}

const struct value_operations string_operations = {
    .encoding_name = string_encoding_name,
    .free = string_free,
    .memory = string_memory,
    .free_effort = string_free_effort,
    .copy = string_copy,
    .digest = string_digest,
};
