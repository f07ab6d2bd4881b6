/* The writer: the one thread that changes the store and the record map (tier rule 1).
 *
 * Each round: finish what failed, do what was asked, demote while memory is over the high mark, bury, expire, purge, tidy up.
 * It sleeps when there is nothing to do, and is nudged by workers that see the memory rise.
 */
#ifndef KELVIN_TIER_WRITER_H
#define KELVIN_TIER_WRITER_H

struct tier;
struct writer;

/* Starts the thread. Returns 0, or the error number. */
int writer_start(struct tier *tier);
/* Joins it; `stopping` is set. Every request is completed. NULL in the tier is fine. */
void writer_stop(struct tier *tier);

#endif
