/* Evict: maxmemory-policy. Deletes keys when memory is short and the tier cannot make room. */
#ifndef KELVIN_ENGINE_EVICT_H
#define KELVIN_ENGINE_EVICT_H

#include "engine/engine.h"

/* Deletes keys until memory is below the limit, or the turn has lasted as long as maxmemory-eviction-tenacity allows; a few keys in any case. So a pipeline does not
 * block a worker for that time with each of its requests, but each of them lowers the memory used. Memory is in blocks that hold many keys, so what is freed may not
 * be enough for now: as in Redis, the caller goes on as long as there is something to evict. False if there is not (noeviction, no key left,
 * the log in error, a replica with replica-ignore-maxmemory yes). Without locks, on the worker. */
bool evict_keys(struct engine *engine, struct worker *worker);

#endif
