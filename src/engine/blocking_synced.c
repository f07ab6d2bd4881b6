/* Waiters for the log and for replicas: a list for each worker. A worker is rung after each fsync, when the log is switched off, and when a
 * replica has acknowledged something. */
#include "engine/blocking_private.h"

#include "engine/synced.h"

static bool is_for_log(const struct waiter *waiter)
{
    return waiter->aim.end >= CALL_WAIT_REPLICAS;
}

void synced_add(struct worker *worker, struct waiter *waiter)
{
    if (!is_for_log(waiter))
        return;
    waiter->synced_next = worker->synced_first;
    if (waiter->synced_next != NULL)
        waiter->synced_next->synced_prev = waiter;
    worker->synced_first = waiter;
}

void synced_remove(struct worker *worker, struct waiter *waiter)
{
    if (waiter->synced_prev == NULL && worker->synced_first != waiter)
        return;
    *(waiter->synced_prev != NULL ? &waiter->synced_prev->synced_next : &worker->synced_first) = waiter->synced_next;
    if (waiter->synced_next != NULL)
        waiter->synced_next->synced_prev = waiter->synced_prev;
    waiter->synced_prev = waiter->synced_next = NULL;
}

/* Nothing more is to come: it has what it waits for, or can't get it. */
static bool is_over(struct engine *engine, const struct waiter *waiter)
{
    return synced_error(engine, &waiter->aim) != NULL || synced_is_reached(engine, waiter->client, &waiter->aim);
}

struct waiter *synced_find_over(const struct worker *worker)
{
    struct waiter *waiter = worker->synced_first;

    while (waiter != NULL && !is_over(worker->engine, waiter))
        waiter = waiter->synced_next;
    return waiter;
}
