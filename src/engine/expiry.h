/* Expiry: keys and fields of hashes whose time is up are deleted, a bounded part of them at each tick of the cron; while many expire, in
 * short slices between the ticks, too, which take a bounded share of the worker's time. Cold keys are expired by the tier's writer.
 */
#ifndef KELVIN_ENGINE_EXPIRY_H
#define KELVIN_ENGINE_EXPIRY_H

#include "engine/redirect.h"
#include "engine/role.h"
#include "value/hash.h"

/* Fields that one step removes: the rest is found again. */
enum { EXPIRY_FIELDS_A_STEP = 512 };
static inline size_t expiry_fields_a_step(const struct value *hash)
{
    return value_is_paged(hash) ? HASH_EXPIRED_IN_PAGES : EXPIRY_FIELDS_A_STEP;
}
/* Keys and fields that expired in one slice: the next slice follows as soon as the share of time allows; with fewer, later. */
enum { EXPIRY_MANY = 256 };

/* The log is in error: what expires stays, reading as absent, and nothing is evicted. Each deletion would be appended to the log's tail in
 * memory, which has no limit of its own. Any thread. */
static inline bool expiry_is_suspended(const struct engine *engine)
{
    struct aof *aof = engine->aof;

    return aof != NULL && __builtin_expect(aof_error(aof) != STATUS_OK, 0);
}

/* The same for expiry alone, which CLIENT PAUSE and FAILOVER suspend, too, as a paused data set does not change; on a replica its
 * primary decides, and while this node receives slots, their owner does. */
static inline bool expiry_is_paused(const struct engine *engine)
{
    return expiry_is_suspended(engine) || __builtin_expect(engine_is_paused(engine) || role_keeps_expired(engine), 0) ||
        redirect_receives(engine->redirect);
}

/* Removes up to `max` dead fields of a hash, EXPIRY_FIELDS_A_STEP at most, logged as an HDEL. A hash with no field alive is deleted. Returns the number
 * of fields removed. The key's partition is locked, and that of its pages, if it is in some, which are there; and the hash is not held. */
size_t expiry_remove_fields(struct engine *engine, const struct turn *turn, struct keyspace *keyspace, uint64_t hash, uint32_t handle, size_t max);

/* How many that may be now: a step, or, of a hash in pages, those of which the pages are there. Others are loaded, unless memory is short, for the next time. 0: it is to be tried again later. On the worker. */
size_t expiry_ready(struct worker *worker, struct keyspace *keyspace, uint32_t handle) REQUIRES(keyspace->partition->lock);

/* The worker's share of a tick: looks at a part of the keys in RAM. On the worker. */
void expiry_tick(struct worker *worker);
/* A slice between two ticks; see worker's expire_soon. On the worker. */
void expiry_continue(struct worker *worker);

#endif
