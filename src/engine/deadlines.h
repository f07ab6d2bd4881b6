/* Deadlines of a worker's clients: what is to be done when their time is up. A heap for each worker, the next one on top; its alarm rings for that.
 * All on the worker.
 */
#ifndef KELVIN_ENGINE_DEADLINES_H
#define KELVIN_ENGINE_DEADLINES_H

#include "call/client.h"

/* `deadline` has its time and what is to be called then; it is in no heap. The latter may add and remove others, and itself. */
void deadline_add(struct worker *worker, struct deadline *deadline);
/* One that is in no heap stays as it is. */
void deadline_remove(struct worker *worker, struct deadline *deadline);
/* The worker's alarm rang (worker.h): all whose time is up are removed and called, and the alarm is set for the next one. */
void deadlines_alarm(struct worker *worker);

#endif
