/* Run: one test, from the first request to the last reply, with all its measurements. */
#ifndef KELVIN_BENCHMARK_RUN_H
#define KELVIN_BENCHMARK_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control.h"
#include "result.h"

struct key_space;
struct options;

enum run_end {
    RUN_COMPLETE,
    RUN_INTERRUPTED,        /* SIGINT or SIGTERM */
    RUN_FAILED,             /* the connection was lost or a reply was invalid; `failure` has the reason */
};

/* The counters of the hit ratio at a moment of a run: of hot and cold keys if the server has a tier, else of all look-ups. */
struct info_sample {
    double seconds;                     /* since its start */
    uint64_t hits, misses;
};

struct run {
    enum run_end end;
    char failure[256];
    struct result result;
    size_t pipeline;
    bool is_load;
    double seconds;                     /* from the first request to the last reply */
    uint64_t client_cpu_ns;             /* of this process */
    bool has_server_cpu;
    uint64_t server_cpu_ns;
    bool has_info;
    struct server_info info_before, info_after;
    struct info_sample *samples;        /* about each second, with --svg */
    size_t sample_count;
};

/* Opens the connections, runs the workload, closes them. `control` may be NULL if --info is not set.
 * `signals` is a signalfd for the signals that interrupt the run; they are blocked in the calling thread.
 */
void run_workload(struct run *run, const struct workload *workload, const struct options *options, size_t index,
    struct redisContext *control, int signals);
void run_release(struct run *run);

#endif
