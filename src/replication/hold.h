/* Hold: writes, expiry and eviction wait, so that the history does not grow while a replica takes over.
 *
 * Threads: any without locks. One user at a time: FAILOVER, or a node of a cluster, where that is refused.
 */
#ifndef KELVIN_REPLICATION_HOLD_H
#define KELVIN_REPLICATION_HOLD_H

#include <stdbool.h>

struct engine;

void hold_begin(struct engine *engine);
/* Waits, not on a worker, until calls that had looked before hold_begin have ended, or look again, and units that had begun have ended. False:
 * `gives_up` returned true first; it is asked again after waiting_bump of engine->waiting. */
bool hold_await(struct engine *engine, bool (*gives_up)(const void *context), const void *context);
void hold_end(struct engine *engine);

#endif
