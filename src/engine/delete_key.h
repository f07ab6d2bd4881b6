/* Deletes a key that no command asked to delete: it has expired, or is evicted. */
#ifndef KELVIN_ENGINE_DELETE_KEY_H
#define KELVIN_ENGINE_DELETE_KEY_H

#include "engine/engine.h"

/* Logged as a DEL. `event` is the reason: EVENT_EXPIRED, EVENT_EVICTED, or EVENT_HEXPIRED of the last field, which EVENT_DEL follows.
 * The key's partition is locked; the entry is not held. */
void delete_key(struct engine *engine, struct keyspace *keyspace, uint64_t hash, uint32_t handle, enum event event);

#endif
