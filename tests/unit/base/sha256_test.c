#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/sha256.h"

static void known_digests(void **state)
{
    static const struct { struct bytes text; const char *hex; } cases[] = {
        { { "", 0 }, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { { NULL, 0 }, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { { "abc", 3 }, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
    };

    (void)state;
    for (int i = 0; i < 3; i++) {
        unsigned char digest[SHA256_SIZE];
        char hex[SHA256_HEX_SIZE];

        sha256(cases[i].text, digest);
        sha256_print(digest, hex);
        assert_memory_equal(hex, cases[i].hex, SHA256_HEX_SIZE);
    }
}

static void equal_digests(void **state)
{
    unsigned char a[SHA256_SIZE], b[SHA256_SIZE];

    (void)state;
    sha256(BYTES("a"), a);
    sha256(BYTES("a"), b);
    assert_true(sha256_equal(a, b));
    b[SHA256_SIZE - 1] ^= 1;
    assert_false(sha256_equal(a, b));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(known_digests), cmocka_unit_test(equal_digests) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
