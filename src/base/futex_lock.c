#include "base/futex_lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cpu.h"

enum { TRIES = 10 };        /* about half a microsecond: longer than most holders need, shorter than a sleep */

static bool is_soon_free(struct futex_lock *lock)
{
    for (int i = 0; i < TRIES; i++) {
        uint32_t free = 0;

        cpu_relax();
        if (atomic_load_explicit(&lock->state, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong_explicit(&lock->state, &free, 1, memory_order_acquire, memory_order_relaxed))
            return true;
    }
    return false;
}

/* A thread that has slept takes it as "others may sleep": it does not know, and its unlock wakes one more. */
void futex_lock_wait(struct futex_lock *lock)
{
    if (!is_soon_free(lock)) {
        while (atomic_exchange_explicit(&lock->state, 2, memory_order_acquire) != 0)
            syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
    }
    futex_lock_note_holder(lock);
}

void futex_lock_wake(struct futex_lock *lock)
{
    syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
