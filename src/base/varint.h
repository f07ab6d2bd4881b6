/* Varint: an unsigned number in as few bytes as it takes: seven bits in each, the lowest first; the top bit says that more follow. At most ten bytes. */
#ifndef KELVIN_BASE_VARINT_H
#define KELVIN_BASE_VARINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"

enum { VARINT_SIZE_MAX = 10 };

static inline unsigned varint_size(uint64_t number)
{
    unsigned size = 1;

    for (; number >= 0x80; number >>= 7)
        size++;
    return size;
}

static inline void varint_append(struct buffer *out, uint64_t number)
{
    char *begin = buffer_reserve(out, VARINT_SIZE_MAX), *at = begin;

    for (; number >= 0x80; number >>= 7)
        *at++ = (char)(number | 0x80);
    *at++ = (char)number;
    out->size += (size_t)(at - begin);
}

/* Takes a number from `*at`, and sets that to what follows. False: it does not end before `end`, or has more than 64 bits. */
static inline bool varint_take(const char **at, const char *end, uint64_t *number)
{
    *number = 0;
    for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
        uint8_t byte = (uint8_t)*(*at)++;

        *number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return shift < 63 || byte <= 1;
    }
    return false;
}

#endif
