/* The checksum of LevelDB's blocks and log records: CRC-32C, rotated and shifted, so that a sum over sums is not a weak one. */
#ifndef KELVIN_CHECK_MASKED_CRC_H
#define KELVIN_CHECK_MASKED_CRC_H

#include "base/crc32c.h"

static inline uint32_t masked_crc(const void *data, size_t size)
{
    uint32_t crc = crc32c(0, data, size);

    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

#endif
