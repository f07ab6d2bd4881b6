#include "base/sha1.h"

#include <stdint.h>

enum { BLOCK_SIZE = 64, STATE_COUNT = 5 };

static uint32_t rotate(uint32_t word, int bits)
{
    return word << bits | word >> (32 - bits);
}

static uint32_t load_big_endian(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void expand(const unsigned char *block, uint32_t words[80])
{
    for (int i = 0; i < 16; i++)
        words[i] = load_big_endian(block + 4 * i);
    for (int i = 16; i < 80; i++)
        words[i] = rotate(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
}

/* The function and the constant of a round. */
static uint32_t mix(int round, uint32_t b, uint32_t c, uint32_t d)
{
    switch (round / 20) {
    case 0: return ((b & c) | (~b & d)) + 0x5a827999;
    case 1: return (b ^ c ^ d) + 0x6ed9eba1;
    case 2: return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
    default: return (b ^ c ^ d) + 0xca62c1d6;
    }
}

static void add_block(uint32_t state[STATE_COUNT], const unsigned char *block)
{
    uint32_t words[80];
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];

    expand(block, words);
    for (int i = 0; i < 80; i++) {
        uint32_t next = rotate(a, 5) + mix(i, b, c, d) + e + words[i];

        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}

/* The last bytes are followed by 0x80, zeros and the size in bits, which may need a block of its own. */
static void add_end(uint32_t state[STATE_COUNT], struct bytes rest, uint64_t size)
{
    unsigned char blocks[2 * BLOCK_SIZE] = { 0 };
    size_t count = rest.size + 9 > BLOCK_SIZE ? 2 : 1;

    if (rest.size > 0)
        memcpy(blocks, rest.data, rest.size);
    blocks[rest.size] = 0x80;
    for (int i = 0; i < 8; i++)
        blocks[count * BLOCK_SIZE - 1 - (size_t)i] = (unsigned char)(size * 8 >> 8 * i);
    for (size_t i = 0; i < count; i++)
        add_block(state, blocks + i * BLOCK_SIZE);
}

void sha1_hex(struct bytes bytes, char hex[SHA1_HEX_SIZE])
{
    uint32_t state[STATE_COUNT] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 };
    size_t whole = bytes.size - bytes.size % BLOCK_SIZE;

    for (size_t at = 0; at < whole; at += BLOCK_SIZE)
        add_block(state, (const unsigned char *)bytes.data + at);
    add_end(state, bytes_of(whole > 0 ? bytes.data + whole : bytes.data, bytes.size - whole), bytes.size);
    for (int i = 0; i < SHA1_HEX_SIZE; i++)
        hex[i] = "0123456789abcdef"[state[i / 8] >> (28 - i % 8 * 4) & 15];
}
