/* PUBLISH: a message is sent, or collected by the unit that the call belongs to, or the call waits. */
#include "engine/publish.h"

#include "engine/engine.h"
#include "engine/event.h"
#include "engine/parking.h"
#include "engine/unit.h"
#include "pubsub/hub.h"

/* The other nodes get what a unit has published when the unit ends. */
static void send_to_nodes(struct call *call, enum topic_kind kind, struct bytes channel, struct bytes text)
{
    if (call->unit != NULL)
        unit_keep_message(call->unit, kind, channel, text);
    else
        call->engine->upper.publish(call->engine, channel, text, kind == TOPIC_SHARD);
}

/* Subscribers of replicas get it, too. A message that is published on a replica is local. In a cluster all nodes get it, over the bus, or those of the
 * shard. */
static void send_to_others(struct call *call, enum topic_kind kind, struct bytes channel, struct bytes text)
{
    struct engine *engine = call->engine;
    uint64_t lsn;
    struct bytes words[3] = { kind == TOPIC_SHARD ? BYTES("SPUBLISH") : BYTES("PUBLISH"), channel, text };

    if (call->client->caller & TRAIT_UNLOGGED)
        return;
    if (engine->upper.publish != NULL) {
        send_to_nodes(call, kind, channel, text);
        return;
    }
    if (history_backlog(&engine->history) == NULL)
        return;
    if (call->unit != NULL) {
        history_group_add(&call->unit->group, call->db, words, 3);
        return;
    }
    lsn = history_append(&engine->history, call->db, words, 3);
    if (lsn > call->turn->lsn_seen)
        call->turn->lsn_seen = lsn;
}

/* The message is sent when the unit ends. */
static void collect_in_unit(struct call *call, enum topic_kind kind, struct bytes channel, struct bytes text)
{
    struct unit *unit = call->unit;

    event_collect(call->engine, &unit->events, &unit->messages);
    publish_collect(call->engine, &unit->messages, kind, channel, text);
}

bool publish_message(struct call *call, enum topic_kind kind, struct bytes channel, struct bytes text, int64_t *receivers)
{
    struct engine *engine = call->engine;
    struct worker *worker = call->client->worker;
    struct publication *publication;

    *receivers = 0;
    if (call->client->caller & TRAIT_SILENT)
        return true;                /* it was sent when it was logged */
    if (hub_has_receivers(engine->hub, kind) && call_may_wait(call) && publish_must_wait(engine)) {
        parking_add_call(worker, call, PARKED_FOR_DELIVERY);
        return false;
    }
    send_to_others(call, kind, channel, text);
    if (!hub_has_receivers(engine->hub, kind))
        return true;
    if (call->unit != NULL) {
        collect_in_unit(call, kind, channel, text);
        *receivers = publish_receivers(engine, kind, channel);
        return true;
    }
    publication = publication_create(engine->worker_count, kind, channel, text);
    publication->lsn = call->client->lsn.needed;
    *receivers = (int64_t)hub_post_counted(engine->hub, worker->index, publication);
    return true;
}
