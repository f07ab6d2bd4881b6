/* Subscribers, private: what its files share. All on the worker. */
#ifndef KELVIN_PUBSUB_SUBSCRIBERS_PRIVATE_H
#define KELVIN_PUBSUB_SUBSCRIBERS_PRIVATE_H

#include "containers/dict.h"
#include "pubsub/hub.h"
#include "pubsub/publication.h"
#include "pubsub/subscribers.h"

/* A client's subscription to a topic: in the lists of both, the oldest first. */
struct subscription {
    struct topic *topic;
    struct subscriber *subscriber;
    struct subscription *prev_of_topic, *next_of_topic;
    struct subscription *prev_of_subscriber, *next_of_subscriber;
};

/* A channel or pattern with subscribers on this worker. */
struct topic {
    enum topic_kind kind;
    struct subscription *first, *last;
    struct topic *prev, *next;          /* of a pattern: in the list of all */
    uint64_t tested;                    /* of a pattern: the number of the publication it was last matched against, ... */
    bool matched;                       /* ... and the result */
    size_t size;
    char name[];
};

struct subscriptions {
    struct subscription *first, *last;
    size_t count;
};

struct subscriber {
    void *owner;
    uint64_t id;
    uint64_t seen;                      /* what has a greater number is still to be considered */
    size_t size;                        /* bytes of its subscriptions */
    struct subscriptions of[TOPIC_KINDS];
};

struct subscribers {
    struct hub *hub;
    int worker;
    subscribers_deliver *deliver;
    struct dict *topics[TOPIC_KINDS];   /* name -> struct topic * */
    struct dict *pairs;                 /* struct topic *, struct subscriber * -> struct subscription * */
    struct dict *ids;                   /* id -> struct subscriber * */
    struct topic *first_pattern, *last_pattern;

    /* The queue: a ring. */
    struct publication **queue;
    size_t queue_first, queue_count, queue_capacity;    /* capacity: 0 or a power of two */

    /* Where the sweep over the first of the queue is. What is next is moved on when it is removed. */
    bool sweeping;
    struct subscription *next_subscription;
    struct topic *next_pattern;
    size_t next_target;                 /* of a push */
};

static inline struct bytes topic_name(const struct topic *topic)
{
    return bytes_of(topic->name, topic->size);
}

/* Delivers what was posted up to that number. */
void subscriber_catch_up_to(struct subscribers *subscribers, struct subscriber *subscriber, uint64_t number);

/* NULL: no client of this worker has subscribed to it. */
struct topic *topic_find(const struct subscribers *subscribers, enum topic_kind kind, struct bytes name);
struct subscription *subscription_find(const struct subscribers *subscribers, const struct topic *topic, const struct subscriber *subscriber);
struct subscriber *subscriber_find(const struct subscribers *subscribers, uint64_t id);

#endif
