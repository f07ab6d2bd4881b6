/* Expiry of cold keys, by the expiry keys in the store (tier rule 10). The writer only.
 *
 * The expiry keys are walked through in the order of time. What the walk could not deal with, and what was put before the place it had
 * reached, is looked at again later, all together; less and less often if that changes nothing.
 */
#ifndef KELVIN_TIER_EXPIRY_H
#define KELVIN_TIER_EXPIRY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

struct batch;
struct listed_key;
struct keyspace;
struct partition;
struct tier;

/* All zero: at the beginning. */
struct expiry_walk {
    struct buffer from;             /* see store_expired */
    int64_t from_ms;                /* the time of the place; 0: at the beginning */
    int64_t next_ms;                /* there is none between the place and this time; 0: not known */
    int64_t again_ms;               /* the soonest expiry to be looked at again; INT64_MAX: none */
    int64_t again_at_ms;            /* not before this time */
    int64_t pause_ms;               /* until the next one */
    int64_t rewound_ms;             /* where it went back to the last time */
    _Atomic int64_t settled_ms;     /* expiry keys of earlier times have all been dealt with. Any thread reads it */
};

/* Looks for expired cold keys, at most `count`, from where the last call ended; deletes, logged, go into the batch. Returns how many it dealt
 * with; the others, which are hot or can't be read, are looked at again later. `*more`: there is more to look at at once. */
size_t expiry_step(struct tier *tier, int64_t now_ms, int count, struct batch *batch, bool *more);

/* Visits cold keys in the order in which they expire, whether they have expired or not: `count` expiry keys from the place on (see store_expired; empty:
 * the beginning), but not those of keys that are hot or whose records can't be read. The visitor may delete the key, which then goes into the batch; the partition is
 * locked. It returns whether it has. Returns whether there may be more. */
typedef bool expiry_visitor(void *context, struct partition *partition, struct keyspace *keyspace, const struct listed_key *listed, struct bytes key, struct batch *batch);
bool expiry_visit(struct tier *tier, struct buffer *from, int count, struct batch *batch, expiry_visitor *visit, void *context);

#endif
