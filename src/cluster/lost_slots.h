/* Lost slots: removes the keys of slots that other nodes have taken over, in the background (`kelvin-lost`), as deletions that the log and replicas get.
 *
 * Clients are redirected meanwhile (engine/redirect.h), so only DBSIZE, SCAN and the like see what is left. A slot must not come back, and this server must not
 * follow another one, before its keys are gone: lost_slots_await.
 *
 * Threads: any.
 */
#ifndef KELVIN_CLUSTER_LOST_SLOTS_H
#define KELVIN_CLUSTER_LOST_SLOTS_H

#include "cluster/slots.h"
#include "engine/engine.h"

struct lost_slots;

/* Returns 0, or the error number: the system gives no thread. */
int lost_slots_start(struct engine *engine, struct lost_slots **lost);
/* Ends the thread, and the waits of others, also if slots are left: a start compares keys with slots. NULL is fine, for both. */
void lost_slots_stop(struct lost_slots *lost);
void lost_slots_destroy(struct lost_slots *lost);

/* Their states are below SLOT_OWNED. What is SLOT_RECEIVED by now is left alone: it was empty when that began. */
void lost_slots_add(struct lost_slots *lost, const struct slots *slots);
/* Waits until nothing is left, or the server ends. Not on a worker, nor with a lock. */
void lost_slots_await(struct lost_slots *lost);

#endif
