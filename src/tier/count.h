/* Count: the exact number of keys of a database, over both tiers (DBSIZE).
 *
 * Keys whose record is unknown have to be looked up for it, and none of them may be resolved by the writer meanwhile: so the thread that
 * counts holds the counting lock, and the writer holds it during each of its rounds.
 *
 * tier_count and tier_count_now are in tier/tier.h.
 */
#ifndef KELVIN_TIER_COUNT_H
#define KELVIN_TIER_COUNT_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/mutex.h"

struct keyspace;
struct tier;
struct tier_keyspace;

struct counting {
    struct mutex lock;              /* before partitions */
    _Atomic int waiting;            /* threads that wait for `lock`: the writer lets them in */
    _Atomic uint64_t current;       /* number of the count under way; 0: none */
    uint64_t last;                  /* lock */
};

void counting_init(struct counting *counting);
void counting_release(struct counting *counting);

/* The writer's round begins and ends. */
void counting_block(struct counting *counting) ACQUIRE(counting->lock);
void counting_unblock(struct counting *counting) RELEASE(counting->lock);
/* By the writer between two rounds: threads that wait to count get the lock. A mutex alone would hardly ever give it to them. */
void counting_let_in(struct counting *counting) EXCLUDES(counting->lock);

/* A key becomes unknown: it is noted if its database is being counted. The partition is locked. */
void count_note(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key);
/* Frees what was noted. */
void count_forget(struct tier_keyspace *part);

#endif
