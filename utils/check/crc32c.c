#include "crc32c.h"

#include <string.h>

static const uint32_t polynomial = 0x82f63b78;     /* reflected */

void crc32c_init(struct crc32c *crc)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t sum = byte;

        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ (sum & 1 ? polynomial : 0);
        crc->table[0][byte] = sum;
    }
    for (uint32_t byte = 0; byte < 256; byte++) {
        for (int i = 1; i < 8; i++)
            crc->table[i][byte] = crc->table[i - 1][byte] >> 8 ^ crc->table[0][crc->table[i - 1][byte] & 255];
    }
}

/* Eight bytes at a time, each through a table of its own ("slicing", Kounavis and Berry 2005). */
uint32_t crc32c_add(const struct crc32c *crc, uint32_t sum, const void *data, size_t size)
{
    const uint8_t *at = data;

    sum = ~sum;
    for (; size >= 8; size -= 8, at += 8) {
        uint64_t word;

        memcpy(&word, at, 8);
        word ^= sum;
        sum = 0;
        for (int i = 0; i < 8; i++)
            sum ^= crc->table[7 - i][word >> (8 * i) & 255];
    }
    while (size-- > 0)
        sum = sum >> 8 ^ crc->table[0][(sum ^ *at++) & 255];
    return ~sum;
}

uint32_t crc32c_mask(uint32_t sum)
{
    return (sum >> 15 | sum << 17) + 0xa282ead8u;
}
