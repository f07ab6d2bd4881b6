/* Bytes: a borrowed run of bytes. It owns nothing and is valid as long as its lender says. */
#ifndef KELVIN_BASE_BYTES_H
#define KELVIN_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
    const char *data;
    size_t size;
};

/* From a string literal, without strlen. */
#define BYTES(literal) ((struct bytes){ (literal), sizeof(literal) - 1 })

static inline struct bytes bytes_of(const void *data, size_t size)
{
    return (struct bytes){ (const char *)data, size };     /* the cast is for C++ */
}

static inline struct bytes bytes_of_string(const char *string)
{
    return (struct bytes){ string, strlen(string) };
}

static inline bool bytes_equal(struct bytes a, struct bytes b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static inline uint64_t bytes_word(const char *at)
{
    uint64_t word;

    memcpy(&word, at, sizeof(word));
    return word;
}

/* bytes_equal without a call for 8 to 32 bytes, the size of most keys: for lookups, where the call costs more than comparing. The last word
 * overlaps the one before. */
static inline bool bytes_equal_inline(struct bytes a, struct bytes b)
{
    size_t last = a.size - sizeof(uint64_t);

    if (a.size != b.size)
        return false;
    if (last > 32 - sizeof(uint64_t))
        return a.size == 0 || memcmp(a.data, b.data, a.size) == 0;
    for (size_t at = 0; at < last; at += sizeof(uint64_t)) {
        if (bytes_word(a.data + at) != bytes_word(b.data + at))
            return false;
    }
    return bytes_word(a.data + last) == bytes_word(b.data + last);
}

/* Like memcmp; a prefix sorts before what it is a prefix of. */
int bytes_compare(struct bytes a, struct bytes b);

/* Compares without regard to ASCII case. `string` ends with NUL. */
bool bytes_is(struct bytes a, const char *string);

#endif
