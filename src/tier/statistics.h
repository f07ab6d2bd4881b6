/* Statistics: what the tier counts. Any thread; each counter on its own, without an order among them.
 *
 * tier_stats, tier_reset_stats and tier_histogram are in tier/tier.h.
 */
#ifndef KELVIN_TIER_STATISTICS_H
#define KELVIN_TIER_STATISTICS_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/mutex.h"
#include "tier/tier.h"

struct statistics {
    _Atomic uint64_t demotions, clean_demotions, promotions, looks, batches, false_maybes, errors, unplanned_reads, expired_cold, evicted_cold, resolved;
    _Atomic uint64_t ring_reads, ring_batches;      /* by workers on their rings */
    _Atomic uint64_t graves;            /* that there are */
    _Atomic uint64_t graves_seen;       /* looks at a grave by the writer, to bury it */
    _Atomic uint64_t store_bytes;       /* on disk, images included */
    _Atomic uint64_t packed_hits;       /* promotions of records that were in memory (tier/packed.h) */
    _Atomic uint64_t collected_bytes;   /* of records that garbage collection has moved */
    _Atomic uint64_t record_bytes, record_count;    /* of all puts and loads so far */
    _Atomic uint64_t latency[LOAD_LATENCY_BUCKETS]; /* of loads that a client waited for: microseconds */
    _Atomic uint64_t latency_us;                    /* their sum */
    struct mutex error_lock;            /* leaf */
    char last_error[TIER_ERROR_SIZE];   /* error_lock, as the next one */
    int64_t last_error_us;              /* monotonic clock; 0: there was none */
};

void statistics_init(struct statistics *statistics);
void statistics_release(struct statistics *statistics);

static inline void statistics_add(_Atomic uint64_t *counter, uint64_t number)
{
    atomic_fetch_add_explicit(counter, number, memory_order_relaxed);
}

static inline void statistics_count(_Atomic uint64_t *counter)
{
    statistics_add(counter, 1);
}

#endif
