/* Demote: which keys go. The writer only.
 *
 * A sweep over the tables in hash order, which is random with respect to heat: each window of some hundred entries is a fair
 * sample of all, so taking the coldest share of every window comes to the coldest share of everything. First in line are
 * those that came back and were not touched a second time; then by heat, decayed to now.
 */
#ifndef KELVIN_TIER_DEMOTE_H
#define KELVIN_TIER_DEMOTE_H

#include "base/random.h"
#include "tier/batch.h"

enum { DEMOTE_WINDOW_BUCKETS = 48, DEMOTE_WINDOW_MAX = DEMOTE_WINDOW_BUCKETS * TABLE_BUCKET_SLOTS, DEMOTE_SHARE_ONE = 1024 };

/* Keys whose record state is unknown: to be resolved by a Get without a lock (tier rule 2). */
struct unknown_key {
    struct partition *partition;
    uint32_t incarnation;
    uint64_t hash;
    size_t key_at, key_size;
};
struct unknowns {
    struct unknown_key *keys;
    size_t count, capacity;
    struct buffer text;
    struct buffer record;
};
void unknowns_release(struct unknowns *unknowns);
void unknowns_add(struct unknowns *unknowns, const struct keyspace *keyspace, uint64_t hash, struct bytes key);

/* Looks at the next window of one keyspace (its partition is locked) and takes `share` of 1024 of its entries, the coldest: clean
 * ones are dropped at once, dirty ones go into the batch (unless `clean_only`), unknown ones into `unknowns`, and those that are
 * to be encoded without the lock into `big`. Stops early when BATCH_HOLD_ENOUGH bytes were encoded. Returns the bytes that
 * are or will be free. */
uint64_t demote_window(struct tier *tier, struct keyspace *keyspace, uint32_t share, bool clean_only, struct batch *batch,
    struct unknowns *unknowns, struct unknowns *big, struct random *random, int64_t now_ms);

/* Reads whether the records are there, notes it in the entries, and, if a batch is given, puts those that are still there into it. */
enum status unknowns_resolve(struct tier *tier, struct unknowns *unknowns, struct batch *batch);

#endif
