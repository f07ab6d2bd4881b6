/* Result: the counters of one thread, or of all threads of a run. */
#ifndef KELVIN_BENCHMARK_RESULT_H
#define KELVIN_BENCHMARK_RESULT_H

#include <stddef.h>
#include <stdint.h>

#include "workload.h"

struct histogram;

struct tally {
    uint64_t replies;
    uint64_t errors;            /* replies that were errors */
    uint64_t found, missing;    /* values read, nil replies */
    uint64_t wrong;             /* replies that were not as expected */
    struct histogram *latency;  /* of all replies, in ns */
};

struct period {
    uint64_t replies;
    int64_t latency_ns_max;     /* of these replies */
};

struct result {
    struct tally tallies[REQUEST_CLASSES];
    char error_first[160], wrong_first[160], missing_first[160];     /* "" if there was none */
    struct period *series;      /* each period since the start, up to the last one with replies */
    size_t series_count;
};

void result_init(struct result *result);
void result_release(struct result *result);
void result_add(struct result *result, const struct result *other);

/* Adds replies to the period `index`; extends the series if necessary. */
void result_note(struct result *result, size_t index, struct period period);

/* Sums up reads and writes. `total` is released separately, with tally_release. */
void result_total(const struct result *result, struct tally *total);
void tally_release(struct tally *tally);

#endif
