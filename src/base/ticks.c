#include "base/ticks.h"

#include "base/cpu.h"

#ifdef CPU_X86
#include <cpuid.h>
#endif

enum {
    TRIES = 3,
    WINDOW_NS = 10 * 1000 * 1000,
    WINDOW_NS_MAX = 1000 * 1000 * 1000,
    CONSTANT_RATE = 1 << 8,
};

#ifdef CPU_X86
/* "Invariant TSC" in the CPU's manuals: a bit of leaf 0x80000007. */
static bool has_constant_counter(void)
{
    unsigned a, b, c, d;

    return __get_cpuid(0x80000007u, &a, &b, &c, &d) && d & CONSTANT_RATE;
}
#else
/* ARM's counter has a constant rate by its architecture. A processor without a counter counts nothing in 10 us. */
static bool has_constant_counter(void)
{
    return cpu_counter_10us() > 0;
}
#endif

void ticks_init(struct ticks *ticks)
{
    *ticks = (struct ticks){ .has_counter = has_constant_counter() };
}

/* A window that took long is not used: the machine may have been suspended, or moved to a host with another rate. */
void ticks_sync_at(struct ticks *ticks, uint64_t counter, int64_t now_ns)
{
    int64_t window_ns = now_ns - ticks->window_ns;

    ticks->at = counter;
    ticks->at_ns = now_ns;
    if (window_ns < WINDOW_NS)
        return;
    if (window_ns <= WINDOW_NS_MAX && counter > ticks->window_at) {
        ticks->rate = (uint64_t)(((unsigned __int128)(uint64_t)window_ns << 32) / (counter - ticks->window_at));
        ticks->most = (counter - ticks->window_at) * (uint64_t)(WINDOW_NS_MAX / window_ns);
    }
    ticks->window_at = counter;
    ticks->window_ns = now_ns;
}

/* The counter in the middle of the clock's reading. If the thread was interrupted between them, both are read again. */
int64_t ticks_sync(struct ticks *ticks)
{
    int64_t now_ns;
    uint64_t before, after;
    int tries = 0;

    if (UNLIKELY(!ticks->has_counter))
        return clock_mono_ns();
    do {
        before = cpu_counter();
        now_ns = clock_mono_ns();
        after = cpu_counter();
    } while (UNLIKELY(after - before >= cpu_counter_10us()) && ++tries < TRIES);
    ticks_sync_at(ticks, before + (after - before) / 2, now_ns);
    return now_ns;
}
