/* Emptying: removes all keys and functions, on behalf of no client. */
#ifndef KELVIN_LIFECYCLE_EMPTYING_H
#define KELVIN_LIFECYCLE_EMPTYING_H

struct engine;

/* All partitions are locked. Watched keys change; nothing is logged, and the caller notifies clients that remember keys, when it has put others in
 * their places. */
void emptying_run(struct engine *engine);
/* The same as a change of this server, a primary: logged, also for replicas, and clients are notified. Waits until no unit owns a partition: not on a
 * worker, no locks. */
void emptying_run_logged(struct engine *engine);

#endif
