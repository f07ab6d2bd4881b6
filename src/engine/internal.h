/* What the files of this room share. */
#ifndef KELVIN_ENGINE_INTERNAL_H
#define KELVIN_ENGINE_INTERNAL_H

#include "engine/engine.h"

/* "CLIENT" for client: the call's. */
const char *command_upper_name(struct call *call, const struct command *command);

/* Slow log, latency events, error statistics. */
void engine_note_call(struct call *call, int64_t us);
void engine_note_error(struct call *call);

/* The replay waits here until demotion made room, within reason. */
void engine_wait_for_memory(struct engine *engine);
/* The log is in error: what expires stays, reading as absent, and nothing is evicted. Each deletion would be appended to the log's tail in
 * memory, which has no limit of its own. Any thread. */
static inline bool engine_keeps_expired(const struct engine *engine)
{
    struct aof *aof = engine->aof;

    return aof != NULL && __builtin_expect(aof_error(aof) != STATUS_OK, 0);
}

/* maxmemory-policy: deletes keys until memory is below the limit. False if that is not possible (noeviction, nothing left, the log
 * in error). */
bool engine_evict(struct engine *engine, struct worker *worker, struct call *call);

/* Gives the big-call token back, if the client has it, and lets those who wait for it try. */
void engine_end_big_call(struct engine *engine, struct client *client);

/* Deletes a key that has expired or is evicted, logged; its partition is locked. */
void engine_delete_key(struct engine *engine, struct keyspace *keyspace, uint64_t hash, uint32_t handle, const char *event);

/* Removes a step's worth of a hash's dead fields, logged; what is left is found again. A hash with none alive goes as a whole. Returns how
 * many fields have gone. Its partition is locked, and the hash is not held. */
enum { EXPIRE_FIELDS_A_STEP = 512 };
size_t engine_expire_fields(struct engine *engine, struct keyspace *keyspace, uint64_t hash, uint32_t handle, int64_t now_ms);

#endif
