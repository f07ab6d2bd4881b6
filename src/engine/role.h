/* Role: whether this server is a replica, and what follows for calls. The one thing that calls know about replication.
 *
 * All of it is bits of one word in struct engine, where calls that run on a primary without demands see 0. Facts are set by the rooms above
 * (replication/); what the configuration makes of them (replica-read-only, replica-serve-stale-data, min-replicas-to-write ...) is derived
 * from them here, at each change of a fact, after CONFIG SET and in each cron.
 *
 * On a replica the clock removes nothing: what has expired reads as absent for clients and stays until the primary's DEL comes
 * (engine/expiry.h). What does not fit is demoted; if that is not possible, keys are evicted with replica-ignore-maxmemory no only. The applier of the primary's stream has
 * TRAIT_UNGATED (call/caller.h): no gate here is for it.
 *
 * The role is to be changed with all partitions locked and none owned by a unit: calls and expiry look at it again under their locks, so that
 * after the change none of them adds to the data that is the primary's now.
 *
 * Threads: any; all functions are lock-free.
 */
#ifndef KELVIN_ENGINE_ROLE_H
#define KELVIN_ENGINE_ROLE_H

#include "engine/engine.h"

enum role_bit {
    /* Facts. */
    ROLE_REPLICA = 1 << 0,              /* REPLICAOF is set */
    ROLE_LINK_UP = 1 << 1,              /* of a replica: it receives its primary's stream */
    ROLE_SYNCING = 1 << 2,              /* of a replica: a full synchronization is being loaded; calls get -LOADING */
    /* Derived. */
    ROLE_READ_ONLY = 1 << 3,            /* clients' writes get -READONLY */
    ROLE_STALE = 1 << 4,                /* the link is down, and calls get -MASTERDOWN */
    ROLE_FEW_REPLICAS = 1 << 5,         /* writes get -NOREPLICAS */
    ROLE_IGNORES_DISKS = 1 << 6,        /* the primary's stream is applied although the log is in error */
    ROLE_LEASED = 1 << 7,               /* a primary that needs a lease: role_lease_has_ended decides about writes */
};

static inline uint32_t role_bits(const struct engine *engine)
{
    return atomic_load_explicit(&engine->role.bits, memory_order_relaxed);
}

static inline bool role_is_replica(const struct engine *engine) { return role_bits(engine) & ROLE_REPLICA; }
static inline bool role_link_is_up(const struct engine *engine) { return role_bits(engine) & ROLE_LINK_UP; }
static inline bool role_is_syncing(const struct engine *engine) { return role_bits(engine) & ROLE_SYNCING; }
/* Returns whether expired keys stay. */
static inline bool role_keeps_expired(const struct engine *engine) { return role_is_replica(engine); }

/* --- facts, set by the rooms above --- */

/* REPLICAOF, or NO ONE. A replica begins with its link down. Call blocking_unblock_all afterwards if a primary has become a replica:
 * the keys that clients wait for may never change here. Calls that wait for anything else start again from the top, and are refused then. */
void role_set_replica(struct engine *engine, bool is_replica);
void role_set_link(struct engine *engine, bool is_up);
void role_set_syncing(struct engine *engine, bool is_syncing);
void role_set_good_replicas(struct engine *engine, int count);

/* A controller lets this server serve writes as a primary until then, monotonic time; ROLE_LEASE_NONE: no longer, ROLE_LEASE_FREE: without a lease. While this
 * is a replica it is kept. */
enum { ROLE_LEASE_FREE = 0, ROLE_LEASE_NONE = 1 };
void role_set_lease(struct engine *engine, int64_t end_us);
/* A controller gives leases: ROLE_LEASE_NONE if this server was free. */
void role_need_lease(struct engine *engine);
/* With ROLE_LEASED. By the clock, since this process may have been stopped a moment ago. */
bool role_lease_has_ended(const struct engine *engine);

/* The configuration may have changed. */
void role_refresh(struct engine *engine);

/* Seconds for which a replica's link has been down; -1: it is up, has not been up yet, or this is a primary. */
int64_t role_link_down_s(const struct engine *engine);

#endif
