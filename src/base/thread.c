#include "base/thread.h"

#include <sched.h>
#include <signal.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/meter.h"

/* The thread's copy of what it was started with. */
struct start {
    const char *name;               /* first: tests/support/thread_shim.c reads it */
    struct meter *meter;
    thread_main *run;
    void *context;
};

static void *begin_thread(void *context)
{
    struct start start = *(struct start *)context;

    pthread_setname_np(pthread_self(), start.name);
    if (start.meter != NULL)
        meter_join(start.meter);
    mem_free(context);
    start.run(start.context);
    if (start.meter != NULL) {
        meter_leave(start.meter);
        meter_release(start.meter);
    }
    return NULL;
}

/* A new thread inherits the mask of the one that starts it. Signals that a fault raises are not blocked: they are the thread's own. */
static void block_signals(sigset_t *before)
{
    sigset_t all;

    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGILL);
    sigdelset(&all, SIGABRT);
    sigdelset(&all, SIGTRAP);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, before) == 0);
}

static int start_thread(pthread_t *id, int detach_state, const char *name, struct meter *meter, thread_main *run, void *context)
{
    struct start *start = mem_alloc(sizeof(*start));
    pthread_attr_t attributes;
    sigset_t before;
    int error;

    CHECK(strlen(name) <= THREAD_NAME_MAX);
    *start = (struct start){ name, meter != NULL ? meter_hold(meter) : NULL, run, context };
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, THREAD_STACK_SIZE) == 0);
    CHECK(pthread_attr_setdetachstate(&attributes, detach_state) == 0);
    block_signals(&before);
    error = pthread_create(id, &attributes, begin_thread, start);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (error == 0)
        return 0;
    if (meter != NULL)
        meter_release(meter);
    mem_free(start);
    return error;
}

int thread_start(struct thread *thread, const char *name, struct meter *meter, thread_main *run, void *context)
{
    int error;

    CHECK(!thread->has_started);
    error = start_thread(&thread->id, PTHREAD_CREATE_JOINABLE, name, meter, run, context);
    thread->has_started = error == 0;
    return error;
}

int thread_start_detached(const char *name, struct meter *meter, thread_main *run, void *context)
{
    pthread_t id;

    return start_thread(&id, PTHREAD_CREATE_DETACHED, name, meter, run, context);
}

void thread_join(struct thread *thread)
{
    if (!thread->has_started)
        return;
    CHECK(pthread_join(thread->id, NULL) == 0);
    thread->has_started = false;
}

int thread_cpus(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}
