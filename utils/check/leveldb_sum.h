/* The checksums in LevelDB's files: CRC-32C, rotated and shifted, so that a sum over sums is not a weak one. */
#ifndef KELVIN_CHECK_LEVELDB_SUM_H
#define KELVIN_CHECK_LEVELDB_SUM_H

#include "base/crc32c.h"

static inline uint32_t leveldb_sum(const void *data, size_t size)
{
    uint32_t crc = crc32c(0, data, size);

    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

#endif
