#include "base/crc64.h"

#include "support/unit.h"

#include "base/mem.h"
#include "base/random.h"
#include "support/guarded.h"
#include "support/seed.h"

static void crc64_is_the_one_of_jones(void **state)
{
    assert_true(crc64(0, BYTES("")) == 0);
    assert_true(crc64(0, BYTES("123456789")) == 0xe9c6d914c4b8d9caull);
    for (size_t cut = 0; cut <= 9; cut++)
        assert_true(crc64(crc64(0, bytes_of("123456789", cut)), bytes_of(&"123456789"[cut], 9 - cut)) == 0xe9c6d914c4b8d9caull);
}

static uint64_t bit_by_bit(uint64_t crc, struct bytes bytes)
{
    for (size_t i = 0; i < bytes.size; i++) {
        crc ^= (uint8_t)bytes.data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0x95ac9329ac4bc9b5ull : crc >> 1;
    }
    return crc;
}

/* Every size and alignment that the code for wide registers may treat in its own way; right before a page that can't be accessed. */
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
            uint64_t first = (uint64_t)random_next(&random);

            assert_true(crc64(first, bytes) == bit_by_bit(first, bytes));
            bytes.data = guarded.start + shift;
            assert_true(crc64(first, bytes) == bit_by_bit(first, bytes));
        }
    }
    for (int round = 0; round < 20; round++) {
        size_t size = random_below(&random, SIZE_LARGE), half = random_below(&random, size + 1);
        struct bytes bytes = bytes_of(guarded.end - size, size);
        uint64_t crc = crc64(crc64(0, bytes_of(bytes.data, half)), bytes_of(bytes.data + half, size - half));

        assert_true(crc == bit_by_bit((uint64_t)0, bytes));
    }
    guarded_destroy(&guarded);
}

static void zeros_are_summed_without_being_there(void **state)
{
    static const size_t counts[] = { 0, 1, 2, 7, 8, 9, 255, 4096, 100001 };
    char *zeros = mem_zalloc(100001);

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        uint64_t crc = crc64(0, BYTES("some bytes"));

        assert_true(crc64_zeros(crc, counts[i]) == crc64(crc, bytes_of(zeros, counts[i])));
    }
    mem_free(zeros);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc64_is_the_one_of_jones),
        cmocka_unit_test(any_bytes_have_the_sum_of_their_bits),
        cmocka_unit_test(zeros_are_summed_without_being_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
