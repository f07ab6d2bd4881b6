#include "base/crc64.h"

#include <isa-l/crc64.h>

static const uint64_t polynomial = 0x95ac9329ac4bc9b5ull;      /* reflected */

/* ISA-L's variant inverts the sum before and after, and Redis' does not. */
uint64_t crc64(uint64_t crc, struct bytes bytes)
{
    return ~crc64_jones_refl(~crc, (const unsigned char *)bytes.data, bytes.size);
}

/* Both are polynomials modulo that of the checksum; the highest bit is the constant term. */
static uint64_t multiply(uint64_t a, uint64_t b)
{
    uint64_t product = 0;

    for (int bit = 63; bit >= 0; bit--) {
        if (a >> bit & 1)
            product ^= b;
        b = b & 1 ? b >> 1 ^ polynomial : b >> 1;
    }
    return product;
}

uint64_t crc64_zeros(uint64_t crc, uint64_t count)
{
    uint64_t factor = 1ull << (63 - 8);     /* a byte of zero multiplies by x to the eighth */

    for (; count > 0; count >>= 1) {
        if (count & 1)
            crc = multiply(crc, factor);
        factor = multiply(factor, factor);
    }
    return crc;
}
