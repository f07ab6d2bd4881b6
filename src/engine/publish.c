#include "engine/publish.h"

#include "engine/engine.h"
#include "pubsub/hub.h"

enum {
    TRANSIT_COUNT_MAX = 1024,
    TRANSIT_BYTES_MAX = 8 * 1024 * 1024,
    TRANSIT_SHARE = 8,              /* of maxmemory */
};

static uint64_t transit_bytes_max(const struct engine *engine)
{
    uint64_t limit = (uint64_t)config_number(engine->config, CONFIG_MAXMEMORY);

    return limit > 0 && limit / TRANSIT_SHARE < TRANSIT_BYTES_MAX ? limit / TRANSIT_SHARE : TRANSIT_BYTES_MAX;
}

static bool is_over(const struct engine *engine, uint64_t part)
{
    struct hub_transit transit = hub_transit(engine->hub);

    return transit.count > TRANSIT_COUNT_MAX / part || transit.bytes > transit_bytes_max(engine) / part;
}

/* The flag is set before the second look, and a worker looks at it after it has delivered: one of the two sees what the other did. */
bool publish_must_wait(struct engine *engine)
{
    if (__builtin_expect(!is_over(engine, 1), 1))
        return false;
    engine->publishers_wait = true;
    return is_over(engine, 1);
}

void publish_note_delivered(struct engine *engine)
{
    if (!engine->publishers_wait || is_over(engine, 2))
        return;
    engine->publishers_wait = false;
    parking_notify(engine, PARKED_FOR_DELIVERY);
}

int64_t publish_receivers(struct engine *engine, enum topic_kind kind, struct bytes channel)
{
    return hub_has_receivers(engine->hub, kind) ? (int64_t)hub_receivers(engine->hub, kind, channel) : 0;
}

bool publish_has_listeners(const struct engine *engine)
{
    return engine->hub != NULL && hub_has_receivers(engine->hub, TOPIC_CHANNEL);
}

static void batch_append(struct publish_batch *batch, struct publication *publication)
{
    if (batch->last != NULL)
        batch->last->next = publication;
    else
        batch->first = publication;
    batch->last = publication;
}

void publish_collect(struct engine *engine, struct publish_batch *batch, enum topic_kind kind, struct bytes channel, struct bytes text)
{
    batch_append(batch, publication_create(engine->worker_count, kind, channel, text));
}

void publish_collect_push(struct engine *engine, struct publish_batch *batch, int worker, const struct push_target *targets,
    size_t target_count, struct bytes resp2, struct bytes resp3)
{
    batch_append(batch, publication_create_push(engine->worker_count, worker, targets, target_count, resp2, resp3));
}

void publish_send(struct engine *engine, const struct worker *here, struct publish_batch *batch, uint64_t lsn)
{
    struct publication *first = batch->first;

    if (first == NULL)
        return;
    *batch = (struct publish_batch){ .first = NULL };
    hub_post(engine->hub, here == NULL ? -1 : here->index, first, lsn);
}

void publish_drop(struct publish_batch *batch)
{
    struct publication *next;

    for (struct publication *publication = batch->first; publication != NULL; publication = next) {
        next = publication->next;
        publication_release(publication);
    }
    *batch = (struct publish_batch){ .first = NULL };
}
