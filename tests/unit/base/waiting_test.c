#include "base/waiting.h"

#include <stdbool.h>
#include "support/unit.h"

#include "base/clock.h"
#include "base/thread.h"

enum { ROUNDS = 20000, LONG_MS = 60000 };

/* Two threads take turns: each waits without a limit for the other one. A wake-up that is lost ends in the test's time limit. */
struct game {
    struct waiting waiting;
    _Atomic int turn;
};

static void play(struct game *game, int me)
{
    for (int i = 0; i < ROUNDS; i++) {
        for (;;) {
            uint32_t version = waiting_version(&game->waiting);

            if (game->turn == me)
                break;
            waiting_wait(&game->waiting, version, -1);
        }
        game->turn = !me;
        waiting_bump(&game->waiting);
    }
}

static void play_second(void *context)
{
    play(context, 1);
}

static void no_wake_up_is_lost(void **state)
{
    struct game game = { .turn = 0 };
    struct thread second = { 0 };

    (void)state;
    assert_int_equal(thread_start(&second, "second", NULL, play_second, &game), 0);
    play(&game, 0);
    thread_join(&second);
    assert_int_equal(game.turn, 0);
    assert_int_equal(game.waiting.count, 0);
}

static void a_change_since_the_version_was_read_ends_the_wait(void **state)
{
    struct waiting waiting = { 0 };
    uint32_t version = waiting_version(&waiting);

    (void)state;
    waiting_bump(&waiting);
    waiting_wait(&waiting, version, -1);
    assert_int_not_equal(waiting_version(&waiting), version);
}

static void a_wait_ends_with_its_time(void **state)
{
    struct waiting waiting = { 0 };
    int64_t began_us = clock_mono_us();

    (void)state;
    waiting_wait(&waiting, waiting_version(&waiting), 0);
    waiting_wait(&waiting, waiting_version(&waiting), 20);
    assert_true(clock_mono_us() - began_us >= 20000);
    assert_true(clock_mono_us() - began_us < LONG_MS * 1000);
}

struct sleeper {
    struct waiting waiting;
    _Atomic bool is_true;
};

static void sleep_until_true(void *context)
{
    struct sleeper *sleeper = context;

    for (;;) {
        uint32_t version = waiting_version(&sleeper->waiting);

        if (sleeper->is_true)
            break;
        waiting_wait(&sleeper->waiting, version, -1);
    }
}

static void all_that_wait_are_woken(void **state)
{
    struct sleeper sleeper = { .is_true = false };
    struct thread threads[5] = { 0 };

    (void)state;
    for (int i = 0; i < 5; i++)
        assert_int_equal(thread_start(&threads[i], "sleeper", NULL, sleep_until_true, &sleeper), 0);
    while (sleeper.waiting.count < 5)
        ;
    sleeper.is_true = true;
    waiting_bump(&sleeper.waiting);
    for (int i = 0; i < 5; i++)
        thread_join(&threads[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_wake_up_is_lost),
        cmocka_unit_test(a_change_since_the_version_was_read_ends_the_wait),
        cmocka_unit_test(a_wait_ends_with_its_time),
        cmocka_unit_test(all_that_wait_are_woken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
