/* Metrics: what metrics-port serves: /metrics for Prometheus, /health/live and /health/ready for programs that start, restart and route.
 *
 * A guarded page wants a user that may call INFO, by HTTP Basic authentication, unless there are no users but a default one without a password. Refusals are
 * in ACL LOG.
 */
#ifndef KELVIN_METRICS_METRICS_H
#define KELVIN_METRICS_METRICS_H

#include "base/message.h"

struct engine;
struct metrics;

/* Serves as metrics-port and metrics-bind say, also after CONFIG SET. The engine is complete; the data need not be loaded. NULL: `message` says why. */
struct metrics *metrics_start(struct engine *engine, struct message *message);
/* Before any part of the engine is destroyed. NULL is fine. */
void metrics_stop(struct metrics *metrics);

#endif
