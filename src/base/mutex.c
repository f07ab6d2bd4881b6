#include "base/mutex.h"

#include "base/check.h"

void mutex_init(struct mutex *mutex)
{
    CHECK(pthread_mutex_init(&mutex->os, NULL) == 0);
    mutex_note_held(mutex, false);
}

void mutex_release(struct mutex *mutex)
{
    pthread_mutex_destroy(&mutex->os);
}

void condition_init(struct condition *condition)
{
    pthread_condattr_t attributes;

    CHECK(pthread_condattr_init(&attributes) == 0);
    CHECK(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0);
    CHECK(pthread_cond_init(&condition->os, &attributes) == 0);
    pthread_condattr_destroy(&attributes);
}

void condition_release(struct condition *condition)
{
    pthread_cond_destroy(&condition->os);
}

void condition_signal(struct condition *condition)
{
    pthread_cond_signal(&condition->os);
}

void condition_broadcast(struct condition *condition)
{
    pthread_cond_broadcast(&condition->os);
}

void condition_wait(struct condition *condition, struct mutex *mutex)
{
    mutex_note_held(mutex, false);
    pthread_cond_wait(&condition->os, &mutex->os);
    mutex_note_held(mutex, true);
}

bool condition_wait_until(struct condition *condition, struct mutex *mutex, const struct timespec *deadline)
{
    int error;

    mutex_note_held(mutex, false);
    error = pthread_cond_timedwait(&condition->os, &mutex->os, deadline);
    mutex_note_held(mutex, true);
    return error != ETIMEDOUT;
}
