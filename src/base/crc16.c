#include "base/crc16.h"

#include <string.h>

#include "base/tail.h"

/* The remainder of a polynomial of 64 bits times x^16. To cancel what is at x^16 and above, the divisor x^16 + x^12 + x^5 + 1 is multiplied by the
 * quotient q; its highest bits are the polynomial's, and each bit of it adds to those 4, 11 and 16 places lower. So q = v / (1 + u) with
 * u = >>4 + >>11 + >>16, and 1 / (1 + u) is (1 + u)(1 + u^2)(1 + u^4)(1 + u^8), as squaring without carries squares each term. */
static inline uint16_t remainder_of(uint64_t v)
{
    v ^= v >> 4 ^ v >> 11 ^ v >> 16;
    v ^= v >> 8 ^ v >> 22 ^ v >> 32;
    v ^= v >> 16 ^ v >> 44;
    v ^= v >> 32;
    return (uint16_t)(v << 12 ^ v << 5 ^ v);
}

static inline uint64_t load(const char *at)
{
    uint64_t word;

    memcpy(&word, at, 8);
    return __builtin_bswap64(word);
}

/* The first piece has the bytes that are too many for whole words: zeros before a text do not change its sum, which begins with 0. */
uint16_t crc16(struct bytes bytes)
{
    size_t first = bytes.size % 8;
    uint64_t sum = 0;

    if (first > 0)
        sum = remainder_of((bytes.size > 8 ? load(bytes.data) : __builtin_bswap64(tail_load(bytes.data, first, first))) >> (64 - 8 * first));
    for (size_t at = first; at < bytes.size; at += 8)
        sum = remainder_of(load(bytes.data + at) ^ sum << 48);
    return (uint16_t)sum;
}
