#include "engine/parking.h"

#include "base/clock.h"
#include "engine/memory.h"
#include "engine/publish.h"
#include "engine/worker.h"

static void link_last(struct parking_queue *queue, struct client *client)
{
    client->prev_parked = queue->last;
    client->next_parked = NULL;
    if (queue->last != NULL)
        queue->last->next_parked = client;
    else
        queue->first = client;
    queue->last = client;
    queue->count++;
}

static void unlink_client(struct parking_queue *queue, struct client *client)
{
    if (client->prev_parked != NULL)
        client->prev_parked->next_parked = client->next_parked;
    else
        queue->first = client->next_parked;
    if (client->next_parked != NULL)
        client->next_parked->prev_parked = client->prev_parked;
    else
        queue->last = client->prev_parked;
    queue->count--;
}

static void move_to_front(struct parking_queue *queue, struct client *client)
{
    if (queue->first == client)
        return;
    unlink_client(queue, client);
    client->prev_parked = NULL;
    client->next_parked = queue->first;
    if (queue->first != NULL)
        queue->first->prev_parked = client;
    else
        queue->last = client;
    queue->first = client;
    queue->count++;
}

void parking_add(struct worker *worker, struct client *client, enum parking reason)
{
    client->parking = reason;
    link_last(&worker->parked[reason], client);
    if (reason == PARKED_FOR_MEMORY && worker->pace_soon != NULL)
        worker->pace_soon(worker->loop);
}

void parking_remove(struct worker *worker, struct client *client)
{
    if (client->parking == PARKED_NOT)
        return;
    unlink_client(&worker->parked[client->parking], client);
    client->parking = PARKED_NOT;
}

void parking_notify(struct engine *engine, enum parking reason)
{
    for (int i = 0; i < engine->worker_count; i++)
        mailbox_notify(&engine->workers[i]->mailbox, UINT32_C(1) << reason);
}

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
    struct parking_queue *queue = &worker->parked[reason];

    if (reason == PARKED_FOR_MEMORY && queue->first != NULL)
        pace_check(worker);
    for (uint32_t left = queue->count; left > 0 && queue->first != NULL && !still_holds(worker, reason); left--) {
        struct client *client = queue->first;
        uint64_t commands = client->commands;

        parking_remove(worker, client);
        worker_resume(worker, client);
        /* What holds one back holds back those after it. */
        if (reason == PARKED_FOR_MEMORY && client->parking == (int)reason && client->commands == commands) {
            move_to_front(queue, client);
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

/* The memory gate, and the writer: both wait until something was written or freed. */
static const enum parking for_memory[] = { PARKED_FOR_MEMORY, PARKED_FOR_WRITER };

static int64_t waited_ms(const struct client *client)
{
    return client->has_waited ? (client->waited_us[WAIT_MEMORY] + clock_mono_us() - client->parked_us) / 1000 : 0;
}

void parking_note_waits(struct worker *worker)
{
    uint64_t clients = 0;
    int64_t longest_ms = 0;

    for (size_t i = 0; i < sizeof(for_memory) / sizeof(for_memory[0]); i++) {
        const struct parking_queue *queue = &worker->parked[for_memory[i]];
        int64_t ms = queue->first != NULL ? waited_ms(queue->first) : 0;

        clients += queue->count;
        longest_ms = ms > longest_ms ? ms : longest_ms;
    }
    worker->memory_waiting = clients;
    worker->memory_waited_ms = longest_ms;
}

struct parking_waits parking_waits(const struct engine *engine)
{
    struct parking_waits waits = { 0 };

    for (int i = 0; i < engine->worker_count; i++) {
        int64_t ms = engine->workers[i]->memory_waited_ms;

        waits.clients += engine->workers[i]->memory_waiting;
        waits.longest_ms = ms > waits.longest_ms ? ms : waits.longest_ms;
    }
    return waits;
}
