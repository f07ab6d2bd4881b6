#include "base/crc16.h"

#include "support/unit.h"

#include "base/random.h"
#include "support/seed.h"

/* The definition, bit by bit. */
static uint16_t plain_crc16(struct bytes bytes)
{
    uint16_t crc = 0;

    for (size_t i = 0; i < bytes.size; i++) {
        crc = (uint16_t)(crc ^ (uint8_t)bytes.data[i] << 8);
        for (int bit = 0; bit < 8; bit++)
            crc = (uint16_t)(crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1);
    }
    return crc;
}

static void it_is_xmodem(void **state)
{
    assert_int_equal(crc16(BYTES("123456789")), 0x31c3);        /* the check value of the catalogue of CRCs */
    assert_int_equal(crc16(BYTES("")), 0);
    assert_int_equal(crc16(BYTES("\0\0\0")), 0);
    assert_int_equal(crc16(bytes_of(NULL, 0)), 0);
}

static void it_is_the_definition(void **state)
{
    struct random random;
    char text[300];

    random_init(&random, seed_new());
    for (int round = 0; round < 20000; round++) {
        size_t size = random_below(&random, round % 100 == 0 ? sizeof(text) : 20);

        for (size_t i = 0; i < size; i++)
            text[i] = (char)random_next(&random);
        assert_int_equal(crc16(bytes_of(text, size)), plain_crc16(bytes_of(text, size)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_xmodem),
        cmocka_unit_test(it_is_the_definition),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
