/* Purge: the records of flushed databases are deleted, and the room that they took is given back to the disk.
 *
 * A flush gives its database a new incarnation; here is the set of the old ones that still have records. The writer deletes these
 * in bounded steps. When that is done and SLICE_SIZE bytes were deleted, a thread lets LevelDB compact the range where they were, in
 * slices of about that size, one at a time: between two of them LevelDB's other compactions get their turn. Less than that stays on
 * the disk until more is deleted next to it, or until LevelDB compacts it by itself.
 */
#ifndef KELVIN_TIER_PURGE_H
#define KELVIN_TIER_PURGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct tier;
struct purge;
struct store_span;

struct purge *purge_create(void);
void purge_destroy(struct purge *purge);        /* after purge_stop; NULL is fine */

/* The set. Any thread, any lock may be held. */
void purge_add(struct purge *purge, uint32_t incarnation);      /* adding it twice is fine */
bool purge_has(struct purge *purge, uint32_t incarnation);
size_t purge_count(struct purge *purge);
uint64_t purge_slices(const struct purge *purge);               /* compactions that have begun */

/* Expiry keys were deleted there: if they are many, that range is compacted, too. The writer. */
void purge_note_expiry(struct purge *purge, const struct store_span *span);

/* Adds all incarnations in the store that no database has. Before the replay; costs one seek for each incarnation in the store. */
enum status purge_find(struct tier *tier);

/* Deletes some thousand records at most, and starts or ends the compaction of a slice. By the writer. True if there is more to do
 * at once. A failure is in `status`; the store takes no writes then. */
bool purge_step(struct tier *tier, enum status *status);
/* Waits for the slice that is being compacted, if there is one. Cancelling it is not possible: LevelDB 1.23 uses a null pointer when something
 * fails while a range is compacted and another thread waits for that. By the writer, when no step follows. */
void purge_stop(struct tier *tier);

#endif
