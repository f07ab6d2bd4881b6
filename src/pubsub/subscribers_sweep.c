/* The queue of a worker, and the sweep over it. */
#include "pubsub/subscribers_private.h"

#include "base/mem.h"
#include "base/text.h"

enum {
    QUEUE_CAPACITY_MIN = 16,
    FEW_SUBSCRIPTIONS = 4,      /* comparing the names of this many is cheaper than two lookups */
    /* Costs, in units of about 10 ns. */
    COST_SKIP = 1,              /* a subscriber that has seen the publication */
    COST_MATCH = 3,             /* a pattern */
    COST_DELIVERY = 10,         /* a message is appended to a client's output, */
    BYTES_PER_UNIT = 64,        /* and its bytes are copied */
    COST_SEND = 200,            /* a client has output: a system call at the end of the turn */
};

static struct publication *queue_at(const struct subscribers *subscribers, size_t index)
{
    return subscribers->queue[(subscribers->queue_first + index) & (subscribers->queue_capacity - 1)];
}

static void queue_grow(struct subscribers *subscribers)
{
    size_t capacity = subscribers->queue_capacity == 0 ? QUEUE_CAPACITY_MIN : subscribers->queue_capacity * 2;
    struct publication **queue = mem_alloc(capacity * sizeof(struct publication *));

    for (size_t i = 0; i < subscribers->queue_count; i++)
        queue[i] = queue_at(subscribers, i);
    mem_free(subscribers->queue);
    subscribers->queue = queue;
    subscribers->queue_first = 0;
    subscribers->queue_capacity = capacity;
}

static void queue_append(struct subscribers *subscribers, struct publication *publication)
{
    if (subscribers->queue_count == subscribers->queue_capacity)
        queue_grow(subscribers);
    subscribers->queue[(subscribers->queue_first + subscribers->queue_count++) & (subscribers->queue_capacity - 1)] = publication;
}

/* The first is done with. A queue that was long gives its memory back. */
static void queue_remove_first(struct subscribers *subscribers)
{
    hub_release(subscribers->hub, queue_at(subscribers, 0));
    subscribers->queue_first = (subscribers->queue_first + 1) & (subscribers->queue_capacity - 1);
    if (--subscribers->queue_count == 0 && subscribers->queue_capacity > QUEUE_CAPACITY_MIN) {
        mem_free(subscribers->queue);
        subscribers->queue = NULL;
        subscribers->queue_capacity = subscribers->queue_first = 0;
    }
}

static void empty_inbox(struct subscribers *subscribers)
{
    struct publication *next;

    if (!hub_has_mail(subscribers->hub, subscribers->worker))
        return;
    for (struct publication *taken = hub_take(subscribers->hub, subscribers->worker); taken != NULL; taken = next) {
        next = taken->posted_next[subscribers->worker];
        queue_append(subscribers, taken);
    }
}

