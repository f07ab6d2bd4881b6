/* Result: what a thread counted, and what the threads of a run counted together. */
#ifndef KELVIN_BENCHMARK_RESULT_H
#define KELVIN_BENCHMARK_RESULT_H

#include <stddef.h>
#include <stdint.h>

#include "workload.h"

struct histogram;

struct tally {
    uint64_t replies;
    uint64_t errors;            /* replies that were errors */
    uint64_t found, missing;    /* values read, and nils */
    uint64_t wrong;             /* replies that were not what they had to be */
    struct histogram *latency;  /* of all replies, in ns */
};

struct result {
    struct tally tallies[REQUEST_CLASSES];
    char error_first[160], wrong_first[160], missing_first[160];     /* "" when there was none */
    uint64_t *series;           /* replies in each period since the start, up to the last one that had any */
    size_t series_count;
};

void result_init(struct result *result);
void result_release(struct result *result);
void result_add(struct result *result, const struct result *other);

/* Counts replies of the period `index`. The series grows as far as that. */
void result_note(struct result *result, size_t index, uint64_t replies);

/* Reads and writes together. Needs a release of its own. */
void result_total(const struct result *result, struct tally *total);
void tally_release(struct tally *tally);

#endif
