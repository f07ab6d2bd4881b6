/* Turn: what a worker knows during one turn of its loop, so that a command reads plain memory instead of clocks and settings.
 *
 * Owner: this worker; refreshed at the start of each turn. The statistics are written by this worker only and read by other
 * threads: relaxed atomics.
 */
#ifndef KELVIN_CALL_TURN_H
#define KELVIN_CALL_TURN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"
#include "call/command_stats.h"
#include "keyspace/heat.h"
#include "value/value.h"

enum statistic {
    STAT_COMMANDS,              /* calls that ran */
    STAT_CONNECTIONS,           /* accepted */
    STAT_REJECTED_CONNECTIONS,
    STAT_NET_INPUT, STAT_NET_OUTPUT,        /* bytes; not those to replicas and from a primary */
    STAT_REPLICA_OUTPUT,        /* bytes */
    STAT_KEYSPACE_HITS, STAT_KEYSPACE_MISSES,
    STAT_EXPIRED_KEYS,
    STAT_EVICTED_KEYS,
    STAT_ERROR_REPLIES,
    STAT_HOT_HITS,              /* a key was requested and was in RAM */
    STAT_COLD_HITS,             /* it had to be loaded */
    STAT_TIER_MISSES,           /* it does not exist */
    STAT_BLIND_WRITES,          /* a maybe-cold key was overwritten without a read */
    STAT_UNPLANNED_READS,       /* tier rule 8: loads under a lock */
    STAT_THROTTLED,             /* calls that had to wait for memory */
    STAT_READS_PROCESSED, STAT_WRITES_PROCESSED,
    STAT_QUERY_BUFFER_LIMIT, STAT_OUTPUT_BUFFER_LIMIT,  /* clients closed because of it */
    STAT_EVICTED_CLIENTS,       /* closed because all clients used too much memory */
    STAT_TURNS, STAT_TURN_US,   /* turns of the loop, and microseconds spent in them */
    STAT_EXPIRE_US, STAT_EXPIRE_CUT,    /* active expiry: microseconds, and steps that used up their time */
    STAT_EXPIRED_FIELDS,        /* of hashes */
    STAT_UNIT_ESCAPES,          /* a unit needed a partition that it did not own yet */
    STAT_UNIT_RESTARTS,         /* a unit started again because it might not wait for one */
    STAT_COUNT
};

struct claim;
struct key_hooks;

struct turn {
    const struct key_hooks *hooks;      /* immutable after start */
    int64_t now_ms;             /* wall clock */
    int64_t now_us;             /* monotonic */
    uint16_t minutes;           /* heat_minutes(now_ms) */
    bool clock_stopped;         /* replaying, or a replica: the clock expires nothing */
    bool met_unreadable;        /* a call was replied ERR_TIER_READ. Only the applier looks, and clears it */
    const struct claim *group_claim;    /* the applier's, while a group owns partitions: the claims of its scripts own none. NULL: there is none */
    /* From the high watermark (0) to maxmemory (PACE_FILL_ONE, engine/pace.h) and beyond; -1: no request is slowed down or waits for memory, as
     * there is enough, or as none will come. */
    int memory_fill;
    bool over_memory;           /* used memory is beyond maxmemory */
    bool over_reserve;          /* too much waits to be written by a checkpoint */
    struct heat_settings heat;
    struct value_limits limits;
    int64_t string_size_max;    /* bytes of the longest string: proto-max-bulk-len */
    size_t hll_sparse_size_max; /* size from which a HyperLogLog is dense: hll-sparse-max-bytes */
    struct random random;
    uint64_t lsn_seen;          /* the largest LSN that this turn has touched, by reading or writing */
    _Atomic uint64_t stats[STAT_COUNT];
    _Atomic uint64_t changes;       /* of data, by calls of this worker, ever */
    struct command_stats_set *command_stats;    /* of this worker */
};

static inline void turn_count(struct turn *turn, enum statistic stat, uint64_t by)
{
    atomic_store_explicit(&turn->stats[stat], atomic_load_explicit(&turn->stats[stat], memory_order_relaxed) + by,
        memory_order_relaxed);
}

#endif
