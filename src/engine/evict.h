/* Evict: maxmemory-policy. Deletes keys when memory is short and the tier cannot make room. */
#ifndef KELVIN_ENGINE_EVICT_H
#define KELVIN_ENGINE_EVICT_H

#include "engine/engine.h"

enum eviction {
    EVICTION_DONE,          /* the caller goes on */
    EVICTION_LATER,         /* it is to be tried again: keys that could be evicted are in use (being loaded, pinned by calls that wait for others, being written), or
                             * memory is about to be freed */
    EVICTION_NOTHING,       /* noeviction, no key left, the log in error, a replica with replica-ignore-maxmemory yes */
};

/* Deletes keys as long as memory is short and nothing else makes room (MEMORY_OUT), until the turn has lasted as long as maxmemory-eviction-tenacity
 * allows; a few keys in any case. So a pipeline does not block a worker for that time with each of its requests, but each of them lowers the memory used.
 * Memory is in blocks that hold many keys, so what is freed may not be enough for now: as in Redis, the caller goes on as long as there is something to
 * evict. Without locks, on the worker. */
enum eviction evict_keys(struct engine *engine, struct worker *worker);

/* Whether maxmemory-policy lets the entry be evicted. Its partition is locked. */
bool evict_allows(const struct engine *engine, uint64_t hash, const struct entry *entry);

#endif
