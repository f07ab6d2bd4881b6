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

#include "tier/hot.h"
#include "tier/tier.h"

struct warm;

/* Returns what hot_save writes beside the keys in RAM. Valid until warm_destroy; `warm` may be NULL. Any thread. */
struct hot_pending warm_pending(const struct warm *warm);

/* tier_stop: the thread ends. tier_close: frees it. NULL is fine. */
void warm_stop(struct warm *warm);
void warm_destroy(struct warm *warm);

void warm_stats(const struct warm *warm, struct tier_stats *stats);

#endif
