#include "value/string.h"

#include "base/check.h"
#include "base/mem.h"

enum { INT_TEXT_MAX = 20 };

static struct value value_of_bytes(enum value_encoding encoding, struct bytes bytes)
{
    return (struct value){ .type = VALUE_STRING, .encoding = (uint8_t)encoding, .bytes = bytes };
}

static struct value value_of_big(struct bytes bytes)
{
    struct big_string *big = mem_zalloc(sizeof(*big));

    buffer_append_bytes(&big->buffer, bytes);
    return (struct value){ .type = VALUE_STRING, .encoding = STRING_BIG, .object = big };
}

struct value string_value(struct bytes bytes)
{
    int64_t number;

    if (bytes.size <= INT_TEXT_MAX && text_to_int(bytes, &number))
        return string_value_of_int(number);
    return bytes.size <= STRING_INLINE_MAX ? value_of_bytes(STRING_EMBEDDED, bytes) : value_of_big(bytes);
}

struct value string_value_of_int(int64_t number)
{
    return (struct value){ .type = VALUE_STRING, .encoding = STRING_INT, .integer = number };
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
    case STRING_BIG: return buffer_bytes(&((const struct big_string *)value->object)->buffer);
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
