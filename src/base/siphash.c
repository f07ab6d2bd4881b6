#include "base/siphash.h"

#include "base/tail.h"

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
        word |= tail_load(at, left, bytes.size);
    s.v3 ^= word;
    sip_round(&s);
    s.v0 ^= word;
    s.v2 ^= 0xff;
    sip_round(&s);
    sip_round(&s);
    sip_round(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
