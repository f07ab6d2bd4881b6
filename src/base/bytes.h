/* Bytes: a borrowed run of bytes. It owns nothing and is valid as long as its lender says. */
#ifndef KELVIN_BASE_BYTES_H
#define KELVIN_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
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

/* Like memcmp; a prefix sorts before what it is a prefix of. */
int bytes_compare(struct bytes a, struct bytes b);

/* Compares without regard to ASCII case. `string` ends with NUL. */
bool bytes_is(struct bytes a, const char *string);

#endif
