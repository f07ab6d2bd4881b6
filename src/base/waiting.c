#include "base/waiting.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* No wake-up is lost. Here the thread is counted before the kernel compares the version; in waiting_bump the version is changed before the count is
 * read. In the one order of these four, either the kernel finds another version and does not sleep, or the count is read as more than 0, and the
 * kernel's lock of the address puts the wake-up after the sleep. A version that comes again after 2^32 changes would be taken for the same. */
void waiting_wait(struct waiting *waiting, uint32_t version, int64_t wait_ms)
{
    const struct timespec limit = { wait_ms / 1000, wait_ms % 1000 * 1000000 };

    waiting->count++;
    syscall(SYS_futex, &waiting->version, FUTEX_WAIT_PRIVATE, version, wait_ms < 0 ? NULL : &limit, NULL, 0);
    waiting->count--;
}

void waiting_wake(struct waiting *waiting)
{
    syscall(SYS_futex, &waiting->version, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
