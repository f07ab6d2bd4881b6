/* Blocking: clients that wait until a key has something for them (BLPOP and its kin, XREAD BLOCK).
 *
 * A command that can't be served says call_wait (call/call.h). Its client is parked, and a *waiter* with copies of all that
 * running the command again takes stands in the queue of each of its keys: first come, first served, over all workers. A queue belongs
 * to a key's name in a database by its number, so it outlives demotion, FLUSHDB and SWAPDB.
 *
 * When a call has changed a key that somebody waits for (blocking_note; SWAPDB notes all of its databases), the worker that ran it serves
 * the waiters right after the call's locks are given back, before the same client's next command: one waiter of the queue after the
 * other, as long as the key is there with a value of the type that they wait for. Serving is running the command by a proxy, a client
 * of its own without a connection, which is never parked: it loads cold keys in place (the exception of tier rule 8) and passes the
 * memory gate. It is logged like any call. A waiter that gets nothing keeps its place. What a served command changes is noted too
 * and served in the same step (BLMOVE feeding others), key by key in the order in which they changed.
 *
 * In between nobody else sees the key: a note is a *promise*, counted for its partition, and calls on keys of a partition with promises wait
 * until they are kept (blocking_is_promised). So no newcomer on another worker takes what somebody has waited for, and change and
 * service are one step for all who look on.
 *
 * The reply goes to the waiter's worker (by mail, or, if that is the one that serves, at the end of its turn), which runs the parked
 * request again: all that does is to append the reply.
 *
 * Threads: one lock, `serving`, is held while waiters are served, time out, are unblocked or die. So whoever looks at a waiter under it sees one
 * that waits or one that is done with, and a key's waiters are served in order although several workers may push. It comes before the
 * partitions in the order of locks. The queues are under their partitions' locks; they only lose waiters with `serving` held as well, so a
 * place in a queue stays valid there between two partition locks. Nothing gets lost: registering happens under the locks under which the
 * keys were found empty, and each later change notes the key under the same lock. Nor has a waiter that leaves to signal anybody: a
 * noted key is offered to all of its waiters, until it is empty or all have been asked.
 *
 * While nobody waits, a change costs the reading of one counter.
 */
#ifndef KELVIN_ENGINE_BLOCKING_H
#define KELVIN_ENGINE_BLOCKING_H

#include <stdbool.h>
#include <stdint.h>

#include "call/key.h"

struct blocking;
struct engine;
struct waiter;
struct worker;

struct blocking *blocking_create(struct engine *engine);
void blocking_destroy(struct blocking *blocking);           /* after the workers ended; NULL is fine */

/* With the call's partitions locked: its client waits, as call->wait says. On its worker, which parks it. */
void blocking_register(struct call *call, struct worker *worker);

/* The key has changed, or is gone, as `event` tells; its partition is locked. On a worker. */
void blocking_note(struct engine *engine, const struct key *key, const char *event);
/* No command removed it: expiry or eviction did. Its partition is locked. Any thread; those who wait learn it from blocking_retry. */
void blocking_note_removed(struct engine *engine, const struct keyspace *keyspace, uint64_t hash, struct bytes key);
/* All partitions are locked, and the database has other keys now. */
void blocking_note_database(struct call *call, int db);
/* After a call, without locks: serves those who wait for what the worker's calls have noted. */
void blocking_serve(struct worker *worker);
/* Keys that could not be served because writes are held back for a while. About ten times a second, on the first worker. */
void blocking_retry(struct worker *worker);
/* A note on a key of this partition, which is locked, has not been served yet. Cheap to ask only after engine->promise_count is above 0. */
bool blocking_is_promised(const struct engine *engine, uint32_t partition);
/* Waits until somebody has served, or a moment; without locks. */
void blocking_let_serve(struct engine *engine);
/* What was noted and is not to be served. */
void blocking_drop_notes(struct worker *worker);

/* Of a client, on its worker. The answer is there: */
bool blocking_is_over(const struct waiter *waiter);
/* ... and is appended to the client's output; it waits no more. */
void blocking_take_reply(struct worker *worker, struct client *client);
/* The client dies. */
void blocking_forget(struct client *client);

/* At the end of a turn: the worker's clients take the answers that the worker itself found for them. */
void blocking_bring_home(struct worker *worker);

/* The worker's alarm rang (worker.h): ends the waiting of those whose time is up, and sets the alarm for the next. */
void blocking_alarm(struct worker *worker);

/* CLIENT UNBLOCK: ends a client's waiting as if its time were up, or with an error. False if it does not wait. On any worker, without
 * locks. */
enum blocking_end { BLOCKING_SERVED, BLOCKING_TIMED_OUT, BLOCKING_UNBLOCKED };
bool blocking_unblock(struct worker *worker, uint64_t client_id, enum blocking_end how);

/* For INFO; any thread. */
struct blocking_stats {
    uint64_t waiters;           /* that are not served yet */
    uint64_t keys;              /* that somebody waits for */
    uint64_t keys_even_without; /* those among them whose removal would serve somebody */
    uint64_t with_deadline;     /* waiters that will time out */
};
struct blocking_stats blocking_stats(const struct engine *engine);

#endif
