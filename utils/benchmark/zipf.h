/* Zipf: draws numbers 0 .. count - 1; the probability of k is proportional to 1 / (k + 1)^theta.
 *
 * By rejection-inversion (Hormann, Derflinger: "Rejection-inversion to generate variates from monotone discrete
 * distributions", 1996): exact, without a sum computed in advance, for any count and theta. Immutable after init.
 */
#ifndef KELVIN_BENCHMARK_ZIPF_H
#define KELVIN_BENCHMARK_ZIPF_H

#include <stdint.h>

#include "base/random.h"

struct zipf {
    double theta, count;
    double area_first, area_last;   /* the ends of the area under the curve */
    double sure;                    /* a point at most this far below an integer is accepted at once */
};

void zipf_init(struct zipf *zipf, uint64_t count, double theta);     /* count > 0, theta > 0 */
uint64_t zipf_draw(const struct zipf *zipf, struct random *random);

#endif
