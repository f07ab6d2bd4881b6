/* Memory report: the text of MEMORY DOCTOR. It names what is wrong with memory or with the tier, each with what to do about it, from numbers that
 * the caller has collected. Pure: no locks, no clocks.
 */
#ifndef KELVIN_STATS_MEMORY_REPORT_H
#define KELVIN_STATS_MEMORY_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"

/* Bytes, unless the name says otherwise. */
struct memory_symptoms {
    uint64_t limit;                 /* maxmemory; 0: none */
    uint64_t counted;               /* what is compared with it */
    uint64_t used, peak, resident;
    uint64_t machine;               /* RAM of the machine; 0: unknown */
    /* Parts of `used`. */
    uint64_t clients;               /* buffers of clients */
    uint64_t backlog;               /* of the replication stream */
    uint64_t scripts;               /* interpreters, sources, libraries */
    uint64_t log_buffer;            /* what has not been written to the AOF yet */
    uint64_t cold;                  /* for cold keys: the record map, and what the store holds */
    /* The tier. */
    bool is_off, is_full, is_failing;       /* tier-enabled no; tier-max-size or the disk; the store can't be read or written */
    bool is_stuck;                  /* it works, and nothing is left that could be demoted */
    bool is_warming;                /* the warm-up after the start is loading keys */
    uint64_t hot_keys, cold_keys;
    /* Since the start or CONFIG RESETSTAT. */
    uint64_t hot_hits, cold_hits;
    uint64_t throttled_calls, wait_p99_us;  /* calls that waited for memory; of the waits, the longest but one in a hundred */
    /* Now. */
    uint64_t waiting_clients;       /* for memory */
    int64_t waiting_ms;             /* the one of them that has waited longest */
};

/* A line for each problem; one line if there is none. */
void memory_report(struct buffer *out, const struct memory_symptoms *symptoms);

#endif
