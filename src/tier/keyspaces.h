/* Keyspaces: the tier's part of each keyspace (struct tier_keyspace) from its creation to its end, flushed keyspaces included.
 *
 * tier_forget is in tier/tier.h, tier_keep_flushed in tier/image.h.
 */
#ifndef KELVIN_TIER_KEYSPACES_H
#define KELVIN_TIER_KEYSPACES_H

#include <stdbool.h>
#include <stdint.h>

#include "keyspace/partition.h"
struct tier;

/* The partitions' watch; `tier` is a struct tier. */
void keyspaces_created(void *tier, struct keyspace *keyspace);
/* No key has a record any more, as far as the map knows. */
void keyspaces_empty_map(struct keyspace *keyspace) REQUIRES(keyspace->partition->lock);
bool keyspaces_incarnation_is_taken(void *tier, uint32_t incarnation);

/* A checkpoint does not need flushed keyspaces any more: forgets and frees them. No partition is locked. */
void keyspaces_release_flushed(struct tier *tier);
/* tier_close: the tier's part of all keyspaces, and flushed keyspaces as a whole. No other thread runs. */
void keyspaces_release_all(struct tier *tier);

#endif
