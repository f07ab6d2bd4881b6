/* Barrier: a command waits until all workers have passed a call boundary, so that no call that began before is still running when it
 * replies. For commands that change what other calls look at once, when they begin (CLIENT PAUSE).
 *
 *   if (!barrier_is_passed(call)) {
 *       ... the change ...
 *       barrier_wait(call);            parked: the call runs again when all workers have passed
 *       return;
 *   }
 *   reply_ok(call->reply);
 *
 * If the command is exclusive, no unit is in the middle either, and calls that have looked but have not locked their keys yet begin again.
 */
#ifndef KELVIN_ENGINE_BARRIER_H
#define KELVIN_ENGINE_BARRIER_H

#include "call/call.h"
#include "engine/job.h"

struct barrier {
    struct job job;
    void (*visit)(struct barrier *barrier, struct worker *worker);      /* run on each worker, between two calls. NULL: nothing to do */
    _Atomic int left;               /* workers that have not passed a call boundary */
};

/* Sends it to all workers, the caller's among them. The last one finishes the job: the call that waits for it is woken, or it is released. */
void barrier_post(struct engine *engine, struct barrier *barrier);

/* For a thread that is no worker and holds no lock: calls `run` while all workers wait between two calls. Short: no client is served meanwhile.
 * False: `gives_up` returned true first, and `run` was not called. */
bool barrier_run(struct engine *engine, void (*run)(void *context), bool (*gives_up)(void *context), void *context);

bool barrier_is_passed(struct call *call);
void barrier_wait(struct call *call);

#endif
