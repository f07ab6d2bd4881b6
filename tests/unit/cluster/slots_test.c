#include "cluster/slots.h"

#include "support/unit.h"

#include <string.h>

#include "base/random.h"
#include "support/seed.h"

static void the_bits_are_those_of_the_bus(void **state)
{
    struct slots slots = { { 0 } };

    slots_add(&slots, 0);
    slots_add(&slots, 9);
    slots_add(&slots, SLOT_COUNT - 1);
    assert_int_equal(slots.bits[0], 0x01);
    assert_int_equal(slots.bits[1], 0x02);
    assert_int_equal(slots.bits[SLOTS_SIZE - 1], 0x80);
    assert_int_equal(slots_count(&slots), 3);
    slots_remove(&slots, 9);
    slots_remove(&slots, 9);
    assert_int_equal(slots.bits[1], 0);
    assert_int_equal(slots_count(&slots), 2);
}

static void all_slots_are_one_range_and_none_are_no_range(void **state)
{
    struct slots slots = { { 0 } };
    struct slot_range range;

    assert_false(slots_next(&slots, 0, &range));
    assert_int_equal(slots_count(&slots), 0);
    slots_add_range(&slots, (struct slot_range){ 0, SLOT_COUNT - 1 });
    assert_int_equal(slots_count(&slots), SLOT_COUNT);
    assert_true(slots_next(&slots, 0, &range));
    assert_int_equal(range.first, 0);
    assert_int_equal(range.last, SLOT_COUNT - 1);
    assert_false(slots_next(&slots, range.last + 1U, &range));
    assert_true(slots_next(&slots, 777, &range));           /* a range is cut at `from` */
    assert_int_equal(range.first, 777);
}

static void ranges_of_a_random_set_are_its_runs_in_order(void **state)
{
    struct random random;

    random_init(&random, seed_new());
    for (int round = 0; round < 300; round++) {
        struct buffer text = { 0 };
        struct slots slots = { { 0 } }, again = { { 0 } };
        struct slot_range range;
        uint8_t plain[SLOT_COUNT] = { 0 };
        unsigned end = 0, count = 0, largest = round % 3 == 0 ? 2 : 1 + (unsigned)random_below(&random, 500);

        for (uint64_t i = random_below(&random, 200); i > 0; i--) {
            unsigned first = (unsigned)random_below(&random, SLOT_COUNT), size = (unsigned)random_below(&random, largest);

            range = (struct slot_range){ (uint16_t)first, (uint16_t)(first + size < SLOT_COUNT ? first + size : SLOT_COUNT - 1) };
            slots_add_range(&slots, range);
            memset(plain + range.first, 1, range.last - range.first + 1U);
        }
        for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
            assert_int_equal(slots_has(&slots, slot), plain[slot]);
            count += plain[slot];
        }
        assert_int_equal(slots_count(&slots), count);
        for (unsigned at = 0; slots_next(&slots, at, &range); at = range.last + 1U) {
            assert_true(range.first > end || end == 0);     /* not next to the range before */
            assert_true(range.first <= range.last);
            end = range.last + 1U;
            slots_add_range(&again, range);
        }
        assert_true(slots_equal(&slots, &again));
        slots_write(&slots, &text);
        again = (struct slots){ { 0 } };
        assert_true(slots_read(buffer_bytes(&text), &again));
        assert_true(slots_equal(&slots, &again));
        buffer_release(&text);
        slots_remove(&again, end > 0 ? end - 1 : 0);
        assert_int_equal(slots_equal(&slots, &again), count == 0);
    }
}

static void what_is_no_list_of_slots_is_refused(void **state)
{
    static const char *const texts[] = { "x", "-", "1-", "-1", "3-2", "16384", "0-16384", "1,,2", ",1", "1-2-3", "1 2" };
    struct slots slots = { { 0 } };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_false(slots_read(bytes_of_string(texts[i]), &slots));
    assert_true(slots_read(BYTES(""), &slots));
    assert_true(slots_read(BYTES("16383,0-1"), &slots));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_are_those_of_the_bus),
        cmocka_unit_test(all_slots_are_one_range_and_none_are_no_range),
        cmocka_unit_test(ranges_of_a_random_set_are_its_runs_in_order),
        cmocka_unit_test(what_is_no_list_of_slots_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
