/* Replace: another store in the place of a running server's: that of an image which a primary has sent.
 *
 * The writer does it, between two rounds, for a thread that has made sure that no other one uses the store meanwhile:
 *
 *     tier_image_begin; all partitions are owned and their databases empty; no job runs; tier_loads_waiting is 0
 *     tier_may_replace, tier_seed_of, checkpoint_dataset, tier_replace, partitions_set_seed (in either order)
 *     tier_image_end
 *
 * Everything that refers to the old store goes with it: the warm-up, what was to be purged or collected, the walk of expiry. After a failure
 * there is an empty store, or none at all: then the server has to end.
 */
#ifndef KELVIN_TIER_REPLACE_H
#define KELVIN_TIER_REPLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/message.h"
#include "base/status.h"
#include "keyspace/slot.h"

struct tier;

/* False: the store is in error, or a checkpoint that failed still has values to write. With all partitions locked. */
bool tier_may_replace(struct tier *tier);
/* The hash seed of an image's store, which is opened for that and closed again. */
enum status tier_seed_of(const char *image, uint64_t number, struct key_seed *seed, struct message *message);
/* `image` NULL: an empty store. `number`: what store_number has to be. The databases' incarnations are those of the image. */
enum status tier_replace(struct tier *tier, const char *image, uint64_t number, struct message *message);
/* Returns whether there is no store, because its replacement has failed. */
bool tier_has_no_store(const struct tier *tier);

/* The writer's side: does what was asked for, if anything was; ends what was asked for with an error, as the writer ends. */
void replace_serve(struct tier *tier);
void replace_refuse(struct tier *tier);

#endif
