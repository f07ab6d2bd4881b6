/* Census: how many hot keys have which rank, and so up to which rank they have to go. The writer only.
 *
 * A count is finished when every partition has been looked at, and is used until the next one is: so the limit is the same for all, and a
 * part of the tables that a scan has filled gives more than the others.
 */
#ifndef KELVIN_TIER_CENSUS_H
#define KELVIN_TIER_CENSUS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    CENSUS_RANKS = 16,
    CENSUS_ONE = 1 << 16,
    CENSUS_EQUALS_SHARE = 8,        /* part of all keys that may go at once, if those at the limit have the same rank */
};

struct census {
    uint64_t last[CENSUS_RANKS], last_total;        /* the finished count */
    uint64_t next[CENSUS_RANKS], next_total;
};

/* Keys of lower ranks go; of those at the limit, `chance` of CENSUS_ONE. */
struct census_limit {
    unsigned rank, chance;
};

/* Adds the counts of one window: keys by rank, and all, those included that can't be taken. */
void census_add(struct census *census, const uint32_t counts[CENSUS_RANKS], uint32_t total);
/* Every partition has been looked at. */
void census_turn(struct census *census);
/* For `share` of `one` of all keys; with `may_extend` for more, if those at the limit are as good as others. `counts` are used before the first count is
 * finished, and then for no more: the lowest rank of one window may be a high one. */
struct census_limit census_limit(const struct census *census, uint32_t share, uint32_t one, const uint32_t counts[CENSUS_RANKS], uint32_t total,
    bool may_extend);

#endif
