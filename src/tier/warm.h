/* Warm: after a restart, a thread of its own (kelvin-warm) loads the keys that were hot when the image was made, the hottest
 * first, as long as memory is below the low mark.
 *
 * It reads the store in the order of the hashes, a band of heat after the other, and installs what it read under the partition's
 * lock, with the heat the key had. What it read is current if the writer has applied nothing to the store since before it was read
 * (store_number) and the key has no entry, grave or load: a key whose record changes has one of these until the batch is in the store,
 * and the batch changes the number. Otherwise it reads again. So no placeholder is needed, and clients' loads never wait for the warm-up.
 *
 * It keeps to `tier-warmup-rate`, waits while clients' loads are under way, and pauses while `tier-warmup` is no.
 */
#ifndef KELVIN_TIER_WARM_H
#define KELVIN_TIER_WARM_H

#include "tier/tier.h"

struct warm;

/* A list of keys for tier/hot.c: sorted by rank, hottest first, then place. */
struct hot_list {
    uint64_t *keys;             /* (511 - rank) << 48 | place */
    size_t count, capacity;
};
void hot_list_add(struct hot_list *list, uint64_t place, uint16_t rank);

/* Adds what was hot in the keyspace at the last image and is not loaded yet, so that an image that is made during the warm-up contains
 * it. Any thread; `warm` may be NULL. */
void warm_list_pending(struct warm *warm, uint32_t incarnation, uint32_t partition, struct hot_list *list);

/* tier_stop: the thread ends. tier_close: frees it. NULL is fine. */
void warm_stop(struct warm *warm);
void warm_destroy(struct warm *warm);

void warm_stats(const struct warm *warm, struct tier_stats *stats);

#endif
