#include "engine/delivery.h"

#include "base/check.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "engine/publish.h"
#include "pubsub/hub.h"
#include "pubsub/publication.h"
#include "pubsub/subscribers.h"

enum { TURN_BUDGET = 200000 };      /* about 2 ms (pubsub/subscribers.h) */

struct listener {
    struct subscriber *subscriber;
    struct reply held;              /* pushes that wait for the end of a reply; never shares */
};

static struct bytes head_of(const struct publication *publication, const struct bytes *pattern)
{
    if (pattern != NULL)
        return BYTES("pmessage");
    return publication->kind == TOPIC_SHARD ? BYTES("smessage") : BYTES("message");
}

static void append_message(struct reply *reply, const struct publication *publication, const struct bytes *pattern)
{
    reply_push(reply, pattern == NULL ? 3 : 4);
    reply_bulk(reply, head_of(publication, pattern));
    if (pattern != NULL)
        reply_bulk(reply, *pattern);
    buffer_append_bytes(&reply->out, publication->tail);
    if (publication->blob != NULL)
        reply_bulk_blob(reply, publication->blob);
}

/* The bytes of a push for this client; empty: it gets none. */
static struct bytes form_for(const struct client *client, const struct publication *push)
{
    const struct push_target *target = publication_target(push, client->id);

    if (target == NULL || target->generation != client->push_generation)
        return bytes_of(NULL, 0);
    if (client->reply.protocol >= 3)
        return push->forms[1];
    return client->flags & CLIENT_SUBSCRIBED ? push->forms[0] : bytes_of(NULL, 0);
}

static void raise_lsn(uint64_t *lsn, uint64_t to)
{
    if (*lsn < to)
        *lsn = to;
}

static void deliver_message(void *owner, const struct publication *publication, const struct bytes *pattern)
{
    struct client *client = owner;
    struct worker *worker = client->worker;
    struct reply *reply = client->flags & CLIENT_PUSHES_HELD ? &client->listener->held : &client->reply;
    size_t before = reply->out.size;

    if (client->flags & CLIENT_CLOSE_AFTER_REPLY)
        return;
    if (publication->is_push)
        buffer_append_bytes(&reply->out, form_for(client, publication));
    else
        append_message(reply, publication, pattern);
    if (reply->out.size == before)
        return;
    raise_lsn(&client->lsn.needed, publication->lsn);
    raise_lsn(&client->lsn.delivered, publication->lsn);
    raise_lsn(&worker->turn.lsn_seen, publication->lsn);
    worker->host.output_came(client);
}

static struct subscribers *subscribers_of(struct worker *worker)
{
    struct engine *engine = worker->engine;

    if (worker->subscribers == NULL)
        worker->subscribers = subscribers_create(engine->hub, worker->index, &engine->partitions->seed.sip, deliver_message);
    return worker->subscribers;
}

void delivery_open(struct client *client)
{
    if (client->listener != NULL)
        return;
    client->listener = mem_zalloc(sizeof(*client->listener));
    client->listener->subscriber = subscriber_create(subscribers_of(client->worker), client, client->id);
    client->flags |= CLIENT_LISTENS;
}

void delivery_forget(struct client *client)
{
    if (client->listener == NULL)
        return;
    subscriber_destroy(client->worker->subscribers, client->listener->subscriber);
    reply_release(&client->listener->held);
    mem_free(client->listener);
    client->listener = NULL;
    client->flags &= ~(uint32_t)(CLIENT_LISTENS | CLIENT_SUBSCRIBED | CLIENT_PUSHES_HELD);
}

bool delivery_subscribe(struct client *client, enum topic_kind kind, struct bytes name)
{
    bool is_new;

    delivery_open(client);
    is_new = subscriber_add(client->worker->subscribers, client->listener->subscriber, kind, name);
    client->flags |= CLIENT_SUBSCRIBED;
    return is_new;
}

bool delivery_unsubscribe(struct client *client, enum topic_kind kind, struct bytes name)
{
    bool found;

    if (client->listener == NULL)
        return false;
    found = subscriber_remove(client->worker->subscribers, client->listener->subscriber, kind, name);
    if (delivery_count(client, TOPIC_CHANNEL) + delivery_count(client, TOPIC_PATTERN) + delivery_count(client, TOPIC_SHARD) == 0)
        client->flags &= ~(uint32_t)CLIENT_SUBSCRIBED;
    return found;
}

