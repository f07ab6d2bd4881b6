#include "crc32c.h"

#include <isa-l/crc.h>

enum { STEP_MAX = 1 << 30 };        /* crc32_iscsi takes an int */

uint32_t crc32c(uint32_t crc, struct bytes bytes)
{
    unsigned char *at = (unsigned char *)bytes.data;        /* crc32_iscsi only reads it */

    crc = ~crc;
    for (size_t left = bytes.size; left > 0; ) {
        size_t step = left < STEP_MAX ? left : STEP_MAX;

        crc = crc32_iscsi(at, (int)step, crc);
        at += step;
        left -= step;
    }
    return ~crc;
}

uint32_t crc32c_mask(uint32_t crc)
{
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}
