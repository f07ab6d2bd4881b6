/* Workload: the requests of a simulation, after a load of all keys in the order of their names. */
#ifndef KELVIN_SIMULATE_WORKLOAD_H
#define KELVIN_SIMULATE_WORKLOAD_H

#include "../benchmark/zipf.h"
#include "policy.h"

enum workload_pattern { PATTERN_ZIPF, PATTERN_DRIFT, PATTERN_LOOP, PATTERN_SCANS };
enum { SIZE_SPREAD = 64 };      /* mixed sizes: the largest in units of the smallest */

struct workload_kind {
    const char *name;
    enum workload_pattern pattern;
    double theta;
    bool is_mixed;              /* sizes of 1 to SIZE_SPREAD, each power of two as often, whatever the popularity */
    int drift;                  /* PATTERN_DRIFT: in a window one key in `drift` changes places in the ranking with another one */
};

struct workload {
    struct workload_kind kind;
    struct zipf zipf;
    struct random random;
    uint32_t key_count, loop_size;
    uint64_t window;            /* requests of a window */
    uint64_t done;
    uint32_t *by_name;          /* keys in the order of their names */
    uint32_t *by_rank;          /* the most popular first */
    uint32_t *rank_of;
    uint32_t scan_next;
};

/* `loop_size`: keys of PATTERN_LOOP. */
void workload_init(struct workload *workload, const struct workload_kind *kind, uint32_t key_count, uint32_t loop_size, uint64_t window,
    uint64_t seed);
void workload_release(struct workload *workload);
void workload_next(struct workload *workload, struct request *request);     /* key and rank */
/* By key. The caller frees them. */
uint32_t *workload_sizes(const struct workload_kind *kind, uint32_t key_count);

#endif
