#include "values.h"

static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 29;
    x *= 0xa0761d6478bd642fu;
    return x ^ x >> 32;
}

/* Returns eight bytes of the stream, each from ' ' to '_'. The state increases by a fixed step; the product and the xor make
 * consecutive words look unrelated. A word does not depend on the one before, so the CPU computes several in parallel.
 */
static uint64_t word_next(uint64_t *state)
{
    uint64_t word;

    *state += 0x9e3779b97f4a7c15u;
    word = *state * 0xd1342543de82ef95u;
    word ^= word >> 32;
    return (word & 0x3f3f3f3f3f3f3f3fu) + 0x2020202020202020u;
}

static uint64_t stream_of(const struct value_rule *rule, uint64_t key)
{
    return mix(mix(key + 0x632be59bd9b4e019u) + rule->generation);
}

size_t value_size(const struct value_rule *rule, uint64_t key)
{
    if (rule->size_min == rule->size_max)
        return (size_t)rule->size_min;
    return (size_t)(rule->size_min + mix(key + 0x14057b7ef767814fu) % (rule->size_max - rule->size_min + 1));
}

void value_write(const struct value_rule *rule, uint64_t key, size_t size, char *out)
{
    uint64_t state = stream_of(rule, key), word;
    size_t i;

    for (i = 0; i + sizeof(word) <= size; i += sizeof(word)) {
        word = word_next(&state);
        memcpy(out + i, &word, sizeof(word));
    }
    if (i < size) {
        word = word_next(&state);
        memcpy(out + i, &word, size - i);
    }
}

static size_t bytes_alike(const char *a, const void *b, size_t size)
{
    size_t i = 0;

    while (i < size && a[i] == ((const char *)b)[i])
        i++;
    return i;
}

size_t value_difference(const struct value_rule *rule, uint64_t key, struct bytes value)
{
    uint64_t state = stream_of(rule, key), word, there;
    size_t i;

    for (i = 0; i + sizeof(word) <= value.size; i += sizeof(word)) {
        word = word_next(&state);
        memcpy(&there, value.data + i, sizeof(there));
        if (there != word)
            return i + bytes_alike(value.data + i, &word, sizeof(word));
    }
    word = word_next(&state);
    return i + bytes_alike(value.data + i, &word, value.size - i);
}
