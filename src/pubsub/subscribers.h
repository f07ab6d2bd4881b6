/* Subscribers: the subscriptions of one worker's clients, and the publications that the worker has taken from its inbox and not yet given
 * to all of them: the *queue*.
 *
 * A *sweep* walks the subscribers of the first publication of the queue: those of its channel, then those of each pattern that matches. A
 * subscriber that is reached gets everything in the queue that is for it, so that a client is sent many messages at once if many are
 * queued; the later publications then skip it. For each subscriber `seen` is the number of the last publication that was considered.
 *
 * Owner: one worker.
 */
#ifndef KELVIN_PUBSUB_SUBSCRIBERS_H
#define KELVIN_PUBSUB_SUBSCRIBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/siphash.h"
#include "pubsub/topic.h"

struct hub;
struct publication;
struct subscriber;
struct subscribers;

/* A subscriber gets a publication; `pattern` is the one that matched, or NULL: it has subscribed to the channel, or it is a push. Must not
 * change subscriptions. */
typedef void subscribers_deliver(void *owner, const struct publication *publication, const struct bytes *pattern);

struct subscribers *subscribers_create(struct hub *hub, int worker, const struct hash_seed *seed, subscribers_deliver *deliver);
/* After its subscribers; NULL is fine. */
void subscribers_destroy(struct subscribers *subscribers);

/* `owner` is passed to `deliver`; pushes find it by `id`. What was posted before is not for it. */
struct subscriber *subscriber_create(struct subscribers *subscribers, void *owner, uint64_t id);
/* Ends the subscriptions of a subscriber, and drops what is queued for it. */
void subscriber_destroy(struct subscribers *subscribers, struct subscriber *subscriber);

/* True: the subscription is new. What was posted before it has been delivered then. */
bool subscriber_add(struct subscribers *subscribers, struct subscriber *subscriber, enum topic_kind kind, struct bytes name);
/* True: there was one. What was posted before has been delivered then. */
bool subscriber_remove(struct subscribers *subscribers, struct subscriber *subscriber, enum topic_kind kind, struct bytes name);
size_t subscriber_count(const struct subscriber *subscriber, enum topic_kind kind);
/* Bytes that its subscriptions take. */
size_t subscriber_size(const struct subscriber *subscriber);
/* The name of its oldest subscription of that kind; false: it has none. Borrowed until that ends. */
bool subscriber_first(const struct subscriber *subscriber, enum topic_kind kind, struct bytes *name);

/* True if the test holds for each of its subscriptions. */
typedef bool subscriber_test(void *context, enum topic_kind kind, struct bytes name);
bool subscriber_all(const struct subscriber *subscriber, subscriber_test *test, void *context);

/* Delivers all that was posted so far to one subscriber. */
void subscriber_catch_up(struct subscribers *subscribers, struct subscriber *subscriber);

/* Goes on with the sweep until the budget is used up. True: there is more. A unit is about 10 ns of work. */
bool subscribers_sweep(struct subscribers *subscribers, int64_t budget);
/* Something is in the inbox or the queue. Cheap. */
bool subscribers_have_work(const struct subscribers *subscribers);

#endif
