/* Shed: cold keys are deleted so that the store stays below tier-max-size (tier-full-policy). The writer only.
 *
 * allkeys-coldest and volatile-coldest: garbage collection takes the oldest segment, and of its live records it writes again only those that are to be
 * kept: of keys that are in RAM, or were used since they were demoted (one more time for each use that the ghost has noted; FIFO with reinsertion, as in CLOCK and
 * S3-FIFO), pinned, or, with volatile-coldest, without an expiry. The others are deleted, and the file goes, without having been read at random or compacted.
 *
 * volatile-ttl: the keys that expire next, by the expiry keys in the store; then garbage collection makes room.
 *
 * It begins at 85 % of tier-max-size, so that demotion need not wait. When all segments have been walked, or all expiry keys, and
 * nothing could be deleted, it pauses, and the store gets full as with noeviction.
 */
#ifndef KELVIN_TIER_SHED_H
#define KELVIN_TIER_SHED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "keyspace/partition.h"

struct batch;
struct segment_record;
struct tier;

/* All zero: at the beginning. */
struct shed {
    uint64_t fruitless;             /* segments since something was deleted */
    int64_t again_us;               /* monotonic: not before */
    int64_t over_us;                /* monotonic: since when the store is above tier-max-size; 0: it is not */
    struct buffer from;             /* volatile-ttl: the place among the expiry keys */
    bool has_deleted;               /* in the last step there */
};
void shed_release(struct shed *shed);

/* The store is near tier-max-size, and there may be something to delete. */
bool shed_is_due(struct tier *tier);
/* The same, with the bytes that only a checkpoint can free. */
bool shed_needs_room(struct tier *tier);
/* Segments are to be taken for it, the oldest first. */
bool shed_takes_segments(struct tier *tier);
/* Once a round, before anything asks for the size. */
void shed_note_size(struct tier *tier);
/* Nothing is demoted for the moment: the store has reached tier-max-size, and this, or the next checkpoint, is about to make room. Not for longer than ten
 * seconds at a time: what holds the room may never go, and clients wait. */
bool shed_holds_demotion(struct tier *tier);

/* A live record of a segment that was taken. True: its key is deleted, its grave is in the batch. Otherwise it has to be written again. */
bool shed_record(struct tier *tier, struct partition *partition, const struct segment_record *record, uint64_t hash, uint64_t place,
    struct batch *batch);
/* A segment was dealt with, and `deleted` of its keys were deleted. */
void shed_note_segment(struct tier *tier, uint64_t deleted);

enum { SHED_LIVE_TARGET = 80 };    /* percent of segments that is live when garbage collection for volatile-ttl has made room */
/* volatile-ttl: deletes some keys, if it is due. Returns whether there is more to do at once. */
bool shed_soonest(struct tier *tier, struct batch *batch);

#endif
