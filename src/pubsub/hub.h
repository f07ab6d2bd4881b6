/* Hub: what all workers share about pub/sub: how many subscribers each channel and pattern has on each worker, the one order of
 * publications, and an inbox for each worker with those that it has yet to take.
 *
 * One lock, a leaf, makes a step of each function: a publication gets its number, and is put into the inboxes of all workers that have
 * subscribers for it, in the same step; and so does a subscription begin or end at a place in that order, which is returned. Patterns are
 * matched without the lock, against a snapshot of all patterns; when patterns changed meanwhile, it is done again.
 *
 * Thread-safe.
 */
#ifndef KELVIN_PUBSUB_HUB_H
#define KELVIN_PUBSUB_HUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/siphash.h"
#include "pubsub/topic.h"

struct hub;
struct publication;

/* `ring` is called, without the lock, when a worker's inbox is no longer empty. */
typedef void hub_ring(void *context, int worker);

struct hub *hub_create(int worker_count, const struct hash_seed *seed, hub_ring *ring, void *context);
void hub_destroy(struct hub *hub);          /* after the workers ended; NULL is fine */

/* One more, or one less, of this worker's clients has subscribed. Returns the number of the last publication before. */
uint64_t hub_add(struct hub *hub, int worker, enum topic_kind kind, struct bytes name);
uint64_t hub_remove(struct hub *hub, int worker, enum topic_kind kind, struct bytes name);

/* Clients that have subscribed to it, on all workers. */
uint64_t hub_subscribers(struct hub *hub, enum topic_kind kind, struct bytes name);
/* Clients that would get a message to the channel now; each counts once for the channel and once for each pattern. */
uint64_t hub_receivers(struct hub *hub, enum topic_kind kind, struct bytes channel);
/* Channels, or patterns, with subscribers. */
size_t hub_topics(const struct hub *hub, enum topic_kind kind);
/* Calls `found` for those that match the pattern, all if it is NULL, without the lock. Not one step: of those that begin or end meanwhile
 * it may report some. Returns their number. */
typedef void hub_found(void *context, struct bytes name);
size_t hub_list(struct hub *hub, enum topic_kind kind, const struct bytes *pattern, hub_found *found, void *context);
/* The number of the last publication. */
uint64_t hub_number(struct hub *hub);
/* False: there is no subscription that a message of this kind could match. Cheap. */
bool hub_has_receivers(const struct hub *hub, enum topic_kind kind);

/* Numbers a message and puts it into the inboxes. Takes it. Returns the number of receivers. `here`: this worker is not rung
 * (-1: all are); it looks by itself. */
uint64_t hub_post_counted(struct hub *hub, int here, struct publication *publication);
/* The same for a list, linked by `next`, in one step, with an LSN, and without matching: each goes to all workers that may have
 * receivers. Takes them. */
void hub_post(struct hub *hub, int here, struct publication *first, uint64_t lsn);

/* The worker's inbox has something. Cheap. */
bool hub_has_mail(const struct hub *hub, int worker);
/* Empties the inbox: returns the oldest, with a list by posted_next[worker], and a reference to each, or NULL. On the worker. */
struct publication *hub_take(struct hub *hub, int worker);
/* Gives a reference back. */
void hub_release(struct hub *hub, struct publication *publication);

/* Publications in transit, and their bytes of memory. */
struct hub_transit {
    uint64_t count, bytes;
};
struct hub_transit hub_transit(const struct hub *hub);

#endif
