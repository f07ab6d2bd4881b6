/* Hour: samples of the last hour, one each HOUR_STEP_S, for the charts of the status page.
 *
 * Threads: one notes, any reads; a leaf lock. Memory: 30 KB, from the first sample on.
 */
#ifndef KELVIN_METRICS_HOUR_H
#define KELVIN_METRICS_HOUR_H

#include <stdbool.h>
#include <stdint.h>

#include "tier/tier.h"

enum { HOUR_STEP_S = 10, HOUR_SAMPLES = 360 };

/* Counts of the server so far, and its memory now. A count that has decreased (CONFIG RESETSTAT) began again at 0. */
struct hour_totals {
    uint64_t hot, cold;             /* uses of keys that were in RAM, and that had to be loaded */
    uint64_t commands;
    uint64_t demoted_bytes;         /* of memory, that demotion has freed */
    uint64_t loads[LOAD_LATENCY_BUCKETS];   /* loads of cold keys by how long they took, in microseconds (base/histogram.h) */
    uint64_t memory, memory_max;    /* bytes: now, and maxmemory */
};

struct hour_sample {
    int64_t time_ms;                /* wall clock: its end */
    uint32_t span_ms;               /* HOUR_STEP_S, or longer if kelvin-http was held up */
    uint32_t load_p50_us, load_p99_us;      /* 0 without loads */
    uint64_t hot, cold, commands, demoted_bytes, loads;     /* in this span */
    uint64_t memory, memory_max;
};

struct hour;

struct hour *hour_create(void);
void hour_destroy(struct hour *hour);       /* NULL is fine */

/* By the one thread. `now_us` is monotonic. */
bool hour_is_due(const struct hour *hour, int64_t now_us);
void hour_note(struct hour *hour, int64_t now_us, int64_t wall_ms, const struct hour_totals *totals);
void hour_clear(struct hour *hour);         /* the next sample's span begins with the next note */

/* Copies the samples, oldest first, and returns their number. Any thread. */
int hour_copy(struct hour *hour, struct hour_sample samples[HOUR_SAMPLES]);

#endif
