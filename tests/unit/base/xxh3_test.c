#include "base/xxh3.h"

#include "support/unit.h"

#include "support/guarded.h"

/* The first from the documentation of Redis' DIGEST, the empty one from that of XXH3. */
static void the_hash_is_the_published_one(void **state)
{
    assert_true(xxh3(BYTES("Hello world")) == 0xb6acb9d84a38ff74ull);
    assert_true(xxh3(BYTES("")) == 0x2d06800538d394c2ull);
    assert_true(xxh3((struct bytes){ NULL, 0 }) == 0x2d06800538d394c2ull);
}

/* The library has code of its own for several ranges of sizes; right before a page that can't be accessed. */
static void no_byte_after_the_end_is_read(void **state)
{
    enum { SIZE_TRIED = 1200 };
    struct guarded guarded = guarded_create(SIZE_TRIED);
    uint64_t before = 0;

    for (char *at = guarded.start; at < guarded.end; at++)
        *at = 'x';
    for (size_t size = 1; size <= SIZE_TRIED; size++) {
        uint64_t hash = xxh3(bytes_of(guarded.end - size, size));

        assert_true(hash != before);
        before = hash;
    }
    guarded_destroy(&guarded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_hash_is_the_published_one),
        cmocka_unit_test(no_byte_after_the_end_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
