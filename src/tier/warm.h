/* Warm: after a restart, a thread of its own (kelvin-warm) loads the keys that were hot when the image was made, the hottest
 * first, as long as memory is below the low mark.
 *
 * It goes through the keys a band of heat after the other, partition by partition, looks their records up in the map, and reads them in bulk
 * (tier/bulk.h), which installs only what is still current; so no placeholder is needed, and clients' loads never wait for the warm-up.
 * A key whose tag in the map is another key's is left to the client that asks for it.
 *
 * It keeps to `tier-warmup-rate`, waits while clients' loads are under way, and pauses while `tier-warmup` is no.
 */
#ifndef KELVIN_TIER_WARM_H
#define KELVIN_TIER_WARM_H

#include "tier/tier.h"

struct warm;

/* A list of keys for tier/hot.c: sorted by rank, hottest first, then hash. */
struct hot_key {
    uint64_t hash;
    uint16_t order;             /* 511 - rank */
};
struct hot_list {
    struct hot_key *keys;
    size_t count, capacity;
};
void hot_list_add(struct hot_list *list, uint64_t hash, uint16_t rank);

/* Adds what was hot in the keyspace at the last image and is not loaded yet, so that an image that is made during the warm-up contains
 * it. Any thread; `warm` may be NULL. */
void warm_list_pending(struct warm *warm, uint32_t incarnation, uint32_t partition, struct hot_list *list);

/* tier_stop: the thread ends. tier_close: frees it. NULL is fine. */
void warm_stop(struct warm *warm);
void warm_destroy(struct warm *warm);

void warm_stats(const struct warm *warm, struct tier_stats *stats);

#endif
