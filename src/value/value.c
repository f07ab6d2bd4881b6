#include "value/value.h"

#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "containers/dict.h"
#include "containers/listpack.h"
#include "value/hash.h"
#include "value/string.h"

const char *value_type_name(uint8_t type)
{
    switch (type) {
    case VALUE_STRING: return "string";
    case VALUE_LIST: return "list";
    case VALUE_SET: return "set";
    case VALUE_ZSET: return "zset";
    case VALUE_HASH: return "hash";
    case VALUE_STREAM: return "stream";
    }
    return "unknown";
}

const char *value_encoding_name(const struct value *value)
{
    if (value->type == VALUE_HASH)
        return value->encoding == HASH_LISTPACK ? "listpack" : "hashtable";
    if (value->type != VALUE_STRING)
        return "unknown";
    switch (value->encoding) {
    case STRING_INT: return "int";
    case STRING_EMBEDDED: return value->bytes.size <= STRING_EMBSTR_MAX ? "embstr" : "raw";
    }
    return "raw";
}

void value_free(struct value *value)
{
    if (value->type == VALUE_HASH) {
        if (value->encoding == HASH_LISTPACK)
            listpack_destroy(value->object);
        else
            dict_destroy(value->object);
    } else {
        CHECK(value->type == VALUE_STRING);
        if (value->encoding != STRING_BIG)
            return;
        buffer_release(&((struct big_string *)value->object)->buffer);
        mem_free(value->object);
    }
    value->object = NULL;
}

size_t value_memory(const struct value *value, size_t samples)
{
    const struct big_string *big;

    if (value->type == VALUE_HASH)
        return value->encoding == HASH_LISTPACK ? listpack_memory(value->object) : dict_memory(value->object, samples);
    CHECK(value->type == VALUE_STRING);
    if (value->encoding != STRING_BIG)
        return 0;
    big = value->object;
    return mem_size(big) + (big->buffer.data != NULL ? mem_size(big->buffer.data) : 0);
}

size_t value_effort(const struct value *value)
{
    if (value->type == VALUE_HASH && value->encoding == HASH_TABLE)
        return dict_count(value->object) + 1;
    return value_is_object(value);
}

struct value value_copy(const struct value *value)
{
    struct value copy = *value;
    char digits[TEXT_INT_SIZE];

    if (value->type == VALUE_HASH) {
        if (value->encoding == HASH_LISTPACK)
            copy.object = listpack_copy(value->object);
        else
            copy.object = dict_copy(value->object);
        return copy;
    }
    CHECK(value->type == VALUE_STRING);
    if (value->encoding == STRING_BIG) {
        struct big_string *big = mem_zalloc(sizeof(*big));

        buffer_append_bytes(&big->buffer, string_bytes(value, digits));
        copy.object = big;
    }
    return copy;
}

/* Three lanes of the keyed hash under fixed keys are the 160 bits. Elements are summed lane by lane, so their order
 * does not matter; an element is the lanes of its parts, hashed together, so that ("ab", "c") is not ("a", "bc"). */
struct lanes {
    uint64_t lane[3];
};

static struct lanes lanes_of(const void *data, size_t size)
{
    struct lanes lanes;

    for (uint64_t i = 0; i < 3; i++) {
        struct hash_seed seed = { 0x6b656c76696e0000ull + i, 0x9e3779b97f4a7c15ull * (i + 1) };

        lanes.lane[i] = hash_bytes(&seed, bytes_of(data, size));
    }
    return lanes;
}

static struct lanes lanes_of_pair(struct bytes field, struct bytes value)
{
    struct lanes parts[2] = { lanes_of(field.data, field.size), lanes_of(value.data, value.size) };

    return lanes_of(parts, sizeof(parts));
}

static void lanes_add(struct lanes *sum, struct lanes more)
{
    for (int i = 0; i < 3; i++)
        sum->lane[i] += more.lane[i];
}

void value_digest(const struct value *value, uint8_t digest[20])
{
    struct {
        uint64_t type;
        struct lanes sum;
    } whole = { .type = value->type };
    struct lanes result;

    if (value->type == VALUE_HASH) {
        struct hash_iterator iterator;
        struct bytes field, data;

        hash_iterate(&iterator, value);
        while (hash_next(&iterator, &field, &data))
            lanes_add(&whole.sum, lanes_of_pair(field, data));
    } else {
        char digits[TEXT_INT_SIZE];
        struct bytes bytes = string_bytes(value, digits);

        whole.sum = lanes_of(bytes.data, bytes.size);
    }
    result = lanes_of(&whole, sizeof(whole));
    memcpy(digest, &result, 20);
}
