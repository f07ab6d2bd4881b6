#include "pubsub/subscribers.h"

#include <string.h>

#include "base/mem.h"
#include "pubsub/subscribers_private.h"

struct subscribers *subscribers_create(struct hub *hub, int worker, const struct hash_seed *seed, subscribers_deliver *deliver)
{
    struct subscribers *subscribers = mem_zalloc(sizeof(*subscribers));

    subscribers->hub = hub;
    subscribers->worker = worker;
    subscribers->deliver = deliver;
    for (int kind = 0; kind < TOPIC_KINDS; kind++)
        subscribers->topics[kind] = dict_create(seed);
    subscribers->pairs = dict_create(seed);
    subscribers->ids = dict_create(seed);
    return subscribers;
}

void subscribers_destroy(struct subscribers *subscribers)
{
    if (subscribers == NULL)
        return;
    for (size_t i = 0; i < subscribers->queue_count; i++)
        hub_release(subscribers->hub, subscribers->queue[(subscribers->queue_first + i) & (subscribers->queue_capacity - 1)]);
    mem_free(subscribers->queue);
    for (int kind = 0; kind < TOPIC_KINDS; kind++)
        dict_destroy(subscribers->topics[kind]);
    dict_destroy(subscribers->pairs);
    dict_destroy(subscribers->ids);
    mem_free(subscribers);
}

/* Dicts have copies of pointers as values. */
static void *pointer_in(const struct dict *dict, struct bytes key)
{
    struct bytes value;
    void *pointer;

    if (!dict_find(dict, key, &value))
        return NULL;
    memcpy(&pointer, value.data, sizeof(pointer));
    return pointer;
}

static void put_pointer(struct dict *dict, struct bytes key, const void *pointer)
{
    dict_put(dict, key, bytes_of((const char *)&pointer, sizeof(pointer)));
}

struct pair {
    const struct topic *topic;
    const struct subscriber *subscriber;
};

static struct bytes pair_key(const struct pair *pair)
{
    return bytes_of((const char *)pair, sizeof(*pair));
}

struct topic *topic_find(const struct subscribers *subscribers, enum topic_kind kind, struct bytes name)
{
    return pointer_in(subscribers->topics[kind], name);
}

struct subscription *subscription_find(const struct subscribers *subscribers, const struct topic *topic, const struct subscriber *subscriber)
{
    struct pair pair = { topic, subscriber };

    return topic == NULL ? NULL : pointer_in(subscribers->pairs, pair_key(&pair));
}

struct subscriber *subscriber_find(const struct subscribers *subscribers, uint64_t id)
{
    return pointer_in(subscribers->ids, bytes_of((const char *)&id, sizeof(id)));
}

struct subscriber *subscriber_create(struct subscribers *subscribers, void *owner, uint64_t id)
{
    struct subscriber *subscriber = mem_zalloc(sizeof(*subscriber));

    subscriber->owner = owner;
    subscriber->id = id;
    subscriber->seen = hub_number(subscribers->hub);
    put_pointer(subscribers->ids, bytes_of((const char *)&id, sizeof(id)), subscriber);
    return subscriber;
}

static void link_pattern(struct subscribers *subscribers, struct topic *topic)
{
    topic->prev = subscribers->last_pattern;
    if (subscribers->last_pattern != NULL)
        subscribers->last_pattern->next = topic;
    else
        subscribers->first_pattern = topic;
    subscribers->last_pattern = topic;
}

static void unlink_pattern(struct subscribers *subscribers, struct topic *topic)
{
    if (subscribers->next_pattern == topic)
        subscribers->next_pattern = topic->next;
    if (topic->prev != NULL)
        topic->prev->next = topic->next;
    else
        subscribers->first_pattern = topic->next;
    if (topic->next != NULL)
        topic->next->prev = topic->prev;
    else
        subscribers->last_pattern = topic->prev;
}

static struct topic *topic_create(struct subscribers *subscribers, enum topic_kind kind, struct bytes name)
{
    struct topic *topic = mem_alloc(sizeof(*topic) + name.size);

    *topic = (struct topic){ .kind = kind, .size = name.size };
    if (name.size > 0)
        memcpy(topic->name, name.data, name.size);
    put_pointer(subscribers->topics[kind], name, topic);
    if (kind == TOPIC_PATTERN)
        link_pattern(subscribers, topic);
    return topic;
}

static void topic_destroy(struct subscribers *subscribers, struct topic *topic)
{
    if (topic->kind == TOPIC_PATTERN)
        unlink_pattern(subscribers, topic);
    dict_remove(subscribers->topics[topic->kind], topic_name(topic));
    mem_free(topic);
}

/* Counted in full for each subscriber, although those of a topic share its name. */
static size_t size_of(const struct subscription *subscription)
{
    return sizeof(*subscription) + sizeof(struct topic) + subscription->topic->size + sizeof(struct pair) + sizeof(void *);
}

