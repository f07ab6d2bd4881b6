#include "value/value.h"

#include <string.h>

#include "base/check.h"
#include "base/siphash.h"
#include "value/type.h"

static const struct value_operations *const types[VALUE_TYPE_COUNT] = {
    [VALUE_STRING] = &string_operations,
    [VALUE_LIST] = &list_operations,
    [VALUE_SET] = &set_operations,
    [VALUE_ZSET] = &zset_operations,
    [VALUE_HASH] = &hash_operations,
    [VALUE_STREAM] = &stream_operations,
};

static const struct value_operations *type_of(const struct value *value)
{
    CHECK(value->type < VALUE_TYPE_COUNT && types[value->type] != NULL);
    return types[value->type];
}

const char *value_type_name(uint8_t type)
{
    static const char *const names[VALUE_TYPE_COUNT] = {
        [VALUE_STRING] = "string", [VALUE_LIST] = "list", [VALUE_SET] = "set", [VALUE_ZSET] = "zset", [VALUE_HASH] = "hash",
        [VALUE_STREAM] = "stream",
    };

    return type < VALUE_TYPE_COUNT ? names[type] : "unknown";
}

const char *value_encoding_name(const struct value *value)
{
    return type_of(value)->encoding_name(value);
}

void value_free(struct value *value)
{
    if (!value_is_object(value))
        return;
    type_of(value)->free(value);
    value->object = NULL;
}

size_t value_memory(const struct value *value, size_t samples)
{
    return value_is_object(value) ? type_of(value)->memory(value, samples) : 0;
}

size_t value_free_effort(const struct value *value)
{
    return value_is_object(value) ? type_of(value)->free_effort(value) : 0;
}

struct value value_copy(const struct value *value)
{
    return value_is_object(value) ? type_of(value)->copy(value) : *value;
}

/* The 160 bits are three lanes of the keyed hash under fixed keys. Elements are summed lane by lane, so their order
 * does not matter; an element is the hash of the lanes of its parts, so that ("ab", "c") differs from ("a", "bc"). */
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

static void lanes_add(struct value_sum *sum, struct lanes more)
{
    for (int i = 0; i < 3; i++)
        sum->lane[i] += more.lane[i];
}

void value_sum_add(struct value_sum *sum, struct bytes element)
{
    lanes_add(sum, lanes_of(element.data, element.size));
}

void value_sum_add_pair(struct value_sum *sum, struct bytes first, struct bytes second)
{
    struct lanes parts[2] = { lanes_of(first.data, first.size), lanes_of(second.data, second.size) };

    lanes_add(sum, lanes_of(parts, sizeof(parts)));
}

void value_digest(const struct value *value, uint8_t digest[20])
{
    struct {
        uint64_t type;
        struct value_sum sum;
    } whole = { .type = value->type };
    struct lanes result;

    type_of(value)->digest(value, &whole.sum);
    result = lanes_of(&whole, sizeof(whole));
    memcpy(digest, &result, 20);
}
