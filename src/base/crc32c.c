#include "base/crc32c.h"

#include <isa-l/crc.h>

enum { STEP_MAX = 1 << 30 };        /* crc32_iscsi takes an int */

uint32_t crc32c(uint32_t crc, const void *data, size_t size)
{
    unsigned char *at = (unsigned char *)data;      /* crc32_iscsi only reads it */

    crc = ~crc;
    while (size > 0) {
        size_t step = size < STEP_MAX ? size : STEP_MAX;

        crc = crc32_iscsi(at, (int)step, crc);
        at += step;
        size -= step;
    }
    return ~crc;
}
