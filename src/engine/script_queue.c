#include "engine/script_queue.h"

#include "engine/unit.h"
#include "engine/worker.h"

bool script_queue_pass(struct unit *unit)
{
    struct worker *worker = unit->worker;

    if (!unit->has_script || unit->was_queued || unit->restarts > 0 || (worker->scripts.first == NULL && worker->scripts.running < SCRIPTS_MAX))
        return true;
    unit->was_queued = true;
    unit->wait = UNIT_WAITS_FOR_SCRIPTS;
    unit->next = NULL;
    unit->prev = worker->scripts.last;
    *(unit->prev != NULL ? &unit->prev->next : &worker->scripts.first) = unit;
    worker->scripts.last = unit;
    return false;
}

void script_queue_remove(struct unit *unit)
{
    struct worker *worker = unit->worker;

    if (unit->wait != UNIT_WAITS_FOR_SCRIPTS)
        return;
    unit->wait = UNIT_RUNS;
    *(unit->prev != NULL ? &unit->prev->next : &worker->scripts.first) = unit->next;
    *(unit->next != NULL ? &unit->next->prev : &worker->scripts.last) = unit->prev;
}

void script_queue_next(struct worker *worker)
{
    struct unit *unit = worker->scripts.first;

    if (unit == NULL || worker->scripts.running >= SCRIPTS_MAX)
        return;
    script_queue_remove(unit);
    client_wake(unit->client);
}
