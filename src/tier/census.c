#include "tier/census.h"

#include <stdbool.h>
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

/* Of keys of the same rank it does not matter which go: as many as possible do, so that few windows have to be looked at for a batch. But not
 * so many that a window goes for the most part, nor of keys that are used often: uses are halved soon then, and each key is to be looked at. */
static double extend(double wanted, double count, double lower, double total, unsigned rank)
{
    double most = total / CENSUS_EQUALS_SHARE - lower;

    if (rank >= CENSUS_RANKS / 2 || most < wanted)
        return wanted;
    return most < count ? most : count;
}

struct census_limit census_limit(const struct census *census, uint32_t share, uint32_t one, const uint32_t counts[CENSUS_RANKS], uint32_t total)
{
    const bool has_last = census->last_total > 0;
    const double all = (double)(has_last ? census->last_total : total), wanted = (double)share / one * all;
    double lower = 0;

    for (unsigned rank = 0; share < one && rank < CENSUS_RANKS; rank++) {
        double count = (double)(has_last ? census->last[rank] : counts[rank]);

        if (wanted - lower < count)
            return (struct census_limit){ rank, (unsigned)(extend(wanted - lower, count, lower, all, rank) / count * CENSUS_ONE) };
        lower += count;
    }
    return (struct census_limit){ CENSUS_RANKS - 1, CENSUS_ONE };
}
