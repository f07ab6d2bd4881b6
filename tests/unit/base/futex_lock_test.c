#include "support/unit.h"

#include <pthread.h>
#include <time.h>

#include "base/futex_lock.h"

enum { THREADS = 4, ROUNDS = 50000 };

struct shared {
    struct futex_lock lock;
    uint64_t count, waits;
};

static void take(struct futex_lock *lock, uint64_t *waits) UNCHECKED_LOCKS;
static void take(struct futex_lock *lock, uint64_t *waits)
{
    if (futex_lock_try(lock))
        return;
    futex_lock_wait(lock);
    ++*waits;
}

static void *count_up(void *context)
{
    struct shared *shared = context;

    for (int i = 0; i < ROUNDS; i++) {
        take(&shared->lock, &shared->waits);
        shared->count++;
        futex_lock_unlock(&shared->lock);
    }
    return NULL;
}

static void one_thread_at_a_time_has_it(void **state)
{
    struct shared shared = { .count = 0 };
    pthread_t threads[THREADS];

    futex_lock_init(&shared.lock);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, &shared), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(shared.count, THREADS * ROUNDS);
    assert_false(futex_lock_is_held(&shared.lock));
}

static void *wait_for_it(void *context)
{
    struct shared *shared = context;

    take(&shared->lock, &shared->waits);
    shared->count++;
    futex_lock_unlock(&shared->lock);
    return NULL;
}

/* The first one to wait long enough is asleep: it has left its mark in the state. */
static void sleepers_are_woken(void **state)
{
    struct shared shared = { .count = 0 };
    struct timespec pause = { 0, 1000000 };
    pthread_t threads[THREADS];

    futex_lock_init(&shared.lock);
    assert_true(futex_lock_try(&shared.lock));
    assert_false(futex_lock_try(&shared.lock));
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wait_for_it, &shared), 0);
    while (atomic_load(&shared.lock.state) != 2)
        nanosleep(&pause, NULL);
    assert_int_equal(shared.count, 0);
    assert_true(futex_lock_is_mine(&shared.lock));
    futex_lock_unlock(&shared.lock);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(shared.count, THREADS);
    assert_true(shared.waits >= 1);         /* a thread that came after the unlock did not wait */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread_at_a_time_has_it),
        cmocka_unit_test(sleepers_are_woken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
