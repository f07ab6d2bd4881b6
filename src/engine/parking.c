#include "engine/parking.h"

#include "base/clock.h"
#include "engine/engine.h"
#include "tier/reader.h"

static void link_last(struct parking_queue *queue, struct client *client)
{
    client->parking.prev = queue->last;
    client->parking.next = NULL;
    if (queue->last != NULL)
        queue->last->parking.next = client;
    else
        queue->first = client;
    queue->last = client;
    queue->count++;
}

static void unlink_client(struct parking_queue *queue, struct client *client)
{
    if (client->parking.prev != NULL)
        client->parking.prev->parking.next = client->parking.next;
    else
        queue->first = client->parking.next;
    if (client->parking.next != NULL)
        client->parking.next->parking.prev = client->parking.prev;
    else
        queue->last = client->parking.prev;
    queue->count--;
}

void parking_move_to_front(struct worker *worker, struct client *client)
{
    struct parking_queue *queue = &worker->parking.queues[client->parking.queue];

    unlink_client(queue, client);
    client->parking.prev = NULL;
    client->parking.next = queue->first;
    *(queue->first != NULL ? &queue->first->parking.prev : &queue->last) = client;
    queue->first = client;
    queue->count++;
}

void parking_add(struct worker *worker, struct client *client, enum parking reason)
{
    client->parking.queue = reason;
    if (reason == PARKED_FOR_REPLIES)
        worker->engine->memory.reply_waiters++;
    link_last(&worker->parking.queues[reason], client);
    if (reason == PARKED_FOR_MEMORY && worker->host.pace_soon != NULL)
        worker->host.pace_soon(worker->host.loop);
}

void parking_give_pins(struct worker *worker, struct client *client)
{
    if (client->loads.waits == NULL)
        return;
    reader_submit(worker->reader);
    tier_release(worker->engine->tier, client);
}

void parking_add_call(struct worker *worker, struct call *call, enum parking reason)
{
    parking_give_pins(worker, call->client);
    parking_add(worker, call->client, reason);
    call->parked = true;
    if (reason == PARKED_FOR_MEMORY && !tier_is_demoting(call->engine->tier))
        tier_nudge(call->engine->tier);
}

void parking_remove(struct worker *worker, struct client *client)
{
    if (client->parking.queue == PARKED_NOT)
        return;
    unlink_client(&worker->parking.queues[client->parking.queue], client);
    if (client->parking.queue == PARKED_FOR_REPLIES)
        worker->engine->memory.reply_waiters--;
    client->parking.queue = PARKED_NOT;
}

void parking_notify(struct engine *engine, enum parking reason)
{
    for (int i = 0; i < engine->worker_count; i++)
        mailbox_notify(&engine->workers[i]->mailbox, UINT32_C(1) << reason);
}

/* The memory gate, and the writer: both wait until something was written or freed. */
static const enum parking for_memory[] = { PARKED_FOR_MEMORY, PARKED_FOR_WRITER };

static int64_t waited_ms(const struct client *client)
{
    return client->request.has_waited ? (client->request.waited_us[WAIT_MEMORY] + clock_mono_us() - client->request.parked_us) / 1000 : 0;
}

void parking_note_waits(struct worker *worker)
{
    uint64_t clients = 0;
    int64_t longest_ms = 0;

    for (size_t i = 0; i < sizeof(for_memory) / sizeof(for_memory[0]); i++) {
        const struct parking_queue *queue = &worker->parking.queues[for_memory[i]];
        int64_t ms = queue->first != NULL ? waited_ms(queue->first) : 0;

        clients += queue->count;
        longest_ms = ms > longest_ms ? ms : longest_ms;
    }
    worker->parking.waiting = clients;
    worker->parking.waited_ms = longest_ms;
}

struct parking_waits parking_waits(const struct engine *engine)
{
    struct parking_waits waits = { 0 };

    for (int i = 0; i < engine->worker_count; i++) {
        int64_t ms = engine->workers[i]->parking.waited_ms;

        waits.clients += engine->workers[i]->parking.waiting;
        waits.longest_ms = ms > waits.longest_ms ? ms : waits.longest_ms;
    }
    return waits;
}
