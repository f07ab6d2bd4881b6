#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/mem.h"
#include "base/sha1.h"

static void require_digest(struct bytes message, const char *expected)
{
    char hex[SHA1_HEX_SIZE + 1] = { 0 };

    sha1_hex(message, hex);
    assert_string_equal(hex, expected);
}

/* FIPS 180-4's examples, and the empty message. */
static void the_published_digests_are_reproduced(void **state)
{
    char *million = mem_alloc(1000000);

    memset(million, 'a', 1000000);
    require_digest(BYTES(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    require_digest(bytes_of(NULL, 0), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    require_digest(BYTES("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
    require_digest(BYTES("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"), "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    require_digest(bytes_of(million, 1000000), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    mem_free(million);
}

/* sha1sum of 'x' times 55, 56, 63, 64, 65: around the end of a block, where the padding needs a block of its own. */
static void the_ends_of_blocks_are_padded_right(void **state)
{
    char text[65];
    static const struct { size_t size; const char *digest; } cases[] = {
        { 55, "cef734ba81a024479e09eb5a75b6ddae62e6abf1" }, { 56, "901305367c259952f4e7af8323f480d59f81335b" }, { 63, "0ddc4e0cccd9a12850deb5abb0853a4425559fec" }, { 64, "bb2fa3ee7afb9f54c6dfb5d021f14b1ffe40c163" }, { 65, "78c741ddc482e4cdf8c474a0876347a0905b6233" },
    };

    memset(text, 'x', sizeof(text));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        require_digest(bytes_of(text, cases[i].size), cases[i].digest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_digests_are_reproduced),
        cmocka_unit_test(the_ends_of_blocks_are_padded_right),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
