/* Worker: a thread that sends requests on its share of the connections.
 *
 * Each connection sends a batch of `pipeline` requests, waits for all replies, and sends the next. A request's latency
 * is the time from when its batch was sent (with a rate limit: from when it was due) until its reply was read.
 */
#ifndef KELVIN_BENCHMARK_WORKER_H
#define KELVIN_BENCHMARK_WORKER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct result;
struct worker;
struct workload;

/* Shared by the workers of a run. Immutable while they run, except for the ticket. */
struct worker_plan {
    const struct workload *workload;
    size_t pipeline;
    uint64_t requests;              /* number of tickets */
    int64_t start_ns;               /* of the first period, on the monotonic clock */
    int64_t period_ns;              /* of the series of reply counts; 0: no series */
    int64_t end_ns;                 /* no batch is sent at or after this, on the monotonic clock */
    double interval_ns;             /* between a worker's requests; 0: none */
    uint64_t seed;
    int stop_event;                 /* eventfd, readable when the run has to stop; workers that fail write to it */
    int done_event;                 /* eventfd, each worker adds 1 when it ends */
    _Atomic uint64_t ticket;        /* next request to be sent */
};

/* `fds` are connected and owned by the caller; they become non-blocking. `plan` is borrowed. */
struct worker *worker_create(struct worker_plan *plan, size_t index, const int *fds, size_t count);
void worker_destroy(struct worker *worker);         /* not while it runs */

void worker_start(struct worker *worker);
void worker_stop(struct worker *worker);            /* waits until the thread has ended; does not end it */

uint64_t worker_replies(const struct worker *worker);       /* number so far; any thread, any time */

/* After worker_stop: its counters, the time of its last reply (monotonic), and the reason if it failed, otherwise NULL.
 */
const struct result *worker_result(const struct worker *worker);
int64_t worker_end_ns(const struct worker *worker);
const char *worker_failure(const struct worker *worker);

#endif
