#include "base/thread.h"

#include "support/unit.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "base/mem.h"
#include "base/meter.h"

struct facts {
    char name[16];
    size_t stack_size;
    sigset_t blocked;
    void *block;
};

static void look_around(void *context)
{
    struct facts *facts = context;
    pthread_attr_t attributes;

    pthread_getname_np(pthread_self(), facts->name, sizeof(facts->name));
    pthread_sigmask(SIG_SETMASK, NULL, &facts->blocked);
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstacksize(&attributes, &facts->stack_size);
    pthread_attr_destroy(&attributes);
    facts->block = mem_alloc(1 << 20);
}

static void a_thread_has_its_name_its_stack_and_no_signals(void **state)
{
    const struct rlimit little = { 1 << 20, RLIM_INFINITY };
    struct rlimit before;
    struct thread thread = { 0 };
    struct facts facts;
    sigset_t mine;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_STACK, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_STACK, &(struct rlimit){ little.rlim_cur, before.rlim_max }), 0);
    assert_int_equal(thread_start(&thread, "fifteen-letters", NULL, look_around, &facts), 0);
    assert_true(thread.has_started);
    thread_join(&thread);
    assert_int_equal(setrlimit(RLIMIT_STACK, &before), 0);
    assert_false(thread.has_started);
    thread_join(&thread);           /* nothing */
    assert_string_equal(facts.name, "fifteen-letters");
    assert_true(facts.stack_size >= THREAD_STACK_SIZE);
    assert_true(sigismember(&facts.blocked, SIGTERM) && sigismember(&facts.blocked, SIGINT) && sigismember(&facts.blocked, SIGUSR1));
    assert_false(sigismember(&facts.blocked, SIGSEGV));
    pthread_sigmask(SIG_SETMASK, NULL, &mine);
    assert_false(sigismember(&mine, SIGTERM));
    mem_free(facts.block);
}

static void the_meter_counts_what_a_thread_has_left(void **state)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    (void)state;
    skip();                         /* their allocators do not count by thread */
#else
    struct meter *meter = meter_create();
    struct thread thread = { 0 };
    struct facts facts;
    void *ballast = mem_alloc(16 << 20);        /* blocks that a test before has freed here were counted nowhere */
    uint64_t before, after;

    (void)state;
    meter_join(meter);
    before = meter_used(meter);
    assert_int_equal(thread_start(&thread, "metered", meter, look_around, &facts), 0);
    thread_join(&thread);
    after = meter_used(meter);
    assert_true(after >= before + (1 << 20) && after < before + (1 << 20) + (256 << 10));
    mem_free(facts.block);
    assert_true(meter_used(meter) + (1 << 20) <= after);
    meter_leave(meter);
    meter_release(meter);
    mem_free(ballast);
#endif
}

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool is_open, is_past;
};

static void pass_gate(void *context)
{
    struct gate *gate = context;

    pthread_mutex_lock(&gate->lock);
    while (!gate->is_open)
        pthread_cond_wait(&gate->opened, &gate->lock);
    gate->is_past = true;
    pthread_cond_broadcast(&gate->opened);
    pthread_mutex_unlock(&gate->lock);
}

/* The thread holds the meter: the sanitizers would tell of one that was freed. */
static void a_detached_thread_may_outlive_the_owner_of_its_meter(void **state)
{
    struct gate gate = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false };
    struct meter *meter = meter_create();

    (void)state;
    assert_int_equal(thread_start_detached("detached", meter, pass_gate, &gate), 0);
    meter_release(meter);
    pthread_mutex_lock(&gate.lock);
    gate.is_open = true;
    pthread_cond_broadcast(&gate.opened);
    while (!gate.is_past)
        pthread_cond_wait(&gate.opened, &gate.lock);
    pthread_mutex_unlock(&gate.lock);
}

/* A limit on the address space leaves no room for a stack. */
static void without_room_for_a_stack_there_is_an_error_and_no_thread(void **state)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    (void)state;
    skip();                         /* they need address space themselves */
#else
    struct meter *meter = meter_create();
    struct thread thread = { 0 };
    struct facts facts;
    struct rlimit before, limit;
    sigset_t blocked;
    int error;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_AS, &(struct rlimit){ THREAD_STACK_SIZE / 2, before.rlim_max }), 0);
    assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
    if (limit.rlim_cur != THREAD_STACK_SIZE / 2)
        skip();                     /* qemu-user ignores it */
    error = thread_start(&thread, "refused", meter, look_around, &facts);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_int_equal(error, EAGAIN);
    assert_false(thread.has_started);
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    assert_false(sigismember(&blocked, SIGTERM));
    meter_release(meter);           /* frees it: the thread that is not there does not hold it */
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_room_for_a_stack_there_is_an_error_and_no_thread),
        cmocka_unit_test(a_thread_has_its_name_its_stack_and_no_signals),
        cmocka_unit_test(the_meter_counts_what_a_thread_has_left),
        cmocka_unit_test(a_detached_thread_may_outlive_the_owner_of_its_meter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
