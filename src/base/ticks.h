/* Ticks: the monotonic clock for a thread that reads it many times within a few milliseconds. The system's clock is read once (ticks_sync), and
 * the CPU's counter (x86: the time stamp counter) measures the time since then: reading that takes a third of the time, and does not make the
 * CPU wait until all it has begun is finished, which matters more.
 *
 * The counter's rate is measured against the system's clock all the time, over windows of at least 10 ms. Where the counter does not run at a
 * constant rate, until the first window is over, and a second after the last sync, the system's clock is read instead.
 *
 * Owner: one thread.
 */
#ifndef KELVIN_BASE_TICKS_H
#define KELVIN_BASE_TICKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/cpu.h"

struct ticks {
    bool has_counter;               /* it runs at a constant rate */
    uint64_t at, window_at;         /* the counter at the last sync, and when the window began */
    int64_t at_ns, window_ns;       /* the system's clock then */
    uint64_t rate;                  /* nanoseconds a tick, times 2^32; 0: not known */
    uint64_t most;                  /* ticks since the sync that it is used for: about a second */
};

void ticks_init(struct ticks *ticks);

/* Reads the system's monotonic clock. Returns nanoseconds. */
int64_t ticks_sync(struct ticks *ticks);
/* For tests: the same with given readings of both clocks. */
void ticks_sync_at(struct ticks *ticks, uint64_t counter, int64_t now_ns);

/* The time when the counter was read. -1: the system's clock has to be read. */
static inline int64_t ticks_ns_at(const struct ticks *ticks, uint64_t counter)
{
    uint64_t since = counter - ticks->at;

    if (UNLIKELY(since >= ticks->most))
        return -1;
    return ticks->at_ns + (int64_t)((unsigned __int128)since * ticks->rate >> 32);
}

/* Nanoseconds by the monotonic clock. */
static inline int64_t ticks_now_ns(const struct ticks *ticks)
{
    int64_t now_ns = ticks_ns_at(ticks, cpu_counter());

    return LIKELY(now_ns >= 0) ? now_ns : clock_mono_ns();
}

#endif
