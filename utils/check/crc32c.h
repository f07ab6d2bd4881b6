/* CRC-32C (Castagnoli), as in LevelDB's files. ISA-L computes it, with the widest instructions that the processor has. */
#ifndef KELVIN_CHECK_CRC32C_H
#define KELVIN_CHECK_CRC32C_H

#include <stdint.h>

#include "base/bytes.h"

/* The sum `crc` of the bytes so far, continued over `bytes`. Starts with 0. */
uint32_t crc32c(uint32_t crc, struct bytes bytes);
/* LevelDB stores sums rotated and shifted, so that a sum over sums is not a weak one. */
uint32_t crc32c_mask(uint32_t crc);

#endif
