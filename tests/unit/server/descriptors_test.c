#include "server/descriptors.h"

#include "support/unit.h"

static struct descriptors divide(uint64_t limit, uint64_t clients, int loops)
{
    struct descriptors result = { 0 };

    descriptors_divide(&result, limit, clients, loops);
    return result;
}

static void with_enough_all_get_what_they_want(void **state)
{
    struct descriptors got = divide(1 << 20, 10000, 4);

    assert_int_equal(got.clients, 10000);
    assert_int_equal(got.segments, DESCRIPTORS_SEGMENTS_WANTED);
}

static void the_parts_never_exceed_the_limit(void **state)
{
    static const uint64_t wanted[] = { 1, 100, 1000, 10000, UINT32_MAX };

    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        for (int loops = 1; loops <= 128; loops *= 2) {
            for (uint64_t limit = 0; limit < 40000; limit += limit < 3000 ? 1 : 97) {
                struct descriptors got = divide(limit, wanted[i], loops);

                assert_true(got.clients <= wanted[i]);
                assert_true(got.segments >= DESCRIPTORS_SEGMENTS_MIN);
                if (got.clients > 0)
                    assert_true(got.reserved + got.segments + got.clients <= limit);
            }
        }
    }
}

static void the_store_keeps_its_share_when_clients_want_more(void **state)
{
    struct descriptors got = divide(4096, 10000, 1);

    assert_int_equal(got.segments, (4096 - got.reserved) / 4);
    assert_int_equal(got.clients, 4096 - got.reserved - got.segments);
    got = divide(20000, 1000000, 1);
    assert_int_equal(got.segments, 1024);
}

static void what_clients_do_not_want_goes_to_the_store(void **state)
{
    struct descriptors got = divide(4096, 100, 1);

    assert_int_equal(got.clients, 100);
    assert_int_equal(got.segments, 4096 - got.reserved - 100);
}

static void too_few_for_the_server_leave_no_client(void **state)
{
    struct descriptors got = divide(100, 10000, 1);

    assert_int_equal(got.clients, 0);
    got = divide(got.reserved + DESCRIPTORS_SEGMENTS_MIN + 1, 10000, 1);
    assert_int_equal(got.clients, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_enough_all_get_what_they_want),
        cmocka_unit_test(the_parts_never_exceed_the_limit),
        cmocka_unit_test(the_store_keeps_its_share_when_clients_want_more),
        cmocka_unit_test(what_clients_do_not_want_goes_to_the_store),
        cmocka_unit_test(too_few_for_the_server_leave_no_client),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
