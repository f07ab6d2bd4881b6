/* Checkpoint: the store brought to the state of one instant, and an image of it. See checkpoint.c; persist has the log's half. */
#ifndef KELVIN_TIER_CHECKPOINT_H
#define KELVIN_TIER_CHECKPOINT_H

#include "base/message.h"
#include "tier/tier.h"

/* One image at a time: between these two nobody else cuts. No partition is locked by the caller. */
void tier_image_begin(struct tier *tier);
void tier_image_end(struct tier *tier);

/* With all partitions locked: false while a checkpoint that failed still has to bring its values to a store in error, and then until
 * tier_clean has looked at every entry. */
bool tier_may_cut(struct tier *tier);

/* With all partitions locked: the instant the image is of. tier_image has to follow. */
void tier_cut(struct tier *tier);

/* Before a cut: writes what is dirty to the store, in a few passes, so that little is left to do behind the cut. Blocks; not on a
 * worker. STATUS_TOO_LARGE: a key's record is larger than the store takes; the message names the key. So does
 * tier_image. */
enum status tier_clean(struct tier *tier, struct message *message);

/* After tier_cut: seals, and writes the image to `dir` (created): `store/` and `tags`. `*number` is what store_number has to be when it
 * is opened. Blocks until it is done; not on a worker. On failure the tier goes on as if there had been no checkpoint, and `dir` is
 * the caller's to remove. */
enum status tier_image(struct tier *tier, const char *dir, uint64_t *number, struct message *message);
/* From any thread: the image that is being made, or cleaned for, and all that are asked for until this is taken back, fail soon, with
 * STATUS_CANCELLED. */
void tier_image_cancel(struct tier *tier, bool cancel);

/* So much was handed over to the writer that further changes have to wait: a client is called again when memory came. Any thread. */
bool tier_handed_is_full(struct tier *tier);
/* Under the partition's lock: somebody waits for a held entry (entry_is_held). It is written soon, and memory_freed called. */
void tier_hurry(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key);

/* A keyspace was taken out by a flush, all partitions locked: true if a running checkpoint still needs it and frees it later. */
bool tier_keep_flushed(struct tier *tier, struct keyspace *keyspace);

#endif
