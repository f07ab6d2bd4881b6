/* Zipf: numbers 0 .. count - 1, the k-th of them drawn in proportion to 1 / (k + 1)^theta.
 *
 * By rejection-inversion (Hormann, Derflinger: "Rejection-inversion to generate variates from monotone discrete
 * distributions", 1996): exact, nothing to be summed up beforehand, at any count and theta. Immutable after init.
 */
#ifndef KELVIN_BENCHMARK_ZIPF_H
#define KELVIN_BENCHMARK_ZIPF_H

#include <stdint.h>

#include "base/random.h"

struct zipf {
    double theta, count;
    double area_first, area_last;   /* where the area under the curve begins and ends */
    double sure;                    /* this close below an integer, no second look is needed */
};

void zipf_init(struct zipf *zipf, uint64_t count, double theta);     /* count > 0, theta > 0 */
uint64_t zipf_draw(const struct zipf *zipf, struct random *random);

#endif
