/* The store's background thread, and its files. */
#include "support/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "support/env_work.h"
#include "support/store_box.h"

static int setup(void **state)
{
    struct box *box = mem_zalloc(sizeof(*box));

    box_create(box, 0);
    *state = box;
    return 0;
}

static int teardown(void **state)
{
    box_destroy(*state);
    mem_free(*state);
    return 0;
}

static void count_up(void *counter)
{
    char name[16];

    pthread_getname_np(pthread_self(), name, sizeof(name));
    CHECK(strcmp(name, "kelvin-compact") == 0);
    atomic_fetch_add((atomic_int *)counter, 1);
}

static void the_thread_finishes_all_work_before_it_is_joined(void **state)
{
    atomic_int counter = 0;

    (void)state;
    for (int round = 0; round < 20; round++) {
        struct store_env *env = store_env_create(disk_system());

        assert_int_equal(store_env_start(env, NULL), 0);
        for (int i = 0; i < 100; i++)
            env_work_schedule(env, count_up, &counter);
        if (round % 2 == 0) {
            env_work_wait(env);
            assert_int_equal(atomic_load(&counter), (round + 1) * 100);
        }
        store_env_destroy(env);
        assert_int_equal(atomic_load(&counter), (round + 1) * 100);
    }
}

static void key_runs_are_never_mapped_into_memory(void **state)
{
    struct box *box = *state;
    char line[512];
    FILE *maps;

    assert_int_equal(box_open(box), STATUS_OK);
    box_write_many(box, 300);
    assert_int_equal(store_flush(box->store), STATUS_OK);
    box_verify(box, box->store, STATUS_OK);
    maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps) != NULL)
        assert_null(strstr(line, box->root));
    fclose(maps);
    assert_true(store_env_stats(box->env).reads > 0);
    assert_true(store_env_stats(box->env).written_bytes > 0);
    assert_true(store_env_stats(box->env).syncs > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_thread_finishes_all_work_before_it_is_joined),
        cmocka_unit_test_setup_teardown(key_runs_are_never_mapped_into_memory, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
