/* Access: whether segments are read through the page cache or past it.
 *
 * Through the page cache a record that is cached costs a copy, and one that is not costs a page of memory and more CPU than a direct read. So it is
 * worth it if a good part of the reads hit. Windows of reads through the cache count hits (preadv2 with RWF_NOWAIT tells); after one with
 * few hits, that are not becoming more, a longer period of direct reads follows, and then another window.
 *
 * Segments are written past the page cache while reads miss it, or if there is hardly room for one: the pages would be dropped before they are
 * read, and until they are on the disk they would be in the way.
 *
 * Any thread. The counts are approximate.
 */
#ifndef KELVIN_TIER_ACCESS_H
#define KELVIN_TIER_ACCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/segments.h"

enum {
    ACCESS_WINDOW = 4096,           /* reads that are counted */
    ACCESS_DIRECT_PERIOD = 65536,   /* reads */
    ACCESS_ENOUGH_PERCENT = 30,     /* hits */
    ACCESS_HITTING_PERCENT = 90,
    ACCESS_RISING_PERCENT = 2,      /* more hits than in the window before */
};

/* All zero: the first window begins. */
struct access {
    _Atomic uint32_t reads, hits;   /* of the window */
    _Atomic uint32_t direct_left;   /* reads of the direct period that are left */
    _Atomic uint32_t percent;       /* hits in the last window */
    atomic_bool is_judged;          /* a window has ended */
    atomic_bool is_missing;         /* a direct period followed the last one */
};

/* For one read. */
enum segment_access access_choose(struct access *access);
/* A read through the cache: it was a hit or not. */
void access_note(struct access *access, bool is_hit);
/* Whether most reads of the last window were hits. */
bool access_is_hitting(const struct access *access);
/* How a segment that is begun now is written. `is_cramped` decides before the first window: there is hardly room for a page cache. */
enum segment_access access_for_writes(const struct access *access, bool is_cramped);

#endif
