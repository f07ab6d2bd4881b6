/* Outdated: garbage collection of expiry keys. The writer only.
 *
 * A key whose expiry is extended leaves an expiry key for each time that it was written, and a deleted or flushed key leaves one, too; without
 * this they would stay until their times. Once as many expiry keys were put, or records deleted, as half of those that were kept the last time, all
 * of them are walked through, in steps that are faster than more are put. So there are never many more than twice as many as are needed, and
 * each put costs a few looks at others.
 *
 * Whether the expiry key of a cold key is outdated, only its record says. One in 16 of these records is read; more only as long as a quarter of
 * those that were read show that their expiry keys are outdated.
 */
#ifndef KELVIN_TIER_OUTDATED_H
#define KELVIN_TIER_OUTDATED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"

struct tier;

/* All zero: nothing is known. */
struct outdated {
    _Atomic uint64_t garbage;       /* expiry keys put and records deleted since the last walk began. Any thread adds to it */
    struct buffer from;             /* see store_expired */
    bool is_walking;
    uint64_t seen_garbage;          /* at the last step */
    uint64_t kept;                  /* by this walk so far, or by the last one */
    int64_t first_ms;               /* the earliest time of those kept by this walk, or put meanwhile */
    uint64_t reads, outdated_reads; /* of this walk */
    uint64_t number;                /* of walks */
};

/* Notes how many more expiry keys may be outdated now. Any thread. */
static inline void outdated_note(struct outdated *outdated, uint64_t count)
{
    atomic_fetch_add_explicit(&outdated->garbage, count, memory_order_relaxed);
}

/* There is an expiry key of this time. The writer. */
static inline void outdated_note_time(struct outdated *outdated, int64_t expire_ms)
{
    if (expire_ms < outdated->first_ms)
        outdated->first_ms = expire_ms;
}

/* A step of a walk, if one is due. No checkpoint is being sealed, and the writer's batch is empty; deletes are put into it. */
void outdated_step(struct tier *tier);

#endif
