/* Event: the one function that is called for whatever happens to a key: a command changes it, it expires or is evicted, a command
 * finds that it does not exist. What clients can observe of changes depends on it: blocking commands, WATCH, client-side caching and
 * keyspace notifications. A key that moves between RAM and store has no event.
 *
 * While nothing listens (engine->interest.count is 0) an event costs one read of that number.
 *
 * Notifications are not sent at once. They are collected in the worker's list while a call runs. When it has run they are published, or
 * moved to the list of the unit that the call belongs to (call->events), which publishes them at its end: when what caused them is in the
 * log, and before its partitions are given back. So the events of a key have the order of its changes, and no client is notified of a
 * change that could still be lost.
 */
#ifndef KELVIN_ENGINE_EVENT_H
#define KELVIN_ENGINE_EVENT_H

#include "engine/engine.h"
#include "engine/event_list.h"

/* Reports an event of a key whose partition is locked. `call` is NULL if no command is the cause (expiry, eviction): then its DEL or
 * HDEL is in the log already, and its notification is published here. Any thread. */
static inline void event_note(struct engine *engine, struct call *call, struct keyspace *keyspace, uint64_t hash, struct bytes key,
    enum event event);

/* The same for a key that no command has deleted. `event` is why; EVENT_DEL follows EVENT_HEXPIRED (of the last field of a hash). */
void event_note_deleted(struct engine *engine, struct keyspace *keyspace, uint64_t hash, struct bytes key, enum event event);

/* All partitions are locked, and a database is about to be emptied, or two are about to change places. No notification is sent, as in
 * Redis. */
void event_note_flush(struct call *call, int db);
void event_note_swap(struct call *call, int a, int b);

/* Sends the notifications, in order and in one step, and empties the list. They leave when the log covers `lsn`. The partitions of
 * their keys are locked or owned. `here` is the worker of this thread; NULL: it may be another's. */
void event_publish(struct engine *engine, const struct worker *here, struct event_list *list, uint64_t lsn);

/* Makes messages of the list's notifications, at the end of the batch, and drops them from the list. Changed keys stay in it. */
struct publish_batch;
void event_collect(struct engine *engine, struct event_list *list, struct publish_batch *batch);

/* notify-keyspace-events is as in the configuration from now on. One thread at a time. */
void event_configure(struct engine *engine);

/* The old value of a key that is overwritten has to be known, because "new" or "expired" depends on it. */
static inline bool event_needs_old_value(const struct engine *engine)
{
    return atomic_load_explicit(&engine->interest.classes, memory_order_relaxed) & (EVENT_CLASS_NEW | EVENT_CLASS_EXPIRED);
}

/* Private: when something listens. */
void event_tell(struct engine *engine, struct call *call, struct keyspace *keyspace, uint64_t hash, struct bytes key, enum event event);

static inline void event_note(struct engine *engine, struct call *call, struct keyspace *keyspace, uint64_t hash, struct bytes key,
    enum event event)
{
    if (__builtin_expect(atomic_load_explicit(&engine->interest.count, memory_order_relaxed) != 0, 0))
        event_tell(engine, call, keyspace, hash, key, event);
}

#endif
