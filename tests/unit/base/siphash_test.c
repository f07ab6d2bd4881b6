#include "support/unit.h"

#include <inttypes.h>
#include <string.h>

#include "base/random.h"
#include "base/siphash.h"

static const struct hash_seed key = { 0x0706050403020100u, 0x0f0e0d0c0b0a0908u };

/* SipHash-1-3 of the messages "", 00, 00 01, 00 01 02 ... under the key 00 01 .. 0f, as published. */
static const uint64_t vectors[] = {
    0xabac0158050fc4dc, 0xc9f49bf37d57ca93, 0x82cb9b024dc7d44d, 0x8bf80ab8e7ddf7fb, 0xcf75576088d38328,
    0xdef9d52f49533b67, 0xc50d2b50c59f22a7, 0xd3927d989bb11140, 0x369095118d299a8e, 0x25a48eb36c063de4,
    0x79de85ee92ff097f, 0x70c118c1f94dc352, 0x78a384b157b4d9a2, 0x306f760c1229ffa7, 0x605aa111c0f95d34,
};

static void the_published_vectors_are_reproduced(void **state)
{
    char message[sizeof(vectors) / sizeof(vectors[0])];

    for (size_t size = 0; size < sizeof(message); size++) {
        uint64_t hash = hash_bytes(&key, bytes_of(message, size));

        if (hash != vectors[size])
            fail_msg("%zu bytes: %016" PRIx64, size, hash);
        message[size] = (char)size;
    }
}

/* The definition of the paper, byte by byte, for messages longer than the vectors. */
static uint64_t turn(uint64_t x, unsigned by)
{
    return x << by | x >> (64 - by);
}

static void plain_round(uint64_t v[4])
{
    v[0] += v[1]; v[1] = turn(v[1], 13); v[1] ^= v[0]; v[0] = turn(v[0], 32);
    v[2] += v[3]; v[3] = turn(v[3], 16); v[3] ^= v[2];
    v[0] += v[3]; v[3] = turn(v[3], 21); v[3] ^= v[0];
    v[2] += v[1]; v[1] = turn(v[1], 17); v[1] ^= v[2]; v[2] = turn(v[2], 32);
}

static uint64_t plain_siphash_1_3(const struct hash_seed *seed, const unsigned char *message, size_t size)
{
    uint64_t v[4] = {
        seed->k0 ^ 0x736f6d6570736575u, seed->k1 ^ 0x646f72616e646f6du,
        seed->k0 ^ 0x6c7967656e657261u, seed->k1 ^ 0x7465646279746573u,
    };

    for (size_t word = 0; word <= size / 8; word++) {
        uint64_t m = 0;

        for (size_t i = 0; i < 8; i++) {
            size_t at = word * 8 + i;
            uint64_t byte = at < size ? message[at] : 0;

            if (word == size / 8 && i == 7)
                byte = size & 0xff;
            m |= byte << (8 * i);
        }
        v[3] ^= m;
        plain_round(v);
        v[0] ^= m;
    }
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        plain_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static void every_size_agrees_with_the_definition(void **state)
{
    const uint64_t start = 7;
    struct random random;
    unsigned char message[600];

    random_init(&random, start);
    for (int round = 0; round < 5000; round++) {
        struct hash_seed seed = { random_next(&random), random_next(&random) };
        size_t size = round < 600 ? (size_t)round : random_below(&random, sizeof(message) + 1);

        for (size_t i = 0; i < size; i++)
            message[i] = (unsigned char)random_next(&random);
        if (hash_bytes(&seed, bytes_of(message, size)) != plain_siphash_1_3(&seed, message, size))
            fail_msg("%zu bytes in round %d (seed %" PRIu64 ")", size, round, start);
    }
}

static void alignment_does_not_matter(void **state)
{
    char room[64];

    for (size_t offset = 0; offset < 16; offset++) {
        memcpy(room + offset, "user:1000:profile", 17);
        assert_true(hash_bytes(&key, bytes_of(room + offset, 17)) == hash_bytes(&key, BYTES("user:1000:profile")));
    }
}

static void another_seed_gives_another_hash(void **state)
{
    struct hash_seed other0 = { key.k0 ^ 1, key.k1 };
    struct hash_seed other1 = { key.k0, key.k1 ^ 1 };

    assert_true(hash_bytes(&key, BYTES("a")) != hash_bytes(&other0, BYTES("a")));
    assert_true(hash_bytes(&key, BYTES("a")) != hash_bytes(&other1, BYTES("a")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_vectors_are_reproduced),
        cmocka_unit_test(every_size_agrees_with_the_definition),
        cmocka_unit_test(alignment_does_not_matter),
        cmocka_unit_test(another_seed_gives_another_hash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
