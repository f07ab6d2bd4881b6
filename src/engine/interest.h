/* Interest: whether anything depends on the events of keys (engine/event.h). A part of the engine that every call reads and that seldom
 * changes.
 */
#ifndef KELVIN_ENGINE_INTEREST_H
#define KELVIN_ENGINE_INTEREST_H

#include <stdatomic.h>
#include <stdint.h>

/* All zero: nothing listens. Any thread. */
struct interest {
    _Atomic int64_t count;          /* keys that clients wait for or watch, clients that cache ... 0: events need not be reported */
    _Atomic uint32_t classes;       /* notify-keyspace-events, as enum event_class; 0: no client is notified. event_configure */
};

/* Something begins (1) or ceases (-1) to listen. Under a lock under which the events that matter to it are reported. */
static inline void interest_count(struct interest *interest, int64_t by)
{
    atomic_fetch_add_explicit(&interest->count, by, memory_order_relaxed);
}

#endif
