/* Waiters for the log: a list for each worker. A worker is rung after each fsync, and when the log is switched off. */
#include "engine/blocking_private.h"

#include "engine/synced.h"

static bool is_for_log(const struct waiter *waiter)
{
    return waiter->end >= CALL_WAIT_SYNCED_HERE;
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
static bool is_over(const struct engine *engine, const struct waiter *waiter)
{
    if (synced_error(engine, waiter->end) != NULL)
        return true;
    return waiter->end == CALL_WAIT_SYNCED_HERE && synced_is_here(engine, waiter->client);
}

static struct waiter *find_over(const struct worker *worker)
{
    struct waiter *waiter = worker->synced_first;

    while (waiter != NULL && !is_over(worker->engine, waiter))
        waiter = waiter->synced_next;
    return waiter;
}

/* From the beginning after each, as a client that goes on may close others. */
void blocking_check_synced(struct worker *worker)
{
    struct waiter *waiter;

    while ((waiter = find_over(worker)) != NULL) {
        synced_remove(worker, waiter);
        waiter_end_in_time(worker, waiter);
    }
}
