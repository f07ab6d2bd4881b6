/* Memory: how much is used, as maxmemory counts it, and what may still be taken. Any thread unless said otherwise. */
#ifndef KELVIN_ENGINE_MEMORY_H
#define KELVIN_ENGINE_MEMORY_H

#include "engine/engine.h"

/* Bytes used: everything the allocator gave out, and entries; free space inside the heaps does not count. */
uint64_t memory_used(const struct engine *engine);
/* Bytes that count as used while demotion can make room: engine->memory_excess, and what the store will take as it is written. */
uint64_t memory_set_aside(const struct engine *engine);
/* Memory is over maxmemory. */
bool memory_is_short(const struct engine *engine);
/* Demotion, or what is being freed, may bring memory below the limit: waiting makes sense. Else maxmemory-policy decides. */
bool memory_may_come(const struct engine *engine);
/* Blocks the caller until demotion has made room, up to 10 seconds. For threads that serve no clients: the replay, a job. */
void memory_wait(struct engine *engine);
/* Too many old values wait to be written by a running checkpoint: changes have to wait. */
bool memory_reserve_is_used_up(const struct engine *engine);

/* A request of `size` bytes and more may be received: it fits into maxmemory, or it is the only one for which no room can be made. False:
 * ask again soon; room is being made. On the client's worker. memory_end_large when the request has run or its client is gone. */
bool memory_admit_large(struct engine *engine, struct client *client, uint64_t size);
void memory_end_large(struct engine *engine, struct client *client);

/* Replies hold as much of the memory as they may: one more long string has to wait until others have been sent. */
bool memory_replies_are_full(const struct engine *engine);

/* Measures how much more is resident than is used, beyond the base and a twentieth of maxmemory (engine->memory_excess). The tier counts it
 * as used, so that RSS stays near maxmemory whatever fragments. What a memtable has just freed, and the next one will take, is no excess. A few
 * times a second, by one worker. */
void memory_watch_excess(struct engine *engine);

#endif
