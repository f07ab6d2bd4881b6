/* Sealing: the writer's part of a checkpoint, in bounded steps, so that demotion and loads go on meanwhile.
 *
 * Passes over everything. Before the cut ("clean") each pass writes what is dirty; there are few, as clients make more. After it, passes go
 * on until nothing is left that is as it was at the cut and not written. Then the image is taken.
 */
#ifndef KELVIN_TIER_SEAL_H
#define KELVIN_TIER_SEAL_H

#include <stdbool.h>

#include "base/status.h"

struct batch;
struct tier;

/* All by the writer, which holds no partition. */

/* A bounded piece of what was asked for (tier/request.h), if anything was; true if there is more to do at once. */
bool seal_step(struct tier *tier, struct batch *batch);
/* A pass or an image is under way. */
bool seal_is_running(const struct tier *tier);
/* The store is in error, or the tier stops: what was asked for fails. */
void seal_abort(struct tier *tier, enum status status);

/* From CHECKPOINT_SEALING to CHECKPOINT_ENDING: the image is done or has failed. */
void seal_stop(struct tier *tier);
/* From CHECKPOINT_ENDING to CHECKPOINT_NONE, once all that was handed over is in the store; the writer calls it until then. Its batch is
 * empty, or failed. */
void seal_end(struct tier *tier, struct batch *batch);

#endif
