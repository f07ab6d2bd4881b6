/* Mutexes and condition variables of POSIX, with the annotations that let clang check at compile time which function holds which lock
 * (-Wthread-safety; gcc ignores them).
 *
 *     void table_put(struct table *table) REQUIRES(table->lock);     the caller holds the lock
 *     void table_lock(struct table *table) ACQUIRE(table->lock);     and RELEASE
 *     void table_get(struct table *table) EXCLUDES(table->lock);     the caller does not hold it; the function takes it
 *
 * An annotation of a parameter belongs to a declaration, after the closing parenthesis. clang 14 does not accept GUARDED_BY in C; a comment
 * at the field names its lock.
 *
 * Builds with KELVIN_DEBUG remember the holder, so that mutex_is_mine can be asserted.
 */
#ifndef KELVIN_BASE_MUTEX_H
#define KELVIN_BASE_MUTEX_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#if defined(__clang__)
#define THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define THREAD_SAFETY(attribute)
#endif

#define CAPABILITY(name)        THREAD_SAFETY(capability(name))
#define REQUIRES(...)           THREAD_SAFETY(requires_capability(__VA_ARGS__))
#define ACQUIRE(...)            THREAD_SAFETY(acquire_capability(__VA_ARGS__))
#define RELEASE(...)            THREAD_SAFETY(release_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...)        THREAD_SAFETY(try_acquire_capability(__VA_ARGS__))
#define EXCLUDES(...)           THREAD_SAFETY(locks_excluded(__VA_ARGS__))
#define ASSERTS_HELD(...)       THREAD_SAFETY(assert_capability(__VA_ARGS__))
/* For a function whose locks the analysis cannot follow, such as one that locks a list of partitions in a loop. Its comment says what it locks. */
#define UNCHECKED_LOCKS         THREAD_SAFETY(no_thread_safety_analysis)

struct CAPABILITY("mutex") mutex {
    pthread_mutex_t os;
#ifdef KELVIN_DEBUG
    pthread_t holder;               /* valid while `held` */
    _Atomic bool held;
#endif
};

struct condition {
    pthread_cond_t os;
};

void mutex_init(struct mutex *mutex);
void mutex_release(struct mutex *mutex);

static inline void mutex_note_held(struct mutex *mutex, bool held)
{
#ifdef KELVIN_DEBUG
    if (held)
        mutex->holder = pthread_self();
    mutex->held = held;
#else
    (void)mutex;
    (void)held;
#endif
}

static inline void mutex_lock(struct mutex *mutex) ACQUIRE(*mutex) UNCHECKED_LOCKS;
static inline void mutex_lock(struct mutex *mutex)
{
    pthread_mutex_lock(&mutex->os);
    mutex_note_held(mutex, true);
}

/* False: another thread holds it. */
static inline bool mutex_try_lock(struct mutex *mutex) TRY_ACQUIRE(true, *mutex) UNCHECKED_LOCKS;
static inline bool mutex_try_lock(struct mutex *mutex)
{
    if (pthread_mutex_trylock(&mutex->os) != 0)
        return false;
    mutex_note_held(mutex, true);
    return true;
}

static inline void mutex_unlock(struct mutex *mutex) RELEASE(*mutex) UNCHECKED_LOCKS;
static inline void mutex_unlock(struct mutex *mutex)
{
    mutex_note_held(mutex, false);
    pthread_mutex_unlock(&mutex->os);
}

/* In release builds, which do not know the holder, always true. */
static inline bool mutex_is_mine(const struct mutex *mutex)
{
#ifdef KELVIN_DEBUG
    return mutex->held && pthread_equal(mutex->holder, pthread_self());
#else
    (void)mutex;
    return true;
#endif
}

/* Waits until `deadline` are by CLOCK_MONOTONIC. */
void condition_init(struct condition *condition);
void condition_release(struct condition *condition);
void condition_signal(struct condition *condition);
void condition_broadcast(struct condition *condition);
void condition_wait(struct condition *condition, struct mutex *mutex) REQUIRES(*mutex);
/* False: the time is up. */
bool condition_wait_until(struct condition *condition, struct mutex *mutex, const struct timespec *deadline) REQUIRES(*mutex);

#endif
