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

struct census_limit census_limit(const struct census *census, uint32_t share, uint32_t one, const uint32_t counts[CENSUS_RANKS], uint32_t total)
{
    bool has_last = census->last_total > 0;
    double wanted = (double)share / one * (double)(has_last ? census->last_total : total);

    for (unsigned rank = 0; share < one && rank < CENSUS_RANKS; rank++) {
        double count = (double)(has_last ? census->last[rank] : counts[rank]);

        if (wanted < count)
            return (struct census_limit){ rank, (unsigned)(wanted / count * CENSUS_ONE) };
        wanted -= count;
    }
    return (struct census_limit){ CENSUS_RANKS - 1, CENSUS_ONE };
}
