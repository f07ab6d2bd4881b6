/* tier/access: reads go past the page cache if it does not help. */
#include "support/unit.h"

#include "tier/access.h"

/* `count` reads, of which those through the cache hit at this rate. Returns how many were direct. */
static int read_many(struct access *access, int count, int percent)
{
    int direct = 0;

    for (int i = 0; i < count; i++) {
        if (access_choose(access) == SEGMENT_DIRECT)
            direct++;
        else
            access_note(access, i % 100 < percent);
    }
    return direct;
}

static void test_hits(void **state)
{
    struct access access = { 0 };

    (void)state;
    assert_int_equal(read_many(&access, 20 * ACCESS_WINDOW, 90), 0);
}

static void test_misses(void **state)
{
    struct access access = { 0 };
    int count = 10 * (ACCESS_WINDOW + ACCESS_DIRECT_PERIOD);

    (void)state;
    assert_true(read_many(&access, count, 5) > count / 100 * 85);
}

static void test_rising(void **state)
{
    struct access access = { 0 };

    (void)state;
    for (int percent = 3; percent < 30; percent += 3)
        assert_int_equal(read_many(&access, ACCESS_WINDOW, percent), 0);
}

static void test_cache_warms_up_later(void **state)
{
    struct access access = { 0 };

    (void)state;
    read_many(&access, ACCESS_WINDOW + ACCESS_DIRECT_PERIOD, 0);
    assert_int_equal(read_many(&access, 5 * ACCESS_WINDOW, 80), 0);
}

/* Writes follow the last window; before the first one the room does. */
static void test_writes(void **state)
{
    struct access access = { 0 };

    (void)state;
    assert_int_equal(access_for_writes(&access, false), SEGMENT_BUFFERED);
    assert_int_equal(access_for_writes(&access, true), SEGMENT_DIRECT);
    (void)read_many(&access, 2 * ACCESS_WINDOW, 90);
    assert_int_equal(access_for_writes(&access, true), SEGMENT_BUFFERED);
    (void)read_many(&access, 2 * ACCESS_WINDOW, 5);
    assert_int_equal(access_for_writes(&access, false), SEGMENT_DIRECT);
    (void)read_many(&access, ACCESS_DIRECT_PERIOD, 0);
    assert_int_equal(access_for_writes(&access, false), SEGMENT_DIRECT);
}

/* Loaders take their reads together while these hit. */
static void test_hitting(void **state)
{
    struct access access = { 0 };

    (void)state;
    assert_false(access_is_hitting(&access));
    (void)read_many(&access, 2 * ACCESS_WINDOW, 95);
    assert_true(access_is_hitting(&access));
    (void)read_many(&access, 2 * ACCESS_WINDOW, 60);
    assert_false(access_is_hitting(&access));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hits),
        cmocka_unit_test(test_misses),
        cmocka_unit_test(test_rising),
        cmocka_unit_test(test_writes),
        cmocka_unit_test(test_hitting),
        cmocka_unit_test(test_cache_warms_up_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