static void link_subscription(struct subscription *subscription)
{
    struct topic *topic = subscription->topic;
    struct subscriptions *own = &subscription->subscriber->of[topic->kind];

    subscription->prev_of_topic = topic->last;
    if (topic->last != NULL)
        topic->last->next_of_topic = subscription;
    else
        topic->first = subscription;
    topic->last = subscription;
    subscription->prev_of_subscriber = own->last;
    if (own->last != NULL)
        own->last->next_of_subscriber = subscription;
    else
        own->first = subscription;
    own->last = subscription;
    own->count++;
    subscription->subscriber->size += size_of(subscription);
}

static void unlink_subscription(struct subscription *subscription)
{
    struct topic *topic = subscription->topic;
    struct subscriptions *own = &subscription->subscriber->of[topic->kind];

    if (subscription->prev_of_topic != NULL)
        subscription->prev_of_topic->next_of_topic = subscription->next_of_topic;
    else
        topic->first = subscription->next_of_topic;
    if (subscription->next_of_topic != NULL)
        subscription->next_of_topic->prev_of_topic = subscription->prev_of_topic;
    else
        topic->last = subscription->prev_of_topic;
    if (subscription->prev_of_subscriber != NULL)
        subscription->prev_of_subscriber->next_of_subscriber = subscription->next_of_subscriber;
    else
        own->first = subscription->next_of_subscriber;
    if (subscription->next_of_subscriber != NULL)
        subscription->next_of_subscriber->prev_of_subscriber = subscription->prev_of_subscriber;
    else
        own->last = subscription->prev_of_subscriber;
    own->count--;
    subscription->subscriber->size -= size_of(subscription);
}

static void subscription_create(struct subscribers *subscribers, struct topic *topic, struct subscriber *subscriber)
{
    struct subscription *subscription = mem_zalloc(sizeof(*subscription));
    struct pair pair = { topic, subscriber };

    subscription->topic = topic;
    subscription->subscriber = subscriber;
    link_subscription(subscription);
    put_pointer(subscribers->pairs, pair_key(&pair), subscription);
}

static void subscription_destroy(struct subscribers *subscribers, struct subscription *subscription)
{
    struct topic *topic = subscription->topic;
    struct pair pair = { topic, subscription->subscriber };

    if (subscribers->next_subscription == subscription)
        subscribers->next_subscription = subscription->next_of_topic;
    dict_remove(subscribers->pairs, pair_key(&pair));
    unlink_subscription(subscription);
    mem_free(subscription);
    if (topic->first == NULL)
        topic_destroy(subscribers, topic);
}

/* Between the two the hub sends messages to this worker that are for the new subscription, too: they have greater numbers, and are left in
 * the queue. */
bool subscriber_add(struct subscribers *subscribers, struct subscriber *subscriber, enum topic_kind kind, struct bytes name)
{
    struct topic *topic = topic_find(subscribers, kind, name);

    if (subscription_find(subscribers, topic, subscriber) != NULL) {
        subscriber_catch_up(subscribers, subscriber);
        return false;
    }
    subscriber_catch_up_to(subscribers, subscriber, hub_add(subscribers->hub, subscribers->worker, kind, name));
    if (topic == NULL)
        topic = topic_create(subscribers, kind, name);
    subscription_create(subscribers, topic, subscriber);
    return true;
}

bool subscriber_remove(struct subscribers *subscribers, struct subscriber *subscriber, enum topic_kind kind, struct bytes name)
{
    struct subscription *subscription = subscription_find(subscribers, topic_find(subscribers, kind, name), subscriber);

    if (subscription == NULL) {
        subscriber_catch_up(subscribers, subscriber);
        return false;
    }
    subscriber_catch_up_to(subscribers, subscriber, hub_remove(subscribers->hub, subscribers->worker, kind, name));
    subscription_destroy(subscribers, subscription);
    return true;
}

void subscriber_destroy(struct subscribers *subscribers, struct subscriber *subscriber)
{
    for (int kind = 0; kind < TOPIC_KINDS; kind++) {
        while (subscriber->of[kind].first != NULL) {
            struct subscription *subscription = subscriber->of[kind].first;

            hub_remove(subscribers->hub, subscribers->worker, subscription->topic->kind, topic_name(subscription->topic));
            subscription_destroy(subscribers, subscription);
        }
    }
    dict_remove(subscribers->ids, bytes_of((const char *)&subscriber->id, sizeof(subscriber->id)));
    mem_free(subscriber);
}

size_t subscriber_size(const struct subscriber *subscriber)
{
    return sizeof(*subscriber) + subscriber->size;
}

size_t subscriber_count(const struct subscriber *subscriber, enum topic_kind kind)
{
    return subscriber->of[kind].count;
}

bool subscriber_first(const struct subscriber *subscriber, enum topic_kind kind, struct bytes *name)
{
    const struct subscription *subscription = subscriber->of[kind].first;

    if (subscription == NULL)
        return false;
    *name = topic_name(subscription->topic);
    return true;
}

bool subscriber_all(const struct subscriber *subscriber, subscriber_test *test, void *context)
{
    for (int kind = 0; kind < TOPIC_KINDS; kind++) {
        for (const struct subscription *at = subscriber->of[kind].first; at != NULL; at = at->next_of_subscriber) {
            if (!test(context, (enum topic_kind)kind, topic_name(at->topic)))
                return false;
        }
    }
    return true;
}
