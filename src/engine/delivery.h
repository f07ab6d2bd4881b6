/* Delivery: a worker's part of pub/sub: the subscriptions of its clients, and the messages and pushes that it has yet to give to them.
 *
 * Messages are appended to the output of clients between calls, in the order of their numbers: for all clients at the end of each turn,
 * within a budget; for one client also before each of its calls, so that its replies and messages have the order that one thread would
 * have given them. A client whose call or unit goes on over several turns has a partial reply: its messages are held until it is complete
 * (delivery_hold). CLIENT REPLY OFF does not concern messages.
 *
 * What is delivered raises the client's lsn_needed, and the turn's lsn_seen, to the LSN of the message.
 *
 * All functions: on the client's worker, without locks.
 */
#ifndef KELVIN_ENGINE_DELIVERY_H
#define KELVIN_ENGINE_DELIVERY_H

#include "call/call.h"
#include "pubsub/topic.h"

struct worker;

/* The client can be sent pushes (engine/publish.h), until it is closed. What was posted before is not for it. Twice is fine. */
void delivery_open(struct client *client);
/* Ends the subscriptions of a client that is closed. */
void delivery_forget(struct client *client);

/* True: it is a new subscription. Messages that were sent before are in the client's output then, so that what follows, the confirmation,
 * comes after them. */
bool delivery_subscribe(struct client *client, enum topic_kind kind, struct bytes name);
/* True: there was one. Messages that were sent before are in the client's output then; no later one follows. */
bool delivery_unsubscribe(struct client *client, enum topic_kind kind, struct bytes name);
/* All of them; without confirmations. */
void delivery_unsubscribe_all(struct client *client);
/* Ends the client's subscriptions to shard channels of which the test does not hold, and tells it so with pushes. */
void delivery_end_shards(struct client *client, bool (*test)(void *context, struct bytes name), void *context);
/* The name of one of the client's subscriptions of that kind, the oldest; false: there is none. Borrowed until it ends. */
bool delivery_first(const struct client *client, enum topic_kind kind, struct bytes *name);
size_t delivery_count(const struct client *client, enum topic_kind kind);
/* True if the test holds for each of the client's subscriptions. */
bool delivery_all(const struct client *client, bool (*test)(void *context, enum topic_kind kind, struct bytes name), void *context);
/* Bytes that its subscriptions take, and the messages that are held. */
size_t delivery_memory(const struct client *client);

/* Appends all that was sent so far to the client's output. */
void delivery_catch_up(struct client *client);

/* From now on the client's output is a reply that is not complete: what is delivered waits. delivery_end_hold: the reply is complete,
 * and what has waited is appended to it. They do not nest, and the protocol does not change in between. */
void delivery_hold(struct client *client);
void delivery_end_hold(struct client *client);

/* At the end of a turn: delivers what there is, up to a budget; if there is more, the worker's mailbox is rung. */
void delivery_run(struct worker *worker);
/* The worker ends, after its clients. */
void delivery_stop(struct worker *worker);

#endif
