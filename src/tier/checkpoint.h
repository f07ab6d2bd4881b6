/* Checkpoint: the store brought to the state of one instant, and an image of it. See checkpoint.c; persist has the log's half. */
#ifndef KELVIN_TIER_CHECKPOINT_H
#define KELVIN_TIER_CHECKPOINT_H

#include "tier/tier.h"

/* One image at a time: between these two nobody else cuts. No partition is locked by the caller. */
void tier_image_begin(struct tier *tier);
void tier_image_end(struct tier *tier);

/* With all partitions locked: false while a checkpoint that failed still has to bring its values to a store in error. */
bool tier_may_cut(struct tier *tier);

/* With all partitions locked: the instant the image is of. tier_image has to follow. */
void tier_cut(struct tier *tier);

/* After tier_cut: seals, and writes the image to `dir` (created): `store/` and `tags`. Blocks until it is done; not on a worker.
 * On failure the tier goes on as if there had been no checkpoint, and `dir` is the caller's to remove. `message` has 256 bytes. */
enum status tier_image(struct tier *tier, const char *dir, char *message);

/* A keyspace was taken out by a flush, all partitions locked: true if a running checkpoint still needs it and frees it later. */
bool tier_keep_flushed(struct tier *tier, struct keyspace *keyspace);

#endif
