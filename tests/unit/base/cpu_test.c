#include "base/cpu.h"

#include "support/unit.h"

#include "base/clock.h"
#include "base/random.h"

static void a_byte_is_found_wherever_it_is_in_16_bytes(void **state)
{
    _Alignas(16) uint8_t bytes[16];
    struct random random;

    random_init(&random, 1);
    for (int round = 0; round < 10000; round++) {
        uint8_t byte = (uint8_t)(random_next(&random) % 3 * 127);       /* 0, 127, 254: with and without the highest bit */
        uint32_t wanted = 0;

        for (int i = 0; i < 16; i++) {
            bytes[i] = (uint8_t)(random_next(&random) % 3 * 127);
            wanted |= (uint32_t)(bytes[i] == byte) << i;
        }
        assert_int_equal(cpu_match_16(bytes, byte), wanted);
    }
}

static void the_counter_counts_time_or_there_is_none(void **state)
{
    uint64_t before = cpu_counter();
    int64_t begin_ns = clock_mono_ns();

    if (cpu_counter_10us() == 0) {
        assert_int_equal(before, 0);
        return;
    }
    while (clock_mono_ns() - begin_ns < 1000 * 1000)
        cpu_relax();
    assert_true(cpu_counter() - before >= cpu_counter_10us());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_byte_is_found_wherever_it_is_in_16_bytes),
        cmocka_unit_test(the_counter_counts_time_or_there_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
