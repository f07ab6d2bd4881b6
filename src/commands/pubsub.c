/* Subscribing and publishing. The reply of a command that subscribes is a push for each argument, also in RESP2:
 *
 *   subscribe, channel, number of the client's subscriptions
 */
#include "commands/handlers.h"
#include "engine/delivery.h"
#include "engine/publish.h"

/* Names of the subscriptions of a kind. */
struct words {
    const char *begin, *end;
};

static struct words words_of(enum topic_kind kind)
{
    switch (kind) {
    case TOPIC_PATTERN:
        return (struct words){ "psubscribe", "punsubscribe" };
    case TOPIC_SHARD:
        return (struct words){ "ssubscribe", "sunsubscribe" };
    default:
        return (struct words){ "subscribe", "unsubscribe" };
    }
}

/* Shard channels are counted apart. */
static size_t count_subscriptions(const struct client *client, enum topic_kind kind)
{
    if (kind == TOPIC_SHARD)
        return delivery_count(client, TOPIC_SHARD);
    return delivery_count(client, TOPIC_CHANNEL) + delivery_count(client, TOPIC_PATTERN);
}

static void confirm_begin(struct call *call, const char *word)
{
    call->replied_push = true;
    reply_push(call->reply, 3);
    reply_bulk_string(call->reply, word);
}

static void confirm(struct call *call, enum topic_kind kind, const char *word, struct bytes name)
{
    confirm_begin(call, word);
    reply_bulk(call->reply, name);
    reply_integer(call->reply, (int64_t)count_subscriptions(call->client, kind));
}

/* Messages that were sent before go first, so each confirmation is written after its subscription has begun. */
static void begin_subscriptions(struct call *call, enum topic_kind kind)
{
    for (int i = 1; i < call->arg_count; i++) {
        delivery_subscribe(call->client, kind, call->args[i]);
        confirm(call, kind, words_of(kind).begin, call->args[i]);
    }
}

static void end_one(struct call *call, enum topic_kind kind, struct bytes name)
{
    struct bytes copy = arena_copy(call->arena, name);

    delivery_unsubscribe(call->client, kind, name);
    confirm(call, kind, words_of(kind).end, copy);
}

static void end_all(struct call *call, enum topic_kind kind)
{
    struct bytes name;

    if (delivery_count(call->client, kind) == 0) {
        confirm_begin(call, words_of(kind).end);
        reply_null(call->reply);
        reply_integer(call->reply, (int64_t)count_subscriptions(call->client, kind));
        return;
    }
    while (delivery_first(call->client, kind, &name))
        end_one(call, kind, name);
}

static void end(struct call *call, enum topic_kind kind)
{
    if (call->arg_count == 1)
        end_all(call, kind);
    for (int i = 1; i < call->arg_count; i++)
        end_one(call, kind, call->args[i]);
}

void subscribe_command(struct call *call) { begin_subscriptions(call, TOPIC_CHANNEL); }
void psubscribe_command(struct call *call) { begin_subscriptions(call, TOPIC_PATTERN); }
void unsubscribe_command(struct call *call) { end(call, TOPIC_CHANNEL); }
void punsubscribe_command(struct call *call) { end(call, TOPIC_PATTERN); }
void sunsubscribe_command(struct call *call) { end(call, TOPIC_SHARD); }

/* Refused in transactions, unlike the others; as in Redis. */
void ssubscribe_command(struct call *call)
{
    if (!call_may_wait(call))
        reply_errorf(call, "ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client");
    else
        begin_subscriptions(call, TOPIC_SHARD);
}

static void publish_to(struct call *call, enum topic_kind kind)
{
    int64_t receivers;

    if (publish_message(call, kind, call->args[1], call->args[2], &receivers))
        reply_integer(call->reply, receivers);
}

void publish_command(struct call *call) { publish_to(call, TOPIC_CHANNEL); }
void spublish_command(struct call *call) { publish_to(call, TOPIC_SHARD); }