void delivery_unsubscribe_all(struct client *client)
{
    for (enum topic_kind kind = 0; kind < TOPIC_KINDS; kind++) {
        struct bytes name;

        while (delivery_first(client, kind, &name))
            delivery_unsubscribe(client, kind, name);
    }
}

/* Looks for a subscription that has to end. */
struct shard_search {
    bool (*test)(void *context, struct bytes name);
    void *context;
    struct bytes found;
};

static bool may_stay(void *context, enum topic_kind kind, struct bytes name)
{
    struct shard_search *search = context;

    if (kind != TOPIC_SHARD || search->test(search->context, name))
        return true;
    search->found = name;
    return false;
}

static void push_end(struct client *client, struct bytes name)
{
    struct reply *reply = client->flags & CLIENT_PUSHES_HELD ? &client->listener->held : &client->reply;

    reply_push(reply, 3);
    reply_bulk(reply, BYTES("sunsubscribe"));
    reply_bulk(reply, name);
    reply_integer(reply, (int64_t)delivery_count(client, TOPIC_SHARD));
    client->worker->host.output_came(client);
}

void delivery_end_shards(struct client *client, bool (*test)(void *context, struct bytes name), void *context)
{
    struct shard_search search = { .test = test, .context = context };

    while (!delivery_all(client, may_stay, &search)) {
        char *name = mem_string(search.found);
        size_t size = search.found.size;

        delivery_unsubscribe(client, TOPIC_SHARD, search.found);
        if (!(client->flags & CLIENT_CLOSE_AFTER_REPLY))
            push_end(client, bytes_of(name, size));
        mem_free(name);
    }
}

bool delivery_first(const struct client *client, enum topic_kind kind, struct bytes *name)
{
    return client->listener != NULL && subscriber_first(client->listener->subscriber, kind, name);
}

bool delivery_all(const struct client *client, bool (*test)(void *context, enum topic_kind kind, struct bytes name), void *context)
{
    return client->listener == NULL || subscriber_all(client->listener->subscriber, test, context);
}

size_t delivery_count(const struct client *client, enum topic_kind kind)
{
    return client->listener == NULL ? 0 : subscriber_count(client->listener->subscriber, kind);
}

size_t delivery_memory(const struct client *client)
{
    const struct listener *listener = client->listener;

    if (listener == NULL)
        return 0;
    return sizeof(*listener) + subscriber_size(listener->subscriber) + (client->flags & CLIENT_PUSHES_HELD ? listener->held.out.capacity : 0);
}

void delivery_catch_up(struct client *client)
{
    if (client->listener != NULL)
        subscriber_catch_up(client->worker->subscribers, client->listener->subscriber);
}

void delivery_hold(struct client *client)
{
    CHECK(!(client->flags & CLIENT_PUSHES_HELD));
    delivery_open(client);
    reply_init(&client->listener->held, client->reply.protocol);
    client->flags |= CLIENT_PUSHES_HELD;
}

void delivery_end_hold(struct client *client)
{
    struct reply *held;

    if (!(client->flags & CLIENT_PUSHES_HELD))
        return;
    held = &client->listener->held;
    client->flags &= ~(uint32_t)CLIENT_PUSHES_HELD;
    buffer_append_bytes(&client->reply.out, buffer_bytes(&held->out));
    reply_release(held);
}

void delivery_run(struct worker *worker)
{
    struct engine *engine = worker->engine;

    if (engine->hub == NULL || worker->index < 0)
        return;
    if ((worker->subscribers == NULL ? hub_has_mail(engine->hub, worker->index) : subscribers_have_work(worker->subscribers)) &&
        subscribers_sweep(subscribers_of(worker), TURN_BUDGET))
        mailbox_ring(&worker->mailbox);
    publish_note_delivered(engine);         /* also of what was delivered to one client before its call */
}

void delivery_stop(struct worker *worker)
{
    subscribers_destroy(worker->subscribers);
    worker->subscribers = NULL;
}
