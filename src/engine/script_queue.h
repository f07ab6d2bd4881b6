/* Script queue: at most SCRIPTS_MAX units with scripts are in progress on a worker at a time; others wait before they begin, in order.
 *
 * A script in progress takes a stack, which hostile ones make a few MiB large, and its part of the Lua heap. One that waits here owns nothing,
 * so those in progress wait for none of these. A unit that has been let through may still wait for its claim; some more than SCRIPTS_MAX
 * may therefore be in progress, at most as many as there are partitions that can be owned.
 *
 * Owner: the worker.
 */
#ifndef KELVIN_ENGINE_SCRIPT_QUEUE_H
#define KELVIN_ENGINE_SCRIPT_QUEUE_H

#include <stdbool.h>

struct unit;
struct worker;

enum { SCRIPTS_MAX = 64 };

/* The unit, which has claimed nothing, may go on: one that starts again keeps its place among those that have begun, as no other unit would wake it if
 * all of them waited. False: it is in the queue, and its client will be woken. */
bool script_queue_pass(struct unit *unit);
/* A unit with scripts has ended in whatever way, or waits for its claim: the next one goes on, if there are few enough. */
void script_queue_next(struct worker *worker);
/* The unit is dropped. Nothing if it is not in the queue. */
void script_queue_remove(struct unit *unit);

#endif
