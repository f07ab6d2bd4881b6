/* CRC-32C (Castagnoli), as LevelDB's files have it. */
#ifndef KELVIN_CHECK_CRC32C_H
#define KELVIN_CHECK_CRC32C_H

#include <stddef.h>
#include <stdint.h>

struct crc32c {
    uint32_t table[8][256];
};
void crc32c_init(struct crc32c *crc);
/* Goes on from `sum`; 0 begins. */
uint32_t crc32c_add(const struct crc32c *crc, uint32_t sum, const void *data, size_t size);
/* LevelDB stores sums rotated and shifted, so that a sum over sums is no weak one. */
uint32_t crc32c_mask(uint32_t sum);

#endif
