/* Waiting: threads wait until something has changed, and look again at what they wait for.
 *
 *     for (;;) {
 *         uint32_t version = waiting_version(waiting);        first: what changes after this ends the wait
 *         if (... what it waits for is true ...)
 *             break;
 *         waiting_wait(waiting, version, -1);
 *     }
 *
 * The thread that changes it calls waiting_bump afterwards. That is one atomic operation while no thread waits, so one object serves for many things.
 * No locks: any thread, under any lock; the thread that waits must hold none that the other one needs.
 *
 * All zero is a new one, and there is nothing to be released.
 */
#ifndef KELVIN_BASE_WAITING_H
#define KELVIN_BASE_WAITING_H

#include <stdatomic.h>
#include <stdint.h>

struct waiting {
    _Atomic uint32_t version, count;        /* count: threads that wait */
};

static inline uint32_t waiting_version(struct waiting *waiting)
{
    return waiting->version;
}

/* Until the version is not `version`, or `wait_ms` have passed; -1: without a limit of time. May return before that. */
void waiting_wait(struct waiting *waiting, uint32_t version, int64_t wait_ms);

void waiting_wake(struct waiting *waiting);     /* by waiting_bump */

static inline void waiting_bump(struct waiting *waiting)
{
    waiting->version++;
    if (waiting->count > 0)
        waiting_wake(waiting);
}

#endif
