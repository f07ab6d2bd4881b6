/* Evict: maxmemory-policy. Deletes keys when memory is short and the tier cannot make room. */
#ifndef KELVIN_ENGINE_EVICT_H
#define KELVIN_ENGINE_EVICT_H

#include "engine/engine.h"

/* Deletes keys until memory is below the limit or the turn has taken the time of maxmemory-eviction-tenacity, but some in any case: so the requests of a
 * pipeline do not block a worker one after the other for that time, and memory gets less nevertheless. Memory is in blocks that hold many keys, so what that frees may not be
 * enough for now: as in Redis, the caller goes on as long as there is something to evict. False if there is not (noeviction, no key left,
 * the log in error, a replica with replica-ignore-maxmemory yes). Without locks, on the worker. */
bool evict_keys(struct engine *engine, struct worker *worker);

#endif
