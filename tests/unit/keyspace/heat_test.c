#include "keyspace/heat.h"

#include "support/unit.h"

static struct entry entry_with(uint8_t heat, uint16_t minutes)
{
    return (struct entry){ .heat = heat, .heat_minutes = minutes };
}

static void heat_falls_by_one_per_period_and_not_below_zero(void **state)
{
    struct heat_settings one = { 10, 1 }, ten = { 10, 10 }, never = { 10, 0 };

    assert_int_equal(heat_now(&one, 50, 1000, 1000), 50);
    assert_int_equal(heat_now(&one, 50, 1000, 1007), 43);
    assert_int_equal(heat_now(&one, 50, 1000, 1050), 0);
    assert_int_equal(heat_now(&one, 50, 1000, 2000), 0);
    assert_int_equal(heat_now(&ten, 50, 1000, 1009), 50);
    assert_int_equal(heat_now(&ten, 50, 1000, 1010), 49);
    assert_int_equal(heat_now(&never, 50, 1000, 60000), 50);
    assert_int_equal(heat_now(&one, 0, 1000, 1000), 0);
    assert_int_equal(heat_now(&one, 255, 65500, 20), 255 - 56);      /* the minutes wrap at 2^16 */
    assert_int_equal(heat_minutes(65536ll * 60000 + 5 * 60000 + 59999), 5);
}

static void a_clock_that_was_set_back_cools_nothing(void **state)
{
    struct heat_settings settings = { 10, 1 };
    struct random random;
    struct entry entry = entry_with(200, 1000);

    random_init(&random, 1);
    assert_int_equal(heat_now(&settings, 200, 1000, 999), 200);
    assert_int_equal(heat_now(&settings, 200, 5, (uint16_t)(5 - 24 * 60)), 200);
    assert_int_equal(heat_idle(1000, 999), 0);
    assert_int_equal(heat_idle(heat_minutes_before(7, 90), 7), 1);
    assert_int_equal(heat_idle(heat_minutes_before(7, INT64_MAX), 7), HEAT_IDLE_MAX);
    heat_touch(&settings, &entry, 400, &random);
    assert_in_range(entry.heat, 200, 201);
    assert_int_equal(entry.heat_minutes, 400);
}

static void a_touch_always_heats_a_new_key(void **state)
{
    struct heat_settings settings = { 100, 1 };
    struct random random;

    random_init(&random, 1);
    for (uint8_t heat = 0; heat <= HEAT_NEW; heat++) {
        struct entry entry = entry_with(heat, 7);

        heat_touch(&settings, &entry, 7, &random);
        assert_int_equal(entry.heat, heat + 1);
    }
}

static void a_touch_decays_first(void **state)
{
    struct heat_settings settings = { 1000000, 1 };
    struct random random;
    struct entry entry = entry_with(100, 10);

    random_init(&random, 1);
    heat_touch(&settings, &entry, 40, &random);
    assert_in_range(entry.heat, 70, 71);
    assert_int_equal(entry.heat_minutes, 40);
}

static void the_hotter_a_key_the_less_often_a_touch_heats_it(void **state)
{
    struct heat_settings settings = { 10, 0 };
    struct random random;
    struct entry entry = entry_with(HEAT_NEW, 0);
    int touches[256] = { 0 };

    random_init(&random, 1);
    for (int i = 0; i < 2000000 && entry.heat < 255; i++) {
        touches[entry.heat]++;
        heat_touch(&settings, &entry, 0, &random);
    }
    assert_int_equal(entry.heat, 255);      /* a million touches are enough, as documented by Redis for factor 10 */
    assert_true(touches[10] < touches[250]);
    for (int i = 0; i < 1000; i++)
        heat_touch(&settings, &entry, 0, &random);
    assert_int_equal(entry.heat, 255);
}

static void without_a_factor_every_touch_counts(void **state)
{
    struct heat_settings settings = { 0, 0 };
    struct random random;
    struct entry entry = entry_with(0, 0);

    random_init(&random, 1);
    for (int i = 1; i < 400; i++) {
        heat_touch(&settings, &entry, 0, &random);
        assert_int_equal(entry.heat, i < 255 ? i : 255);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heat_falls_by_one_per_period_and_not_below_zero),
        cmocka_unit_test(a_clock_that_was_set_back_cools_nothing),
        cmocka_unit_test(a_touch_always_heats_a_new_key),
        cmocka_unit_test(a_touch_decays_first),
        cmocka_unit_test(the_hotter_a_key_the_less_often_a_touch_heats_it),
        cmocka_unit_test(without_a_factor_every_touch_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
