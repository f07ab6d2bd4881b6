#include "value/codec.h"

/* CRC-64, reflected, polynomial 0xad93d23594c935a9, no inversion; eight bytes a step with eight tables.
 * A CRC is linear: the entry of a byte is the sum of those of its bits, so the compiler makes the tables
 * from eight constants each: what the bits 0x01, 0x02, 0x04 ... leave, with k more zero bytes behind. */
#define K0_0 0x7ad870c830358979ull
#define K0_1 0xf5b0e190606b12f2ull
#define K0_2 0xc038e5739841b68full
#define K0_3 0xab28ecb46814fe75ull
#define K0_4 0x7d08ff3b88be6f81ull
#define K0_5 0xfa11fe77117cdf02ull
#define K0_6 0xdf7adabd7a6e2d6full
#define K0_7 0x95ac9329ac4bc9b5ull
#define K1_0 0x89e99ffd73bddf69ull
#define K1_1 0x388a19a9bfec2db9ull
#define K1_2 0x711433537fd85b72ull
#define K1_3 0xe22866a6ffb0b6e4ull
#define K1_4 0xef09eb1ea7f6fea3ull
#define K1_5 0xf54af06e177a6e2dull
#define K1_6 0xc1ccc68f76634f31ull
#define K1_7 0xa8c0ab4db4510d09ull
#define K2_0 0xf4125129ce4038beull
#define K2_1 0xc37d8400c417e217ull
#define K2_2 0xada22e52d0b85745ull
#define K2_3 0x701d7af6f9e73de1ull
#define K2_4 0xe03af5edf3ce7bc2ull
#define K2_5 0xeb2ccd88bf0b64efull
#define K2_6 0xfd00bd4226815ab5ull
#define K2_7 0xd1585cd715952601ull
#define K3_0 0x8ce168638c796306ull
#define K3_1 0x329bf69440655567ull
#define K3_2 0x6537ed2880caaaceull
#define K3_3 0xca6fda510195559cull
#define K3_4 0xbf8692f15bbd3853ull
#define K3_5 0x545403b1efede3cdull
#define K3_6 0xa8a80763dfdbc79aull
#define K3_7 0x7a092894e7201c5full
#define K4_0 0x3504e58b9ba6dd1eull
#define K4_1 0x6a09cb17374dba3cull
#define K4_2 0xd413962e6e9b7478ull
#define K4_3 0x837e0a0f85a17b9bull
#define K4_4 0x2da5324c53d5645dull
#define K4_5 0x5b4a6498a7aac8baull
#define K4_6 0xb694c9314f559174ull
#define K4_7 0x4670b431c63cb183ull
#define K5_0 0xe39d1389931b9354ull
#define K5_1 0xec6301407ea0b5c3ull
#define K5_2 0xf39f24d3a5d6f8edull
#define K5_3 0xcc676ff4133a62b1ull
#define K5_4 0xb397f9bb7ee35609ull
#define K5_5 0x4c76d525a5513f79ull
#define K5_6 0x98edaa4b4aa27ef2ull
#define K5_7 0x1a8272c5cdd36e8full
#define K6_0 0x62a95de6e302eff2ull
#define K6_1 0xc552bbcdc605dfe4ull
#define K6_2 0xa1fc51c8d49c2ca3ull
#define K6_3 0x68a185c2f1afca2dull
#define K6_4 0xd1430b85e35f945aull
#define K6_5 0x89df31589e28bbdfull
#define K6_6 0x38e744e264c6e4d5ull
#define K6_7 0x71ce89c4c98dc9aaull
#define K7_0 0x381d0015c96f4444ull
#define K7_1 0x703a002b92de8888ull
#define K7_2 0xe074005725bd1110ull
#define K7_3 0xebb126fd13edb14bull
#define K7_4 0xfc3b6ba97f4cf1fdull
#define K7_5 0xd32ff101a60e7091ull
#define K7_6 0x8d06c450148b7249ull
#define K7_7 0x3154aef3718177f9ull

#define BIT(k, n, b) ((n) >> b & 1 ? K##k##_##b : 0)
#define E1(k, n) (BIT(k, n, 0) ^ BIT(k, n, 1) ^ BIT(k, n, 2) ^ BIT(k, n, 3) ^ BIT(k, n, 4) ^ BIT(k, n, 5) ^ BIT(k, n, 6) ^ \
    BIT(k, n, 7))
#define E4(k, n) E1(k, n), E1(k, n + 1), E1(k, n + 2), E1(k, n + 3)
#define E16(k, n) E4(k, n), E4(k, n + 4), E4(k, n + 8), E4(k, n + 12)
#define E64(k, n) E16(k, n), E16(k, n + 16), E16(k, n + 32), E16(k, n + 48)
#define E256(k) { E64(k, 0), E64(k, 64), E64(k, 128), E64(k, 192) }

static const uint64_t tables[8][256] = { E256(0), E256(1), E256(2), E256(3), E256(4), E256(5), E256(6), E256(7) };

uint64_t crc64(uint64_t crc, struct bytes bytes)
{
    const uint8_t *at = (const uint8_t *)bytes.data, *end = at + bytes.size;

    for (; end - at >= 8; at += 8) {
        uint64_t word;

        memcpy(&word, at, 8);           /* little-endian, as all of the formats are */
        word ^= crc;
        crc = tables[7][word & 255] ^ tables[6][word >> 8 & 255] ^ tables[5][word >> 16 & 255] ^
            tables[4][word >> 24 & 255] ^ tables[3][word >> 32 & 255] ^ tables[2][word >> 40 & 255] ^
            tables[1][word >> 48 & 255] ^ tables[0][word >> 56];
    }
    for (; at < end; at++)
        crc = tables[0][(crc ^ *at) & 255] ^ crc >> 8;
    return crc;
}

/* Both are polynomials modulo that of the checksum; the highest bit is the constant term. */
static uint64_t multiply(uint64_t a, uint64_t b)
{
    uint64_t product = 0;

    for (int bit = 63; bit >= 0; bit--) {
        if (a >> bit & 1)
            product ^= b;
        b = b & 1 ? b >> 1 ^ K0_7 : b >> 1;
    }
    return product;
}

uint64_t crc64_zeros(uint64_t crc, uint64_t count)
{
    uint64_t factor = 1ull << (63 - 8);     /* a byte of zero multiplies by x to the eighth */

    for (; count > 0; count >>= 1) {
        if (count & 1)
            crc = multiply(crc, factor);
        factor = multiply(factor, factor);
    }
    return crc;
}
