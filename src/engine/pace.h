/* Pace: how fast requests may take memory while the cold tier makes room (tier rule 7).
 *
 * Below tier-high-watermark nothing is counted. Between it and maxmemory, a request takes its bytes from a credit that grows with time:
 *
 *     bytes a second = 2 x drain x (1 - fill)
 *     fill           0 at the high watermark, 1 at maxmemory; what is being loaded counts
 *     drain          bytes a second that demotion has freed lately, while it was at it
 *
 * In a steady overload the memory in use settles where as much is admitted as is freed, so that every write is delayed a little, in order
 * of arrival, and none waits for a whole pass of demotion. When the store stalls, writes slow down as memory fills.
 *
 * Thread-safe without a lock: workers race for a refill, and the credit is one atomic number.
 */
#ifndef KELVIN_ENGINE_PACE_H
#define KELVIN_ENGINE_PACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct engine;
struct worker;

enum { PACE_FILL_ONE = 1024 };

/* All zero is ready for use. */
struct pace {
    _Atomic int64_t credit;             /* bytes that may be taken; negative: owed by a request that took more than there was */
    _Atomic int64_t refilled_us;        /* monotonic clock */
    _Atomic int64_t drain;              /* bytes a second; 0: nothing was measured yet */
    _Atomic int64_t sampled_us;         /* when the drain was looked at last; 0: nothing was being demoted then */
    _Atomic uint64_t sampled_bytes;     /* what had been demoted in all by then */
};

/* Numbers that a refill depends on. */
struct pace_view {
    int64_t now_us;             /* monotonic clock */
    int fill;                   /* 0 .. PACE_FILL_ONE */
    bool is_demoting;           /* memory was over the high mark and is not below the low one yet */
    uint64_t demoted_bytes;     /* in all */
};

/* Adds to the credit what has come since the last refill, if that was long enough ago. */
void pace_refill(struct pace *pace, const struct pace_view *view);

/* Looks at the memory in use (memory_judge): refreshes turn.memory_fill and turn.over_memory. On the worker. */
void pace_check(struct worker *worker);

/* Takes `bytes` if there is any credit; the rest is owed. False: wait. `fill` is at least 0. */
bool pace_take(struct engine *engine, int fill, uint64_t bytes);
/* The same for a call that can't wait any more. */
void pace_charge(struct engine *engine, uint64_t bytes);

/* Loads were posted that will take `bytes`: memory is looked at sooner. On the worker. */
void pace_note_loads(struct worker *worker, uint64_t bytes);

/* Whether pace_take would succeed now. */
bool pace_has_credit(struct engine *engine, int fill);

#endif
