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

bool barrier_is_passed(struct call *call);
void barrier_wait(struct call *call);

#endif
