/* Sealing: the writer's part of a checkpoint, in bounded steps, so that demotion and loads go on meanwhile.
 *
 * Passes over everything. Before the cut ("clean") one pass writes what is dirty, so that little is handed over after it. There is only one, and
 * while keys are demoted it ends at once: with a stream of new keys there is as much to write after each pass as before it, and the log grows
 * until the cut. After the cut, passes go on until nothing is left that is as it was at the cut and not written: each entry is written or handed
 * over once. Then the image is taken.
 */
#ifndef KELVIN_TIER_SEAL_H
#define KELVIN_TIER_SEAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct batch;
struct tier;

/* All by the writer, which holds no partition. */

/* A piece of what was asked for (tier/request.h), if anything was, of about `step_us`; true if there is more to do at once. */
bool seal_step(struct tier *tier, struct batch *batch, int64_t step_us);
/* The store is in error, or the tier stops: what was asked for fails. */
void seal_abort(struct tier *tier, enum status status);

/* From CHECKPOINT_SEALING to CHECKPOINT_ENDING: the image is done or has failed. */
void seal_stop(struct tier *tier);
/* From CHECKPOINT_ENDING to CHECKPOINT_NONE, once all that was handed over is in the store; the writer calls it until then. Its batch is
 * empty, or failed. */
void seal_end(struct tier *tier, struct batch *batch);

#endif
