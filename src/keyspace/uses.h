/* Uses: how often a key was used, for the choice of what stays hot. Three bits of the entry, 0 to 7.
 *
 * Each touch adds one. Demotion halves the uses of all keys at times (tier/demotion.h), and notes those of the keys that it takes
 * (tier/ghost.h), so that a promoted key continues where it was. The use that creates or loads a key counts only with the next one: until
 * then the key is on probation, and a key that is read once does not displace one that was used before.
 *
 * (Heat is a different counter: the one that Redis shows. It is too coarse for this choice, as one touch in eleven takes it from 6 to 7,
 * and keys between hot and cold have 1 to 6 touches in all.)
 *
 * Owner: the partition's lock.
 */
#ifndef KELVIN_KEYSPACE_USES_H
#define KELVIN_KEYSPACE_USES_H

#include "base/mutex.h"
#include "keyspace/keyspace.h"
#include "keyspace/partition.h"

enum { USES_MAX = 7, USES_RANKS = 2 * (USES_MAX + 1) };

/* --- the rules, on numbers: also for the models of tier/model.h --- */

static inline unsigned uses_more(unsigned uses, unsigned more)
{
    return uses + more < USES_MAX ? uses + more : USES_MAX;
}

/* After a touch, with which probation ends. */
static inline unsigned uses_touched(unsigned uses, bool on_probation)
{
    return uses_more(uses, on_probation ? 2 : 1);
}

/* All of them, with the one that is on probation: what the ghost notes. */
static inline unsigned uses_in_all(unsigned uses, bool on_probation)
{
    return uses_more(uses, on_probation ? 1 : 0);
}

/* The order of demotion, 0 to USES_RANKS - 1; 0 goes first. Of keys with the same uses the one on probation goes, as it has displaced others
 * already: a loop over more keys than fit keeps the same part of them, and a scan displaces nothing. With one use it stays: the ghost has
 * seen it come back, and the other one has not been used since uses were halved. (docs/decisions/0012-equal-uses.md) */
static inline unsigned uses_rank_of(unsigned uses, bool on_probation)
{
    return 2 * uses + (on_probation == (uses == 1) ? 1 : 0);
}

/* --- of an entry --- */

/* A touch. Writes to the entry only if something changes. */
static inline void uses_touch(struct keyspace *keyspace, struct entry *entry) REQUIRES(keyspace->partition->lock);
static inline void uses_touch(struct keyspace *keyspace, struct entry *entry)
{
    if (entry->flags & ENTRY_PROBATION) {
        if (entry->flags & ENTRY_PINNED)        /* the use that loads it */
            return;
        keyspace_set_probation(keyspace, entry, false);
        entry->uses = uses_touched(entry->uses, true) & USES_MAX;
    } else if (entry->uses < USES_MAX) {
        entry->uses++;
    }
}

static inline unsigned uses_all(const struct entry *entry)
{
    return uses_in_all(entry->uses, entry->flags & ENTRY_PROBATION);
}

static inline unsigned uses_rank(const struct entry *entry)
{
    return uses_rank_of(entry->uses, entry->flags & ENTRY_PROBATION);
}

#endif
