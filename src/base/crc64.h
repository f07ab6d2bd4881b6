/* CRC-64 with Jones' polynomial, the checksum of RDB and DUMP, and of most of Kelvin's own files: reflected, no inversion, first sum 0.
 * ISA-L computes it, with the widest instructions that the processor has.
 */
#ifndef KELVIN_BASE_CRC64_H
#define KELVIN_BASE_CRC64_H

#include <stdint.h>

#include "base/bytes.h"

/* The sum `crc` of the bytes so far, continued over `bytes`. Starts with 0. */
uint64_t crc64(uint64_t crc, struct bytes bytes);
/* The same over `count` bytes of zero; the time grows with the logarithm of `count`. */
uint64_t crc64_zeros(uint64_t crc, uint64_t count);

#endif
