/* CRC-32C (Castagnoli): reflected, with inversion, as in iSCSI and in LevelDB's tables. The checksum of records on the way of reads.
 *
 * ISA-L computes it with the widest instructions that the processor has (SSE 4.2, carry-less multiplication), found at run time, and with
 * a table elsewhere.
 */
#ifndef KELVIN_BASE_CRC32C_H
#define KELVIN_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The sum `crc` of the bytes so far, continued over `data`. Starts with 0. `data` may be NULL when `size` is 0. */
uint32_t crc32c(uint32_t crc, const void *data, size_t size);

#endif
