/* Collect: garbage collection of segments (store/segments.h). The records of a segment that are live, by the record map, are written again at
 * the tail; then the segment is removed. One segment at a time, in small steps between the writer's other work.
 *
 * The segment with the smallest live share is next (greedy cleaning; Rosenblum and Ousterhout, The Design and Implementation of a
 * Log-Structured File System, 1992), whenever less than tier-space-target of all bytes is live.
 *
 * A record that can't be read stays where it is, with its whole segment: other records of it are not lost with it.
 *
 * What is moved while the base image has the old segment is on the disk twice until the next checkpoint. When the store is full, that is bounded: once
 * a tenth of tier-max-size is held like this, nothing more is moved, and a checkpoint is asked for.
 *
 * On a full disk the segments come first that the base image has not: only these give room at once. Others are moved as long as the next image
 * has room beside that.
 *
 * A segment that could not be synced comes first: images fail until its live records were written again.
 *
 * Owner: the writer. The batch is empty when a step is made. A step deletes keys, too (tier/shed.h): if that batch fails, the step ends with it, and what is
 * left of the segment waits until the store is writable again.
 */
#ifndef KELVIN_TIER_COLLECT_H
#define KELVIN_TIER_COLLECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct collect;
struct recordmap;
struct segments;
struct tags_weights;
struct tier;

/* For the segments of a store that was just opened; NULL: there is no store. */
struct collect *collect_create(struct segments *segments);
void collect_destroy(struct tier *tier);

/* There is, or may be, something to do: a step should be made soon, also while demotion has no end. */
bool collect_is_due(const struct tier *tier);
/* Moves some records. Returns whether there is more to do. */
bool collect_step(struct tier *tier, enum status *status);

/* The records of a flushed keyspace are dead: takes its map over. Any thread, also under a partition's lock. */
void collect_drop_map(struct tier *tier, struct recordmap *map);

/* No flushed keyspace, and no record that was moved, is left to be dealt with. By the writer, or while it is held. */
bool collect_is_idle(struct tier *tier);

/* Frees disk without writing, while the store is in error: removes segments without live records. */
void collect_remove(struct tier *tier);

/* An image was made; it has become the base of the log, and the one before is removed. */
void collect_note_image(struct tier *tier);
void collect_note_base(struct tier *tier);
/* The disk is full, and a checkpoint that was asked for will free room: what can wait should not write before it. The writer only. */
bool collect_awaits_checkpoint(struct tier *tier);

/* Whether the segments' live weights are those of the maps. By the writer. */
bool collect_is_exact(struct tier *tier);

/* After the record maps were loaded: counts what is live, unless `weights` says it and all segments that have live records are there. Returns how many
 * records are in segments that are missing. */
uint64_t collect_count_live(struct tier *tier, const struct tags_weights *weights);

#endif
