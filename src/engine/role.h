/* Role: a primary, or a replica of another server, as calls look at it. Set by replication/follow.h.
 *
 * Threads: any.
 */
#ifndef KELVIN_ENGINE_ROLE_H
#define KELVIN_ENGINE_ROLE_H

#include "engine/engine.h"

static inline bool role_is_replica(const struct engine *engine)
{
    return atomic_load_explicit(&engine->role.is_replica, memory_order_relaxed);
}

/* The primary's stream arrives: the data is what the primary has, but for what is under way. */
static inline bool role_link_is_up(const struct engine *engine)
{
    return atomic_load_explicit(&engine->role.link_is_up, memory_order_relaxed);
}

/* The data of a full synchronization is being loaded: calls that need data are refused with LOADING. */
static inline bool role_is_syncing(const struct engine *engine)
{
    return atomic_load_explicit(&engine->role.is_syncing, memory_order_relaxed);
}

#endif
