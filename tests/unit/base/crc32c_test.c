#include "base/crc32c.h"

#include "support/unit.h"

#include <string.h>

#include "base/bytes.h"
#include "base/random.h"
#include "support/guarded.h"
#include "support/seed.h"

/* The vectors of RFC 3720, B.4. */
static void crc32c_is_castagnolis(void **state)
{
    uint8_t bytes[32] = { 0 };

    assert_true(crc32c(0, NULL, 0) == 0);
    assert_true(crc32c(0, "123456789", 9) == 0xe3069283);
    for (size_t cut = 0; cut <= 9; cut++)
        assert_true(crc32c(crc32c(0, "123456789", cut), &"123456789"[cut], 9 - cut) == 0xe3069283);
    assert_true(crc32c(0, bytes, 32) == 0x8a9136aa);
    memset(bytes, 0xff, 32);
    assert_true(crc32c(0, bytes, 32) == 0x62a8ab43);
    for (int i = 0; i < 32; i++)
        bytes[i] = (uint8_t)i;
    assert_true(crc32c(0, bytes, 32) == 0x46dd794e);
    for (int i = 0; i < 32; i++)
        bytes[i] = (uint8_t)(31 - i);
    assert_true(crc32c(0, bytes, 32) == 0x113fdb5c);
}

static uint32_t bit_by_bit(uint32_t crc, struct bytes bytes)
{
    for (size_t i = 0; i < bytes.size; i++) {
        crc ^= (uint8_t)bytes.data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0x82f63b78 : crc >> 1;
    }
    return crc;
}

/* Each size and alignment that the code for wide registers may treat differently; right before a page that can't be accessed. */
static void any_bytes_have_the_sum_of_their_bits(void **state)
{
    enum { SIZE_TRIED = 700, SIZE_LARGE = 300000 };
    struct guarded guarded = guarded_create(SIZE_LARGE);
    struct random random;

    random_init(&random, seed_new());
    for (char *at = guarded.start; at < guarded.end; at++)
        *at = (char)random_next(&random);
    for (size_t size = 0; size < SIZE_TRIED; size++) {
        for (size_t shift = 0; shift < 70; shift += 1 + random_below(&random, 16)) {
            struct bytes bytes = bytes_of(guarded.end - size - shift, size);
            uint32_t first = (uint32_t)random_next(&random);

            assert_true(crc32c(first, bytes.data, bytes.size) == ~bit_by_bit(~first, bytes));
            bytes.data = guarded.start + shift;
            assert_true(crc32c(first, bytes.data, bytes.size) == ~bit_by_bit(~first, bytes));
        }
    }
    for (int round = 0; round < 20; round++) {
        size_t size = random_below(&random, SIZE_LARGE), half = random_below(&random, size + 1);
        struct bytes bytes = bytes_of(guarded.end - size, size);
        uint32_t crc = crc32c(crc32c(0, bytes.data, half), bytes.data + half, size - half);

        assert_true(crc == ~bit_by_bit(~(uint32_t)0, bytes));
    }
    guarded_destroy(&guarded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32c_is_castagnolis),
        cmocka_unit_test(any_bytes_have_the_sum_of_their_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
