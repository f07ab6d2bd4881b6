/* Sizing: what other sizes of memory would bring: hit ratio, reads of the store, latency. From the tier's models (tier/advise.h has the method) and the
 * latencies that were measured here. Any thread; takes leaf locks.
 */
#ifndef KELVIN_ENGINE_SIZING_H
#define KELVIN_ENGINE_SIZING_H

#include "call/command_stats.h"
#include "tier/advise.h"

struct engine;

enum { SIZING_USES_MIN = 100 };     /* sampled: fewer say nothing */

/* Distributions that latencies are mixed from: shares of all. */
struct sizing_latencies {
    double hot[LATENCY_BUCKETS], cold[LATENCY_BUCKETS];
    bool has_hot, has_cold;
};

struct sizing {
    struct advise_estimate estimate;
    struct sizing_latencies latencies;
    double maxmemory;               /* bytes */
};

enum sizing_state {
    SIZING_KNOWN,
    SIZING_NO_TIER,                 /* tier-enabled no */
    SIZING_NOT_SAMPLED,             /* tier-advise no */
    SIZING_NO_LIMIT,                /* maxmemory 0: there is no size to compare with */
    SIZING_FEW_USES,                /* `estimate` is filled in */
};
enum sizing_state sizing_look(struct engine *engine, struct sizing *sizing);

/* Uses that were sampled, about: all are counted, not the sampled ones. */
double sizing_sampled_uses(const struct advise_estimate *estimate);
/* Percent of the uses that were of keys that had been seen before: the more, the better the estimate. Below 0: there were no uses. */
double sizing_known_percent(const struct advise_estimate *estimate);

/* One size of memory. Latencies below 0: nothing was measured that they could be computed from. */
struct sizing_point {
    double factor;                  /* of maxmemory */
    double maxmemory;               /* bytes */
    double hit_ratio;               /* percent */
    double reads;                   /* of the store, a second */
    double mean_us, p99_us;         /* of a command on keys: until it has run; the network not counted */
};
/* `index` as in advise_factor, 0 to ADVISE_SIZES - 1, of a sizing that is known. */
struct sizing_point sizing_at(const struct sizing *sizing, double index);
/* The sizes that are shown to people, from a quarter of the present one to four times that: the index of number 0 to SIZING_SHOWN - 1. */
enum { SIZING_SHOWN = 5 };
int sizing_shown(int number);

#endif
