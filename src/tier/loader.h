/* Loaders: the threads (kelvin-load) that read records for loads, and the queue before them. tier/load.h says what a load is.
 *
 * tier_submit appends to the queue and wakes as many loaders as there are loads. There are 1 to LOADERS_MAX of them (tier-load-threads);
 * the first one ends only when the queue is empty.
 */
#ifndef KELVIN_TIER_LOADER_H
#define KELVIN_TIER_LOADER_H

#include <stdint.h>

struct tier;
struct loaders;

enum { LOADERS_MAX = 64 };

struct loaders *loaders_create(void);
void loaders_destroy(struct loaders *loaders);      /* after loaders_stop */

/* Starts or ends loaders until there are as many as the settings say. At start, then by the writer only. */
void loaders_adjust(struct tier *tier);
/* Joins all. `stopping` is set, and the writer has ended. */
void loaders_stop(struct tier *tier);

/* For tests. Loaders that wait for loads; loads in the queue. */
int loaders_idle(struct tier *tier);
uint64_t loaders_queued(struct tier *tier);

#endif
