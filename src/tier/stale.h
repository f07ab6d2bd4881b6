/* Stale: records that are older than what is in RAM. The next record of the key will replace it, so its bytes are garbage at once, and garbage collection
 * need not move them: the map keeps the record, at PLACE_NOWHERE, as the index keeps the key.
 *
 * A key whose record is nowhere has an entry with RECORD_STALE, or a grave. So for a key that has neither, the place is that of another key with the
 * same tag (reading_find).
 *
 * Not during a checkpoint: the record may be as of its cut. At the snapshot no record is nowhere: stale entries were written, or handed over, and
 * pending graves applied. The partition is locked. The writer, or the thread that holds the counting lock.
 */
#ifndef KELVIN_TIER_STALE_H
#define KELVIN_TIER_STALE_H

#include "keyspace/keyspace.h"
#include "tier/tier.h"

/* The map has the key's record at `place`. Returns whether it was stale, or might have been, and was given up. */
bool stale_give_up(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key, uint64_t place) REQUIRES(keyspace->partition->lock);
/* The same, wherever the record is. The key has one. */
void stale_give_up_found(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key) REQUIRES(keyspace->partition->lock);

#endif
