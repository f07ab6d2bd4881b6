/* Deadlines: a heap for each worker, the next one on top. */
#include "base/mutex.h"
#include "engine/blocking_private.h"

#include "base/mem.h"

static void heap_put(struct worker *worker, int at, struct waiter *waiter)
{
    worker->deadlines[at] = waiter;
    waiter->deadline_at = at;
}

static void heap_up(struct worker *worker, int at, struct waiter *waiter)
{
    for (; at > 0 && worker->deadlines[(at - 1) / 2]->deadline_us > waiter->deadline_us; at = (at - 1) / 2)
        heap_put(worker, at, worker->deadlines[(at - 1) / 2]);
    heap_put(worker, at, waiter);
}

static void heap_down(struct worker *worker, int at, struct waiter *waiter)
{
    for (;;) {
        int child = 2 * at + 1;

        if (child + 1 < worker->deadline_count && worker->deadlines[child + 1]->deadline_us < worker->deadlines[child]->deadline_us)
            child++;
        if (child >= worker->deadline_count || worker->deadlines[child]->deadline_us >= waiter->deadline_us)
            break;
        heap_put(worker, at, worker->deadlines[child]);
        at = child;
    }
    heap_put(worker, at, waiter);
}

void deadline_remove(struct worker *worker, struct waiter *waiter)
{
    int at = waiter->deadline_at;
    struct waiter *last;

    if (at < 0)
        return;
    waiter->deadline_at = -1;
    last = worker->deadlines[--worker->deadline_count];
    if (last == waiter)
        return;
    if (at > 0 && worker->deadlines[(at - 1) / 2]->deadline_us > last->deadline_us)
        heap_up(worker, at, last);
    else
        heap_down(worker, at, last);
}

void deadline_set_alarm(struct worker *worker)
{
    if (worker->host.set_alarm != NULL && worker->deadline_count > 0)
        worker->host.set_alarm(worker->host.loop, worker->deadlines[0]->deadline_us);
}

void deadline_add(struct worker *worker, struct waiter *waiter)
{
    waiter->deadline_at = -1;
    if (waiter->deadline_us == 0)
        return;
    if (worker->deadline_count == worker->deadline_capacity) {
        worker->deadline_capacity = worker->deadline_capacity > 0 ? worker->deadline_capacity * 2 : 16;
        worker->deadlines = mem_realloc(worker->deadlines, (size_t)worker->deadline_capacity * sizeof(*worker->deadlines));
    }
    heap_up(worker, worker->deadline_count++, waiter);
    if (waiter->deadline_at == 0)
        deadline_set_alarm(worker);
}
