/* Publish: sends messages to subscribers, and pushes to certain clients, on all workers.
 *
 * All messages and pushes have one order, which is that of their numbers (pubsub/hub.h). They are numbered, and given to the workers
 * concerned, in one step, which is over when these functions return: a client that subscribes afterwards gets none of them, one that has
 * unsubscribed before gets none either, and the count of receivers is that of the step. Each worker delivers them to its own clients
 * (engine/delivery.h), in that order.
 *
 * A message carries an LSN: it leaves only when the log covers that. It is the lsn_needed of the client that publishes; for messages about
 * changed keys, the LSN of the group with the change.
 *
 * What is in transit counts as used memory. PUBLISH waits while there is too much of it (publish_must_wait); all other messages, which are
 * parts of something that can't wait, are sent, and count.
 */
#ifndef KELVIN_ENGINE_PUBLISH_H
#define KELVIN_ENGINE_PUBLISH_H

#include "call/call.h"
#include "pubsub/publication.h"

struct engine;
struct worker;

/* publish_message.c. For PUBLISH and SPUBLISH (TOPIC_CHANNEL, TOPIC_SHARD). On the call's worker. True: it was sent, and *receivers is the number
 * of clients that get it; a client counts once for its channel and once for each pattern. False: the call is parked, because too much is in
 * transit; the handler returns, and runs again. */
bool publish_message(struct call *call, enum topic_kind kind, struct bytes channel, struct bytes text, int64_t *receivers);
/* How many would get it now. Any thread. */
int64_t publish_receivers(struct engine *engine, enum topic_kind kind, struct bytes channel);

/* True if there may be a receiver for a message to a channel: any client has subscribed to a channel or pattern. Cheap; any thread. Of
 * use before the text of a notification is made. */
bool publish_has_listeners(const struct engine *engine);

/* Messages that are collected first and sent as one: nothing comes between them. All zero: empty. Owner: the caller. */
struct publish_batch {
    struct publication *first, *last;
};
void publish_collect(struct engine *engine, struct publish_batch *batch, enum topic_kind kind, struct bytes channel, struct bytes text);
/* A push to clients of one worker: `resp3` to those that speak RESP3, `resp2` to others that have a subscription (CLIENT_SUBSCRIBED);
 * empty: nothing. A client gets it if it is still there, has called delivery_open, and its push_generation is the target's. */
void publish_collect_push(struct engine *engine, struct publish_batch *batch, int worker, const struct push_target *targets,
    size_t target_count, struct bytes resp2, struct bytes resp3);
/* Sends them; the batch is empty then. `here` is the worker of the calling thread, or NULL if it is not a worker's. Any locks may be held:
 * patterns are not matched here. The time is proportional to the batch and the number of workers. */
void publish_send(struct engine *engine, const struct worker *here, struct publish_batch *batch, uint64_t lsn);
void publish_drop(struct publish_batch *batch);

/* Too much is in transit: what can wait should (PARKED_FOR_DELIVERY), and is notified. Any thread; there is a hub. */
bool publish_must_wait(struct engine *engine);
/* A worker has delivered: clients whose PUBLISH waits try again if there is room. */
void publish_note_delivered(struct engine *engine);

#endif
