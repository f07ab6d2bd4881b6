/* Under way: what the server is doing that ends by itself, how far it has come, and how long it will still take.
 *
 * Owner: kelvin-page. What is left is estimated from what was done since a page first showed it.
 */
#ifndef KELVIN_METRICS_UNDERWAY_H
#define KELVIN_METRICS_UNDERWAY_H

#include "base/progress.h"

struct document;
struct readings;

enum underway_kind { UNDERWAY_LOADING, UNDERWAY_SYNC, UNDERWAY_WARMUP, UNDERWAY_CHECKPOINT, UNDERWAY_SAVE, UNDERWAY_BACKUP, UNDERWAY_KINDS };

/* All zero is ready for use. */
struct underway {
    struct progress at[UNDERWAY_KINDS];
};

/* Appends an array "progress" of objects: kind, what, unit ("bytes", "keys"), done, total, seconds_left. The last two are null as long as they are not known. */
void underway_write(struct document *json, struct underway *underway, const struct readings *readings);

#endif
