#include "engine/deadlines.h"

#include "base/clock.h"
#include "base/mem.h"
#include "engine/worker.h"

static void heap_put(struct worker *worker, int at, struct deadline *deadline)
{
    worker->deadlines[at] = deadline;
    deadline->place = at + 1;
}

static void heap_up(struct worker *worker, int at, struct deadline *deadline)
{
    for (; at > 0 && worker->deadlines[(at - 1) / 2]->at_us > deadline->at_us; at = (at - 1) / 2)
        heap_put(worker, at, worker->deadlines[(at - 1) / 2]);
    heap_put(worker, at, deadline);
}

static void heap_down(struct worker *worker, int at, struct deadline *deadline)
{
    for (;;) {
        int child = 2 * at + 1;

        if (child + 1 < worker->deadline_count && worker->deadlines[child + 1]->at_us < worker->deadlines[child]->at_us)
            child++;
        if (child >= worker->deadline_count || worker->deadlines[child]->at_us >= deadline->at_us)
            break;
        heap_put(worker, at, worker->deadlines[child]);
        at = child;
    }
    heap_put(worker, at, deadline);
}

static void set_alarm(struct worker *worker)
{
    if (worker->host.set_alarm != NULL && worker->deadline_count > 0)
        worker->host.set_alarm(worker->host.loop, worker->deadlines[0]->at_us);
}

void deadline_add(struct worker *worker, struct deadline *deadline)
{
    if (worker->deadline_count == worker->deadline_capacity) {
        worker->deadline_capacity = worker->deadline_capacity > 0 ? worker->deadline_capacity * 2 : 16;
        worker->deadlines = mem_realloc(worker->deadlines, (size_t)worker->deadline_capacity * sizeof(*worker->deadlines));
    }
    heap_up(worker, worker->deadline_count++, deadline);
    if (deadline->place == 1)
        set_alarm(worker);
}

void deadline_remove(struct worker *worker, struct deadline *deadline)
{
    int at = deadline->place - 1;
    struct deadline *last;

    if (at < 0)
        return;
    deadline->place = 0;
    last = worker->deadlines[--worker->deadline_count];
    if (last == deadline)
        return;
    if (at > 0 && worker->deadlines[(at - 1) / 2]->at_us > last->at_us)
        heap_up(worker, at, last);
    else
        heap_down(worker, at, last);
}

void deadlines_alarm(struct worker *worker)
{
    int64_t now_us = clock_mono_us();

    while (worker->deadline_count > 0 && worker->deadlines[0]->at_us <= now_us) {
        struct deadline *deadline = worker->deadlines[0];

        deadline_remove(worker, deadline);
        deadline->passed(worker, deadline);
    }
    set_alarm(worker);
}
