/* Clients leave the queues of parking.c: in order, as far as what they waited for has come. */
#include "engine/parking.h"

#include "base/compiler.h"
#include "engine/engine.h"
#include "engine/memory.h"
#include "engine/publish.h"

/* A client that is resumed now would only be parked again. */
static bool still_holds(struct worker *worker, enum parking reason)
{
    struct engine *engine = worker->engine;

    switch (reason) {
    case PARKED_FOR_MEMORY: return worker->turn.memory_fill >= 0 && !pace_has_credit(engine, worker->turn.memory_fill);
    case PARKED_FOR_BIG_CALL: return engine->big_client != NULL;
    case PARKED_FOR_REPLIES: return memory_replies_are_full(engine);
    case PARKED_FOR_DELIVERY: return publish_must_wait(engine);
    default: return false;              /* it depends on the call */
    }
}

bool parking_resume(struct worker *worker, enum parking reason)
{
    struct parking_queue *queue = &worker->parking.queues[reason];

    if (reason == PARKED_FOR_MEMORY && queue->first != NULL)
        pace_check(worker);
    for (uint32_t left = queue->count; left > 0 && queue->first != NULL && !still_holds(worker, reason); left--) {
        struct client *client = queue->first;
        uint64_t commands = client->totals.commands;

        parking_remove(worker, client);
        if (UNLIKELY(client->dead))
            client_wake(client);        /* its unit goes on without it */
        else
            worker->host.resume(client);
        /* A reason that holds one client back holds back those after it. */
        if (reason == PARKED_FOR_MEMORY && client->parking.queue == (int)reason && client->totals.commands == commands) {
            parking_move_to_front(worker, client);
            break;
        }
    }
    return queue->first != NULL;
}

void parking_resume_each(struct worker *worker, uint32_t reasons)
{
    for (enum parking reason = PARKED_NOT + 1; reason < PARKING_REASONS; reason++) {
        if (reasons & UINT32_C(1) << reason)
            (void)parking_resume(worker, reason);
    }
}
