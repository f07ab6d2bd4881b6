/* Blocking: clients that wait until a key has something for them (BLPOP and similar commands, XREAD BLOCK).
 *
 * A command that cannot be served calls call_wait (call/call.h). Its client is parked, and a *waiter*, with copies of all that is needed
 * to run the command again, joins the queue of each of its keys: first come, first served, over all workers. A queue belongs to a key's
 * name in a database by its number, so it outlives demotion, FLUSHDB and SWAPDB.
 *
 * When a call has changed a key that has a queue (blocking_note; SWAPDB notes all keys of its databases), the worker that ran it serves the
 * waiters right after it has unlocked the partitions, before the same client's next command: one waiter of the queue after another, as
 * long as the key exists with a value of the type that they wait for. To serve is to run the command by a proxy, a client of its own without
 * a connection, which is never parked: it loads cold keys in place (the exception of tier rule 8) and passes the memory gate. The command is
 * logged like any call. A waiter that gets nothing keeps its place. Keys that a served command changes are noted too, and served in the
 * same step (BLMOVE that feeds other waiters), in the order in which they changed.
 *
 * No other worker sees the key in between: a note is a *promise*, counted for its partition, and calls on keys of a partition with promises
 * wait until these are kept (blocking_is_promised). So a newcomer on another worker cannot take what a waiter has waited for; change and
 * service are one step for all other calls.
 *
 * A unit may own a partition that the waiter's command needs (the target of BLMOVE, another key of BLPOP), and that may take long. Then the
 * promise is *held*: calls and new units that need the key's partition, or that one, are parked (blocking_holder) until the waiter is served,
 * which is tried again when a unit ends, and ten times a second; or until no client waits any more. Units that have begun are not kept waiting, as
 * the promise may wait for them: what such a unit takes is gone.
 *
 * What waits for a promise: a call that has promised nothing itself, and a unit that takes partitions, whose worker has promised nothing
 * (CHECK). What serves waits for no call and no unit. So no worker waits for itself, nor do two for each other.
 *
 * The reply goes to the waiter's worker (by mail; to the worker that serves, at the end of its turn), which runs the parked request again:
 * that only appends the reply.
 *
 * Threads: one lock, `serving`, is held while waiters are served, time out, are unblocked or freed. A thread that looks at a waiter under it
 * sees one that waits or one that is finished, and a key's waiters are served in order although several workers may push. It comes before
 * the partitions in the lock order. The queues are under their partitions' locks; they lose waiters only while `serving` is held as well,
 * so a place in a queue stays valid while the partition is unlocked and locked again. No change is missed: a waiter is registered under the
 * locks under which its keys were found empty, and each later change notes the key under the same lock. A waiter that leaves need not
 * signal the others: a noted key is offered to all of its waiters, until it is empty or all have been tried.
 *
 * While no client waits, a change costs one read of a counter.
 */
#ifndef KELVIN_ENGINE_BLOCKING_H
#define KELVIN_ENGINE_BLOCKING_H

#include <stdbool.h>
#include <stdint.h>

#include "call/call.h"

struct blocking;
struct claim;
struct engine;
struct noted_key;
struct unit;
struct waiter;
struct worker;

/* Keys that have changed and may serve waiters, in the order in which they changed. All zero is an empty one. There are three kinds: a worker's, of
 * the call that runs; a unit's, until its end; and blocking's own, of keys that are served later. */
struct noted_list {
    struct noted_key *first, *last;
};

struct blocking *blocking_create(struct engine *engine);
void blocking_destroy(struct blocking *blocking);           /* after the workers ended; NULL is fine */

/* The call's client waits, as call->wait says. The call's partitions are locked. On its worker, which parks the client. */
void blocking_register(struct call *call, struct worker *worker);

/* The following four are called by engine/event.h. A call of this worker has changed or removed the key in a way that may serve a
 * waiter; its partition is locked. */
