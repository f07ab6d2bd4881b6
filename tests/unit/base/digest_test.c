#include "support/unit.h"

#include "base/digest.h"
#include "base/text.h"

/* The examples of FIPS 180-4, and the empty message with and without an address. */
static void the_published_digests_are_reproduced(void **state)
{
    static const struct { struct bytes text; const char *sha1, *sha256; } cases[] = {
        { { "", 0 }, "da39a3ee5e6b4b0d3255bfef95601890afd80709", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { { NULL, 0 }, "da39a3ee5e6b4b0d3255bfef95601890afd80709", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { { "abc", 3 }, "a9993e364706816aba3e25717850c26c9cd0d89d", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned char digest[SHA256_SIZE];
        char hex[SHA256_HEX_SIZE];

        digest_sha1_hex(cases[i].text, hex);
        assert_memory_equal(hex, cases[i].sha1, SHA1_HEX_SIZE);
        digest_sha256(cases[i].text, digest);
        text_of_bytes(digest, SHA256_SIZE, hex);
        assert_memory_equal(hex, cases[i].sha256, SHA256_HEX_SIZE);
    }
}

static void digests_are_equal_only_if_all_bytes_are(void **state)
{
    unsigned char a[SHA256_SIZE], b[SHA256_SIZE];

    (void)state;
    digest_sha256(BYTES("a"), a);
    digest_sha256(BYTES("a"), b);
    assert_true(digest_sha256_equal(a, b));
    b[SHA256_SIZE - 1] ^= 1;
    assert_false(digest_sha256_equal(a, b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_digests_are_reproduced),
        cmocka_unit_test(digests_are_equal_only_if_all_bytes_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
