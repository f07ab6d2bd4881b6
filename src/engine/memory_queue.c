#include "engine/memory_queue.h"

#include "engine/memory.h"
#include "engine/worker.h"

void memory_queue_add(struct worker *worker, struct client *client)
{
    client->waits_for_memory = true;
    client->waits_for_pace = client->waits_for_replies = false;
    client->prev_waiting = worker->memory_last;
    client->next_waiting = NULL;
    if (worker->memory_last != NULL)
        worker->memory_last->next_waiting = client;
    else
        worker->memory_first = client;
    worker->memory_last = client;
}

void memory_queue_remove(struct worker *worker, struct client *client)
{
    if (!client->waits_for_memory)
        return;
    client->waits_for_memory = false;
    if (client->prev_waiting != NULL)
        client->prev_waiting->next_waiting = client->next_waiting;
    else
        worker->memory_first = client->next_waiting;
    if (client->next_waiting != NULL)
        client->next_waiting->prev_waiting = client->prev_waiting;
    else
        worker->memory_last = client->prev_waiting;
}

static void move_to_front(struct worker *worker, struct client *client)
{
    if (worker->memory_first == client)
        return;
    client->prev_waiting->next_waiting = client->next_waiting;
    if (client->next_waiting != NULL)
        client->next_waiting->prev_waiting = client->prev_waiting;
    else
        worker->memory_last = client->prev_waiting;
    client->prev_waiting = NULL;
    client->next_waiting = worker->memory_first;
    worker->memory_first->prev_waiting = client;
    worker->memory_first = client;
}

/* The first client in the queue waits for the pace, which still holds it back. */
static bool is_held_back(struct worker *worker)
{
    struct engine *engine = worker->engine;
    int fill;

    if (!worker->memory_first->waits_for_pace || !memory_may_come(engine))
        return false;
    fill = pace_fill(engine);
    return fill >= 0 && !pace_has_credit(engine, fill);
}

/* Resumed now, the client would only find again that it has to wait. */
static bool must_wait_on(const struct worker *worker, const struct client *client)
{
    return client->waits_for_replies && memory_replies_are_full(worker->engine);
}

/* A client that the pace holds back again keeps its place. */
void memory_queue_resume(struct worker *worker)
{
    struct client *last = worker->memory_last;

    pace_check(worker);
    while (worker->memory_first != NULL && !is_held_back(worker)) {
        struct client *client = worker->memory_first;
        uint64_t commands = client->commands;

        memory_queue_remove(worker, client);
        if (must_wait_on(worker, client)) {
            memory_queue_add(worker, client);
            client->waits_for_replies = true;
            if (client == last)
                break;
            continue;
        }
        worker_resume(worker, client);
        if (client->waits_for_pace && client->waits_for_memory && client->commands == commands) {
            move_to_front(worker, client);
            break;
        }
        if (client == last)
            break;
    }
}

bool memory_queue_resume_paced(struct worker *worker)
{
    memory_queue_resume(worker);
    return worker->memory_first != NULL && worker->memory_first->waits_for_pace;
}
