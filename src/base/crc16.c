#include "base/crc16.h"

/* The eight steps of one byte, written out: with x the byte that leaves the sum, mixed with its own high half, the polynomial
 * x^16 + x^12 + x^5 + 1 adds x shifted by 0, 5 and 12. */
uint16_t crc16(struct bytes bytes)
{
    uint32_t crc = 0;

    for (size_t i = 0; i < bytes.size; i++) {
        uint32_t x = (crc >> 8 ^ (uint8_t)bytes.data[i]) & 0xff;

        x ^= x >> 4;
        crc = (crc << 8 ^ x << 12 ^ x << 5 ^ x) & 0xffff;
    }
    return (uint16_t)crc;
}
