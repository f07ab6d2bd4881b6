/* Tail: which of the segments that are written now gets a record (store/segments.h). Those that are likely to die at about the same time share
 * segments: keys that expire, by the time that they have left; and of the others, what was written again by garbage collection, as it has lived long
 * already and will live longer than what is new. */
#ifndef KELVIN_TIER_TAIL_H
#define KELVIN_TIER_TAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "store/segments.h"

enum {
    TAIL_NEW, TAIL_MOVED, TAIL_EXPIRING,        /* the first one for keys that expire */
    TAIL_SHORTEST_MS = 60000,                   /* what is left to live in that; four times as long in the next one, in the last one 11 days */
};

/* `gone_ms`: when the key expires as a whole; -1: never. */
static inline unsigned tail_of(int64_t gone_ms, bool is_moved)
{
    int64_t left_ms;

    if (gone_ms < 0)
        return is_moved ? TAIL_MOVED : TAIL_NEW;
    left_ms = gone_ms - clock_wall_ms();
    for (unsigned tail = TAIL_EXPIRING; tail < SEGMENT_TAILS; tail++) {
        if (left_ms <= (int64_t)TAIL_SHORTEST_MS << 2 * (tail - TAIL_EXPIRING))
            return tail;
    }
    return is_moved ? TAIL_MOVED : TAIL_NEW;
}

#endif
