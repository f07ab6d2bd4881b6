#include "base/crc32c.h"

#include <isa-l/crc.h>

enum { PART = 1 << 30 };

uint32_t crc32c(uint32_t crc, const void *data, size_t size)
{
    unsigned char *at = (unsigned char *)data;      /* it is not written to */

    crc = ~crc;
    while (size > 0) {
        int part = size < PART ? (int)size : PART;

        crc = crc32_iscsi(at, part, crc);
        at += part;
        size -= (size_t)part;
    }
    return ~crc;
}
