/* Futex lock: a mutex of four bytes that is taken and given back inline when no other thread wants it. For locks that are held for less than
 * a microsecond, and taken by every request. A thread that finds it taken tries a few times, and then sleeps in the kernel (futex(2)).
 *
 *   state = 0 free | 1 held | 2 held, and others may sleep
 *
 * It has no owner and no condition; base/mutex.h has both. Builds with KELVIN_DEBUG remember the holder.
 */
#ifndef KELVIN_BASE_FUTEX_LOCK_H
#define KELVIN_BASE_FUTEX_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/mutex.h"

struct CAPABILITY("mutex") futex_lock {
    _Atomic uint32_t state;
#ifdef KELVIN_DEBUG
    _Atomic pthread_t holder;       /* valid while it is held */
#endif
};

/* The slow halves. */
void futex_lock_wait(struct futex_lock *lock);      /* returns with the lock taken */
void futex_lock_wake(struct futex_lock *lock);

static inline void futex_lock_init(struct futex_lock *lock)
{
    *lock = (struct futex_lock){ .state = 0 };
}

static inline void futex_lock_note_holder(struct futex_lock *lock)
{
#ifdef KELVIN_DEBUG
    lock->holder = pthread_self();
#else
    (void)lock;
#endif
}

/* False: it is taken. */
static inline bool futex_lock_try(struct futex_lock *lock) TRY_ACQUIRE(true, *lock) UNCHECKED_LOCKS;
static inline bool futex_lock_try(struct futex_lock *lock)
{
    uint32_t free = 0;

    if (UNLIKELY(!atomic_compare_exchange_strong_explicit(&lock->state, &free, 1, memory_order_acquire, memory_order_relaxed)))
        return false;
    futex_lock_note_holder(lock);
    return true;
}

static inline void futex_lock_unlock(struct futex_lock *lock) RELEASE(*lock) UNCHECKED_LOCKS;
static inline void futex_lock_unlock(struct futex_lock *lock)
{
    if (UNLIKELY(atomic_exchange_explicit(&lock->state, 0, memory_order_release) == 2))
        futex_lock_wake(lock);
}

static inline bool futex_lock_is_held(const struct futex_lock *lock)
{
    return atomic_load_explicit(&lock->state, memory_order_relaxed) != 0;
}

/* In release builds, which do not know the holder: whether any thread holds it. */
static inline bool futex_lock_is_mine(const struct futex_lock *lock)
{
#ifdef KELVIN_DEBUG
    return futex_lock_is_held(lock) && pthread_equal(lock->holder, pthread_self());
#else
    return futex_lock_is_held(lock);
#endif
}

#endif
