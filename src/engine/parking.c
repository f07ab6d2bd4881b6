#include "engine/parking.h"

#include "base/clock.h"
#include "engine/engine.h"
#include "tier/reader.h"

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

void parking_move_to_front(struct worker *worker, struct client *client)
{
    struct parking_queue *queue = &worker->parked[client->parking];

    unlink_client(queue, client);
    client->prev_parked = NULL;
    client->next_parked = queue->first;
    *(queue->first != NULL ? &queue->first->prev_parked : &queue->last) = client;
    queue->first = client;
    queue->count++;
}

void parking_add(struct worker *worker, struct client *client, enum parking reason)
{
    client->parking = reason;
    if (reason == PARKED_FOR_REPLIES)
        worker->engine->memory.reply_waiters++;
    link_last(&worker->parked[reason], client);
    if (reason == PARKED_FOR_MEMORY && worker->pace_soon != NULL)
        worker->pace_soon(worker->loop);
}

void parking_give_pins(struct worker *worker, struct client *client)
{
    if (client->waits == NULL)
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
    if (client->parking == PARKED_NOT)
        return;
    unlink_client(&worker->parked[client->parking], client);
    if (client->parking == PARKED_FOR_REPLIES)
        worker->engine->memory.reply_waiters--;
    client->parking = PARKED_NOT;
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
