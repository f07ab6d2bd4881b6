#include "base/siphash.h"

static inline uint64_t rotate(uint64_t x, int by)
{
    return (x << by) | (x >> (64 - by));
}

struct sip {
    uint64_t v0, v1, v2, v3;
};

static inline void sip_round(struct sip *s)
{
    s->v0 += s->v1;
    s->v2 += s->v3;
    s->v1 = rotate(s->v1, 13) ^ s->v0;
    s->v3 = rotate(s->v3, 16) ^ s->v2;
    s->v0 = rotate(s->v0, 32);
    s->v2 += s->v1;
    s->v0 += s->v3;
    s->v1 = rotate(s->v1, 17) ^ s->v2;
    s->v3 = rotate(s->v3, 21) ^ s->v0;
    s->v2 = rotate(s->v2, 32);
}

/* The last `left` bytes, fewer than eight, of `size` in all; little-endian machines only, as for the store's formats. Loads of a fixed size are
 * much cheaper than a memcpy of any, so they overlap what was read before, or each other. */
static inline uint64_t load_tail(const char *at, size_t left, size_t size)
{
    uint64_t word;
    uint32_t low, high;

    if (size >= 8) {
        memcpy(&word, at + left - 8, 8);
        return word >> (8 - left) * 8;
    }
    if (left >= 4) {
        memcpy(&low, at, 4);
        memcpy(&high, at + left - 4, 4);
        return (uint64_t)high << (left - 4) * 8 | low;
    }
    return (uint64_t)(unsigned char)at[0] | (uint64_t)(unsigned char)at[left / 2] << left / 2 * 8 |
        (uint64_t)(unsigned char)at[left - 1] << (left - 1) * 8;
}

uint64_t hash_bytes(const struct hash_seed *seed, struct bytes bytes)
{
    struct sip s = {
        seed->k0 ^ 0x736f6d6570736575ull, seed->k1 ^ 0x646f72616e646f6dull,
        seed->k0 ^ 0x6c7967656e657261ull, seed->k1 ^ 0x7465646279746573ull,
    };
    const char *at = bytes.data;
    size_t left = bytes.size;
    uint64_t word;

    while (left >= 8) {
        memcpy(&word, at, 8);
        s.v3 ^= word;
        sip_round(&s);
        s.v0 ^= word;
        at += 8;
        left -= 8;
    }
    word = (uint64_t)bytes.size << 56;
    if (left > 0)
        word |= load_tail(at, left, bytes.size);
    s.v3 ^= word;
    sip_round(&s);
    s.v0 ^= word;
    s.v2 ^= 0xff;
    sip_round(&s);
    sip_round(&s);
    sip_round(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
