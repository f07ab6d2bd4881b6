/* Ghost: how often keys were used that were demoted lately, so that a loaded key continues where it was.
 *
 * A table of 16-bit cells in buckets of four, chosen by the key's hash:
 *
 *   cell = 13 bits of the hash << 3 | uses (0: free)
 *
 * A full bucket gives up a cell with the fewest uses, the oldest of them. One absent key in 2000 takes the uses of another one. There is
 * room for one to two keys per hot key: 2 to 4 bytes each.
 *
 * Owner: the partition's lock. All zero is an empty one.
 */
#ifndef KELVIN_TIER_GHOST_H
#define KELVIN_TIER_GHOST_H

#include <stddef.h>
#include <stdint.h>

struct ghost {
    uint16_t *cells;            /* NULL: nothing was noted yet */
    uint32_t bucket_count;      /* a power of two */
};

void ghost_release(struct ghost *ghost);

/* `uses`: 0 to 7; 0 notes nothing. `hot_count`: keys that are hot, for the table's size. */
void ghost_note(struct ghost *ghost, uint64_t hash, unsigned uses, uint64_t hot_count);
/* Returns what was noted, and forgets it; 0: nothing. */
unsigned ghost_take(struct ghost *ghost, uint64_t hash);
/* Halves all uses. A table that is much too large is given back with what it has. */
void ghost_age(struct ghost *ghost, uint64_t hot_count);

#endif