/* The index of the first publication in the queue with a greater number. */
static size_t queue_after(const struct subscribers *subscribers, uint64_t number)
{
    size_t low = 0, high = subscribers->queue_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (queue_at(subscribers, middle)->number <= number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool has_channel(const struct subscribers *subscribers, const struct subscriber *subscriber, const struct publication *publication)
{
    const struct subscriptions *own = &subscriber->of[publication->kind];

    if (own->count > FEW_SUBSCRIPTIONS)
        return subscription_find(subscribers, topic_find(subscribers, publication->kind, publication->channel), subscriber) != NULL;
    for (const struct subscription *subscription = own->first; subscription != NULL; subscription = subscription->next_of_subscriber) {
        if (bytes_equal(topic_name(subscription->topic), publication->channel))
            return true;
    }
    return false;
}

/* Remembers the result: many subscribers may have the same pattern. */
static bool pattern_matches(struct topic *pattern, const struct publication *publication)
{
    if (pattern->tested != publication->number) {
        pattern->matched = text_matches(topic_name(pattern), publication->channel, TEXT_CASE_EXACT);
        pattern->tested = publication->number;
    }
    return pattern->matched;
}

static int64_t deliver_to(struct subscribers *subscribers, struct subscriber *subscriber, const struct publication *publication,
    const struct bytes *pattern)
{
    subscribers->deliver(subscriber->owner, publication, pattern);
    return COST_DELIVERY + (int64_t)publication->size / BYTES_PER_UNIT;
}

/* A publication in all forms in which the subscriber gets it. Returns the cost. */
static int64_t give(struct subscribers *subscribers, struct subscriber *subscriber, const struct publication *publication)
{
    int64_t cost = COST_SKIP;

    if (publication->is_push) {
        if (publication_target(publication, subscriber->id) != NULL)
            cost += deliver_to(subscribers, subscriber, publication, NULL);
        return cost;
    }
    if (has_channel(subscribers, subscriber, publication))
        cost += deliver_to(subscribers, subscriber, publication, NULL);
    if (publication->kind != TOPIC_CHANNEL)
        return cost;
    for (struct subscription *own = subscriber->of[TOPIC_PATTERN].first; own != NULL; own = own->next_of_subscriber) {
        struct bytes name = topic_name(own->topic);

        cost += COST_MATCH;
        if (pattern_matches(own->topic, publication))
            cost += deliver_to(subscribers, subscriber, publication, &name);
    }
    return cost;
}

/* Gives the subscriber what is queued and not greater than `number`, as long as the budget lasts. */
static int64_t give_queued(struct subscribers *subscribers, struct subscriber *subscriber, uint64_t number, int64_t budget)
{
    int64_t cost = 0;

    for (size_t i = queue_after(subscribers, subscriber->seen); i < subscribers->queue_count && cost < budget; i++) {
        const struct publication *publication = queue_at(subscribers, i);

        if (publication->number > number)
            break;
        cost += give(subscribers, subscriber, publication);
        subscriber->seen = publication->number;
    }
    return cost;
}

void subscriber_catch_up_to(struct subscribers *subscribers, struct subscriber *subscriber, uint64_t number)
{
    empty_inbox(subscribers);
    give_queued(subscribers, subscriber, number, INT64_MAX);
    if (subscriber->seen < number)
        subscriber->seen = number;
}

void subscriber_catch_up(struct subscribers *subscribers, struct subscriber *subscriber)
{
    if (!subscribers_have_work(subscribers))
        return;
    empty_inbox(subscribers);
    give_queued(subscribers, subscriber, UINT64_MAX, INT64_MAX);
}

/* The sweep has reached a subscriber of the first publication. */
static int64_t visit(struct subscribers *subscribers, struct subscriber *subscriber, int64_t budget)
{
    const struct publication *first = queue_at(subscribers, 0);

    if (subscriber->seen >= first->number)
        return COST_SKIP;
    return COST_SEND + give_queued(subscribers, subscriber, UINT64_MAX, budget);
}

static void sweep_begin(struct subscribers *subscribers)
{
    const struct publication *first = queue_at(subscribers, 0);

    subscribers->sweeping = true;
    subscribers->next_target = 0;
    subscribers->next_subscription = NULL;
    subscribers->next_pattern = NULL;
    if (first->is_push)
        return;
    if (first->kind == TOPIC_CHANNEL)
        subscribers->next_pattern = subscribers->first_pattern;
    if (dict_count(subscribers->topics[first->kind]) > 0) {
        struct topic *topic = topic_find(subscribers, first->kind, first->channel);

        subscribers->next_subscription = topic == NULL ? NULL : topic->first;
    }
}

static int64_t sweep_target(struct subscribers *subscribers, const struct publication *push, int64_t budget)
{
    struct subscriber *subscriber = subscriber_find(subscribers, push->targets[subscribers->next_target++].client_id);

    return subscriber == NULL ? COST_SKIP : visit(subscribers, subscriber, budget);
}

/* One step of the sweep over the first publication. Returns its cost; 0: there is nothing left to do for it. */
static int64_t sweep_step(struct subscribers *subscribers, int64_t budget)
{
    const struct publication *first = queue_at(subscribers, 0);
    struct subscription *subscription = subscribers->next_subscription;
    struct topic *pattern = subscribers->next_pattern;

    if (first->is_push)
        return subscribers->next_target == first->target_count ? 0 : sweep_target(subscribers, first, budget);
    if (subscription != NULL) {
        subscribers->next_subscription = subscription->next_of_topic;
        return visit(subscribers, subscription->subscriber, budget);
    }
    if (pattern == NULL)
        return 0;
    subscribers->next_pattern = pattern->next;
    if (pattern_matches(pattern, first))
        subscribers->next_subscription = pattern->first;
    return COST_MATCH;
}

bool subscribers_sweep(struct subscribers *subscribers, int64_t budget)
{
    empty_inbox(subscribers);
    while (subscribers->queue_count > 0 && budget > 0) {
        int64_t cost;

        if (!subscribers->sweeping)
            sweep_begin(subscribers);
        cost = sweep_step(subscribers, budget);
        budget -= cost;
        if (cost > 0)
            continue;
        subscribers->sweeping = false;
        queue_remove_first(subscribers);
    }
    return subscribers->queue_count > 0;
}

bool subscribers_have_work(const struct subscribers *subscribers)
{
    return subscribers->queue_count > 0 || hub_has_mail(subscribers->hub, subscribers->worker);
}
