/* Loaders: the threads (kelvin-load) that read records for loads, and the queue before them. tier/load.h says what a load is.
 *
 * loaders_submit appends to the queue and wakes one loader, which wakes others. There are 1 to LOADERS_MAX of them (tier-load-threads);
 * the first one ends only when the queue is empty. Where workers read by themselves (tier/load_ring.h), loaders get the rest.
 */
#ifndef KELVIN_TIER_LOADER_H
#define KELVIN_TIER_LOADER_H

#include <stdbool.h>
#include <stdint.h>

struct tier;
struct load_batch;
struct loaders;

enum { LOADERS_MAX = 64 };

struct loaders *loaders_create(void);
void loaders_destroy(struct loaders *loaders);      /* after loaders_stop */

/* Queues all loads of the batch, which is empty then. No lock is held. */
void loaders_submit(struct tier *tier, struct load_batch *batch);
/* After load_finish by any thread: wakes threads that wait in tier_loads_help. */
void loaders_note_end(struct tier *tier);

/* Starts or ends loaders until there are as many as the settings say. At start, then by the writer only.
 * False: there is none. */
bool loaders_adjust(struct tier *tier);
/* Joins all. `stopping` is set, and the writer has ended. */
void loaders_stop(struct tier *tier);

/* For tests. Loaders that wait for loads; loads in the queue. */
int loaders_idle(struct tier *tier);
uint64_t loaders_queued(struct tier *tier);

#endif
