/* Command statistics: how often each command ran, and how long. Each worker has a set of its own, so that counting is a plain addition to
 * memory that no other thread writes; a reader adds up all sets.
 *
 * Owner: the worker writes; any thread reads (relaxed atomics). A set is of one epoch. CONFIG RESETSTAT begins another one: sets of an older
 * epoch count as empty, and their workers clear them before they count again, so no call is lost or counted twice.
 */
#ifndef KELVIN_CALL_COMMAND_STATS_H
#define KELVIN_CALL_COMMAND_STATS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/* Dimensions of the histogram of a command's latency (base/histogram.h). The last bucket holds everything above, too. */
enum { LATENCY_BUCKETS = 256, LATENCY_STEP_BITS = 3 };

struct command_stats {
    _Atomic uint64_t calls, nsec, rejected, failed;
    _Atomic uint64_t *_Atomic latency;      /* LATENCY_BUCKETS counters by nanoseconds, allocated at the first call; or NULL */
};

struct command_stats_set {
    size_t row_count;                       /* immutable */
    _Atomic uint64_t epoch;
    struct command_stats rows[];            /* by command.id */
};

struct command_totals {
    uint64_t calls, nsec, rejected, failed;
};

struct command_stats_set *command_stats_create(size_t row_count);
void command_stats_destroy(struct command_stats_set *set);      /* NULL is fine */

/* On the worker: the row that is to be counted in. */
void command_stats_renew(struct command_stats_set *set, uint64_t epoch);
static inline struct command_stats *command_stats_of(struct command_stats_set *set, uint32_t id, uint64_t epoch)
{
    if (UNLIKELY(atomic_load_explicit(&set->epoch, memory_order_relaxed) != epoch))
        command_stats_renew(set, epoch);
    return &set->rows[id];
}

static inline void command_stats_add(_Atomic uint64_t *count, uint64_t by)
{
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + by, memory_order_relaxed);
}

/* A call has ended. */
void command_stats_note(struct command_stats *stats, int64_t ns);

/* Any thread: adds what the set has counted in this epoch. */
void command_stats_sum(const struct command_stats_set *set, uint32_t id, uint64_t epoch, struct command_totals *totals);
void command_stats_sum_latency(const struct command_stats_set *set, uint32_t id, uint64_t epoch, uint64_t counts[LATENCY_BUCKETS]);

#endif
