/* Drops: values in pages that were deleted, and whose pages the writer removes gradually.
 *
 * Which ones is kept in pages, too: each slot (the values of which the highest 14 bits of the ID are the same) has a list, the page 0 of the ID that no value
 * gets. So an image has what was left to do at its cut, and there is nothing to be saved besides; a start looks which lists there may be.
 * A value that was renamed may be deleted while only its key's partition is locked, and not that of its pages: it is in the list of the former's first slot.
 *
 *   list = items of 20 bytes: name of the first page that is left | the name after that of the last one        (keyspace/page_name.h)
 *
 * A part of each tier_keyspace of a page space; under its partition's lock.
 */
#ifndef KELVIN_TIER_DROPS_H
#define KELVIN_TIER_DROPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mutex.h"
#include "keyspace/partition.h"

struct tier;
struct tier_keyspace;

/* Pages that the thread that deletes the value removes itself; while the store can't be written, so that there is no demotion. */
enum { DROPS_AT_ONCE = 64, DROPS_AT_ONCE_BLOCKED = 16384 };

/* All zero is ready for use. */
struct drops {
    uint64_t *slots;                /* a bit for each slot of the partition: it may have a list. NULL: none has */
    uint32_t count;                 /* bits that are set */
    uint32_t next;                  /* where the search for one begins */
};

/* The writer's. Removes some pages. True if there are more, which can be removed at once. */
bool drops_step(struct tier *tier);
/* After a start, when the maps are there: finds out which lists there may be. */
void drops_find(struct tier *tier);
/* The keyspace goes. */
void drops_forget(struct tier *tier, struct tier_keyspace *part);

#endif
