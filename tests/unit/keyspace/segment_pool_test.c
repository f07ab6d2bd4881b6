#include "keyspace/segment_pool.h"

#include "support/unit.h"

#include <pthread.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"

enum { MANY = 700, THREADS = 4, ROUNDS = 2000 };

static void segments_are_aligned_and_disjoint(void **state)
{
    struct segment_pool *pool = segment_pool_create();
    char **segments = mem_alloc(MANY * sizeof(char *));

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MANY; i++) {
            segments[i] = segment_pool_take(pool);
            assert_non_null(segments[i]);
            assert_int_equal((uintptr_t)segments[i] % SEGMENT_SIZE, 0);
            memset(segments[i], i, SEGMENT_SIZE);       /* detects a segment that is returned twice */
        }
        for (int i = 0; i < MANY; i++) {
            assert_int_equal(segments[i][0], (char)i);
            assert_int_equal(segments[i][SEGMENT_SIZE - 1], (char)i);
            segment_pool_give(pool, segments[i]);
        }
    }
    mem_free(segments);
    segment_pool_destroy(pool);
}

static void reports_add_up_and_are_never_below_zero(void **state)
{
    struct segment_pool *pool = segment_pool_create();

    segment_pool_report(pool, 5000);
    segment_pool_report(pool, 300);
    assert_int_equal(segment_pool_used(pool), 5300);
    segment_pool_report(pool, -6000);
    assert_int_equal(segment_pool_used(pool), 0);
    segment_pool_report(pool, 700);
    assert_int_equal(segment_pool_used(pool), 0);
    segment_pool_destroy(pool);
}

static void *take_and_give(void *context)
{
    struct segment_pool *pool = context;
    char *held[20] = { NULL };

    for (int round = 0; round < ROUNDS; round++) {
        char **at = &held[round * 7 % 20];

        if (*at != NULL) {
            CHECK((*at)[100] == (char)((uintptr_t)at & 0x7f));
            segment_pool_give(pool, *at);
            segment_pool_report(pool, -10);
        }
        *at = segment_pool_take(pool);
        segment_pool_report(pool, 10);
        (*at)[100] = (char)((uintptr_t)at & 0x7f);
    }
    for (int i = 0; i < 20; i++) {
        segment_pool_give(pool, held[i]);
        segment_pool_report(pool, -10);
    }
    return NULL;
}

static void threads_never_get_the_same_segment(void **state)
{
    struct segment_pool *pool = segment_pool_create();
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, take_and_give, pool) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(segment_pool_used(pool), 0);
    segment_pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments_are_aligned_and_disjoint),
        cmocka_unit_test(reports_add_up_and_are_never_below_zero),
        cmocka_unit_test(threads_never_get_the_same_segment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
