#include "tier/census.h"

#include <string.h>

void census_add(struct census *census, const uint32_t counts[CENSUS_RANKS], uint32_t total)
{
    for (int rank = 0; rank < CENSUS_RANKS; rank++)
        census->next[rank] += counts[rank];
    census->next_total += total;
}

void census_turn(struct census *census)
{
    memcpy(census->last, census->next, sizeof(census->last));
    census->last_total = census->next_total;
    memset(census->next, 0, sizeof(census->next));
    census->next_total = 0;
}

/* How many of the `count` keys with the lowest rank of all go, of which `wanted` have to. They are equally good, so as many as possible do:
 * then few windows have to be looked at for a batch. But an eighth of all keys at most, or a window would go for the most part; and of keys
 * that are used often no more than have to, as uses are halved soon then, and for that each key is to be looked at. If there are keys of
 * lower ranks it is better to look for more of those. */
static double extend(double wanted, double count, double total, unsigned rank)
{
    double most = total / CENSUS_EQUALS_SHARE;

    if (rank >= CENSUS_RANKS / 2 || most < wanted)
        return wanted;
    return most < count ? most : count;
}

struct census_limit census_limit(const struct census *census, uint32_t share, uint32_t one, const uint32_t counts[CENSUS_RANKS], uint32_t total,
    bool may_extend)
{
    const bool has_last = census->last_total > 0;
    const double all = (double)(has_last ? census->last_total : total), first = (double)share / one * all;
    double wanted = first;

    for (unsigned rank = 0; share < one && rank < CENSUS_RANKS; rank++) {
        double count = (double)(has_last ? census->last[rank] : counts[rank]);

        if (wanted < count) {
            double going = may_extend && has_last && wanted == first ? extend(wanted, count, all, rank) : wanted;

            return (struct census_limit){ rank, (unsigned)(going / count * CENSUS_ONE) };
        }
        wanted -= count;
    }
    return (struct census_limit){ CENSUS_RANKS - 1, CENSUS_ONE };
}
