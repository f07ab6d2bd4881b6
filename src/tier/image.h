/* Image: the store brought to the state of one instant, the cut, and a copy of it: the tier's half of a checkpoint. persist/checkpoint.h has
 * the log's half.
 *
 * The cut turns the partitions' parity with all of them locked (tier/epoch.h). Sealing (tier/seal.h) brings the store to the state of the
 * cut: the writer writes every dirty entry that is as it was, and a thread that is about to change one hands its value over first
 * (tier/handover.h). Until the snapshot the writer applies nothing that is younger: entries changed since are barred, graves made since wait,
 * a flushed keyspace is kept until it is sealed. Nothing is taken back when a checkpoint fails: what was sealed was true, and what waited
 * goes on.
 */
#ifndef KELVIN_TIER_IMAGE_H
#define KELVIN_TIER_IMAGE_H

#include "base/message.h"
#include "tier/tier.h"

/* One image at a time: no other thread cuts between these two. The caller holds no partition. */
void tier_image_begin(struct tier *tier);
void tier_image_end(struct tier *tier);

/* With all partitions locked: false while a checkpoint that failed still has to bring its values to a store in error, and then until
 * tier_clean has looked at every entry. */
bool tier_may_cut(struct tier *tier);

/* With all partitions locked: the instant the image is of. tier_image has to follow. */
void tier_cut(struct tier *tier);

/* Before a cut: writes what is dirty to the store, in one pass, so that little is left to do after the cut; while keys are demoted
 * only as much as is written by a step. Blocks; not on a worker.
 * STATUS_TOO_LARGE: a key's record is larger than the store takes; the message names the key. So does tier_image. */
enum status tier_clean(struct tier *tier, struct message *message);

/* After tier_cut: seals, and writes the image to `dir` (created): `store/` and `tags`. `*number` is what store_number has to be when it
 * is opened. Blocks until it is done; not on a worker. On failure the tier goes on as if there had been no checkpoint, and `dir` is
 * the caller's to remove. */
enum status tier_image(struct tier *tier, const char *dir, uint64_t *number, struct message *message);
/* After tier_image, before tier_image_end; once the log begins with that image, tier_image_is_base is called with what this has returned. */
uint64_t tier_image_mark(const struct tier *tier);
void tier_image_is_base(struct tier *tier, uint64_t mark);
/* `*damaged`: cold keys that can't be read. False: there are some whose records are newer than the last checkpoint. The log has their values: a start of the server gets them
 * back, but not after a checkpoint. */
bool tier_may_checkpoint(struct tier *tier, uint64_t *damaged, struct message *message);

/* For the warm-up of a server that starts from the image in `dir`: which keys are hot. A failure is logged. An image without it is as good: if
 * the disk is about to fail, the next step of the checkpoint reports it. */
void tier_remember_hot(struct tier *tier, const char *dir);
/* From any thread: the image that is being made, or cleaned for, and all that are asked for until this is taken back, fail soon, with
 * STATUS_CANCELLED. */
void tier_image_cancel(struct tier *tier, bool cancel);
bool tier_image_is_cancelled(const struct tier *tier);

/* The values that were handed over to the writer take so much memory that further changes have to wait, as for memory. Any thread. */
bool tier_handed_is_full(struct tier *tier);
/* A client waits for a held entry (entry_is_held): the writer writes it next, and calls memory_freed. Its partition is locked. */
void tier_write_soon(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key);

/* A keyspace was taken out by a flush, all partitions locked: true if a running checkpoint still needs it and frees it later. */
bool tier_keep_flushed(struct tier *tier, struct keyspace *keyspace);

#endif