void blocking_note(struct engine *engine, const struct call *call, const struct keyspace *keyspace, uint64_t hash, struct bytes key);
/* No command removed it: expiry or eviction did. Its partition is locked. Any thread; blocking_retry serves its waiters. */
void blocking_note_removed(struct engine *engine, const struct keyspace *keyspace, uint64_t hash, struct bytes key);
/* On a replica: the primary's stream has changed it. Its partition is locked. On the applier's thread; the first worker serves its waiters soon. */
void blocking_note_applied(struct engine *engine, const struct keyspace *keyspace, uint64_t hash, struct bytes key);
/* All partitions are locked, and the database is about to have other keys. */
void blocking_note_database(struct call *call, int db);
/* After a call of a unit: what the call has noted is served when the unit has ended. */
void blocking_keep_notes(struct worker *worker, struct unit *unit);
/* The unit is about to give up its partitions: the keys that it has noted are promised, and the worker serves them next. */
void blocking_promise_noted(struct worker *worker, struct unit *unit);
/* After a call, without locks: serves the waiters of the keys that the worker's calls have noted. */
void blocking_serve(struct worker *worker);
/* Serves keys that could not be served before, and waiters that wait for a time (retry_ms), too. About ten times a second, on the first worker. */
void blocking_retry(struct worker *worker);
/* A note on a key of this partition, which is locked, has not been served yet. Cheap to ask only after partitions->obstacle_count is above 0. */
bool blocking_is_promised(const struct engine *engine, uint32_t partition);
/* NULL, or what a call on a key of this partition, which is locked, has to wait for (owners_await_claim): a promise is held that concerns it. */
struct claim *blocking_holder(const struct engine *engine, uint32_t partition);
/* A waiter can't be served by this worker, as the partition, which is locked, is owned by a unit. */
void blocking_note_owner(struct worker *worker, const struct partition *partition);
/* Waits until another worker has served, or for a short time; without locks. */
void blocking_let_serve(struct engine *engine);
/* Drops notes that are not to be served, and are not promised. */
void blocking_drop_notes(struct noted_list *list);

/* For a client, on its worker. It does not wait any more: */
bool blocking_is_over(const struct waiter *waiter);
/* ... its call is to be run from the beginning, and the waiter is gone (true); or */
bool blocking_begins_again(struct worker *worker, struct client *client);
/* ... the reply is appended to the client's output, and the waiter is gone. */
void blocking_take_reply(struct worker *worker, struct client *client);
/* Bytes that its waiting takes. */
size_t blocking_memory(const struct client *client);
/* The client is being freed. */
void blocking_forget(struct client *client);

/* At the end of a turn: the worker's clients get the replies that the worker itself has for them. */
void blocking_deliver(struct worker *worker);

/* The worker was rung, possibly because the log has been synced: clients that wait for that are served. On the worker. */
void blocking_check_synced(struct worker *worker);

/* CLIENT UNBLOCK: ends a client's waiting as if its time were up, or with an error. False if it does not wait. On any worker, without
 * locks. */
enum blocking_end { BLOCKING_SERVED, BLOCKING_TIMED_OUT, BLOCKING_UNBLOCKED, BLOCKING_BECAME_REPLICA, BLOCKING_BEGINS_AGAIN };
bool blocking_unblock(struct worker *worker, uint64_t client_id, enum blocking_end how);
/* This server has become a replica: all waiting ends, with an error, and the clients are closed. Any thread, without locks. */
void blocking_unblock_all(struct engine *engine);
/* Slots have gone, or the cluster is down: calls that wait for keys that this server does not serve now (engine/redirect.h) are run from the beginning, as
 * if they came now. The same. */
void blocking_judge_again(struct engine *engine);

/* For INFO; any thread. */
struct blocking_stats {
    uint64_t waiters;           /* that are not served yet */
    uint64_t keys;              /* with waiters */
    uint64_t keys_woken_by_removal; /* those among them whose removal would serve a waiter */
    uint64_t with_deadline;     /* waiters that will time out */
};
struct blocking_stats blocking_stats(const struct engine *engine);

#endif
