#include "support/unit.h"

#include <math.h>

#include "base/progress.h"

enum { SECOND = 1000000 };

static void assert_text(struct buffer *got, const char *expected)
{
    buffer_append_u8(got, '\0');
    assert_string_equal(got->data, expected);
    buffer_release(got);
}

static void amounts_have_three_digits_and_a_unit(void **state)
{
    static const struct {
        double number;
        enum progress_unit unit;
        const char *text;
    } rows[] = {
        { 0, PROGRESS_COUNT, "0" }, { 7, PROGRESS_COUNT, "7" }, { 0.25, PROGRESS_COUNT, "0.25" }, { 999, PROGRESS_COUNT, "999" },
        { 999.6, PROGRESS_COUNT, "1.00k" }, { 1000, PROGRESS_COUNT, "1.00k" }, { 12345, PROGRESS_COUNT, "12.3k" }, { 999999, PROGRESS_COUNT, "1.00M" },
        { 1023, PROGRESS_BYTES, "1023" }, { 1024, PROGRESS_BYTES, "1.00K" }, { 1536, PROGRESS_BYTES, "1.50K" }, { 5.5e9, PROGRESS_BYTES, "5.12G" },
        { 1e30, PROGRESS_COUNT, "1000000000000E" }, { -12345, PROGRESS_COUNT, "-12.3k" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buffer out = { 0 };

        progress_amount(rows[i].number, rows[i].unit, &out);
        assert_text(&out, rows[i].text);
    }
}

static void times_are_rounded_up(void **state)
{
    static const struct {
        double seconds;
        const char *text;
    } rows[] = {
        { 0, "0:00" }, { 0.2, "0:01" }, { 59.5, "1:00" }, { 61, "1:01" }, { 3600, "1:00:00" }, { 86399, "23:59:59" }, { 90061, "1 d 01:01" },
        { -5, "0:00" }, { NAN, "0:00" }, { INFINITY, "999999 d 00:00" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buffer out = { 0 };

        progress_time(rows[i].seconds, &out);
        assert_text(&out, rows[i].text);
    }
}

static void a_bar_has_its_width_for_any_fraction(void **state)
{
    static const double fractions[] = { -1, 0, 0.001, 0.5, 0.999, 1, 2, NAN, INFINITY, -INFINITY };

    for (int width = -1; width < 30; width++) {
        for (size_t i = 0; i < sizeof(fractions) / sizeof(fractions[0]); i++) {
            struct buffer out = { 0 };

            progress_bar(fractions[i], width, &out);
            assert_int_equal(out.size, width >= 3 ? width : 0);
            buffer_release(&out);
        }
    }
    struct buffer out = { 0 };
    progress_bar(0.5, 12, &out);
    assert_text(&out, "[#####.....]");
    progress_bar(0.99, 12, &out);
    assert_text(&out, "[#########.]");
}

static void the_time_left_follows_the_rate(void **state)
{
    struct progress progress;
    int64_t now_us = 1000000;

    progress_begin(&progress, PROGRESS_COUNT, 10000, now_us);
    assert_true(progress_left_s(&progress) < 0);
    for (int i = 1; i <= 40; i++)
        progress_note(&progress, (uint64_t)i * 100, now_us += 1000000);
    assert_true(fabs(progress.rate - 100) < 1e-6);
    assert_true(fabs(progress_left_s(&progress) - 60) < 1e-6);
    for (int i = 1; i <= 40; i++)                   /* it becomes ten times slower */
        progress_note(&progress, 4000 + (uint64_t)i * 10, now_us += 1000000);
    assert_true(progress.rate > 10 && progress.rate < 13);
    progress_note(&progress, 20000, now_us += 1000000);
    assert_true(progress_fraction(&progress) == 1);
    assert_true(progress_left_s(&progress) == 0);
}

static void going_back_and_a_clock_that_stands_change_nothing(void **state)
{
    struct progress progress;

    progress_begin(&progress, PROGRESS_BYTES, 1000, 0);
    progress_note(&progress, 100, 1000000);
    progress_note(&progress, 50, 2000000);
    progress_note(&progress, 500, 1000000);
    progress_note(&progress, 500, 500000);
    assert_int_equal(progress.done, 100);
    assert_true(progress.rate == 100);
}

static void work_that_is_followed_begins_with_the_first_look(void **state)
{
    struct progress progress = { .total = 0 };

    progress_follow(&progress, PROGRESS_BYTES, 500, 0, 100 * SECOND);
    assert_true(progress_left_s(&progress) < 0);
    progress_follow(&progress, PROGRESS_BYTES, 600, 0, 102 * SECOND);
    assert_true(progress.rate == 50 && progress_left_s(&progress) < 0);
    progress_follow(&progress, PROGRESS_BYTES, 700, 1000, 104 * SECOND);        /* the total is known now */
    assert_true(progress_left_s(&progress) == 6);
    progress_follow(&progress, PROGRESS_BYTES, 1000, 1000, 106 * SECOND);
    assert_true(progress_left_s(&progress) == 0);
}

static void work_that_goes_back_or_counts_something_else_is_another(void **state)
{
    struct progress progress = { .total = 0 };

    progress_follow(&progress, PROGRESS_COUNT, 0, 1000, 1 * SECOND);
    progress_follow(&progress, PROGRESS_COUNT, 500, 1000, 11 * SECOND);
    assert_true(progress_left_s(&progress) == 10);
    progress_follow(&progress, PROGRESS_COUNT, 10, 1000, 12 * SECOND);
    assert_true(progress_left_s(&progress) < 0);
    progress_follow(&progress, PROGRESS_COUNT, 20, 1000, 22 * SECOND);
    assert_true(progress_left_s(&progress) == 980);
    progress_follow(&progress, PROGRESS_BYTES, 30, 1000, 23 * SECOND);
    assert_true(progress_left_s(&progress) < 0);
}

static void a_line_fits_any_width(void **state)
{
    struct progress progress;
    struct buffer out = { 0 };

    progress_begin(&progress, PROGRESS_COUNT, 1000000, 0);
    progress_note(&progress, 521000, 2000000);
    for (int columns = 0; columns < 200; columns++) {
        out.size = 0;
        progress_text(&progress, "get", columns, &out);
        assert_true(out.size <= (size_t)columns);
    }
    out.size = 0;
    progress_text(&progress, "get", 60, &out);
    assert_text(&out, "get [###############..............]  52 %  0:02 left  260k/s");
    progress_begin(&progress, PROGRESS_BYTES, 0, 0);
    progress_note(&progress, 3 << 20, 1000000);
    progress_text(&progress, "dump", 80, &out);
    assert_text(&out, "dump 3.00M  3.00M/s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(amounts_have_three_digits_and_a_unit),
        cmocka_unit_test(times_are_rounded_up),
        cmocka_unit_test(a_bar_has_its_width_for_any_fraction),
        cmocka_unit_test(the_time_left_follows_the_rate),
        cmocka_unit_test(going_back_and_a_clock_that_stands_change_nothing),
        cmocka_unit_test(work_that_is_followed_begins_with_the_first_look),
        cmocka_unit_test(work_that_goes_back_or_counts_something_else_is_another),
        cmocka_unit_test(a_line_fits_any_width),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
