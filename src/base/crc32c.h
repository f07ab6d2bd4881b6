/* CRC-32C (Castagnoli), as in RFC 3720: over the whole of `data`, continuing from `crc` (0 at first). */
#ifndef KELVIN_BASE_CRC32C_H
#define KELVIN_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(uint32_t crc, const void *data, size_t size);

#endif
