#include "zipf.h"

#include <math.h>

/* (e^t - 1) / t and log(1 + t) / t, continued to t = 0. With them theta = 1, where the curve's integral is a logarithm, needs
 * no special case, and precision is not lost near it.
 */
static double expm1_over(double t)
{
    return fabs(t) > 1e-8 ? expm1(t) / t : 1 + t / 2;
}

static double log1p_over(double t)
{
    return fabs(t) > 1e-8 ? log1p(t) / t : 1 - t / 2;
}

static double curve(const struct zipf *zipf, double x)
{
    return exp(-zipf->theta * log(x));
}

/* The integral of the curve from 1 to x, and its inverse. */
static double area(const struct zipf *zipf, double x)
{
    double log_x = log(x);

    return expm1_over((1 - zipf->theta) * log_x) * log_x;
}

static double area_inverse(const struct zipf *zipf, double u)
{
    double t = u * (1 - zipf->theta);

    return exp(log1p_over(t < -1 ? -1 : t) * u);
}

void zipf_init(struct zipf *zipf, uint64_t count, double theta)
{
    zipf->theta = theta;
    zipf->count = (double)count;
    zipf->area_first = area(zipf, 1.5) - 1;
    zipf->area_last = area(zipf, zipf->count + 0.5);
    zipf->sure = 2 - area_inverse(zipf, area(zipf, 2.5) - curve(zipf, 2));
}

uint64_t zipf_draw(const struct zipf *zipf, struct random *random)
{
    for (;;) {
        double unit = (double)(random_next(random) >> 11) * 0x1p-53;
        double u = zipf->area_last + unit * (zipf->area_first - zipf->area_last);
        double x = area_inverse(zipf, u);
        double k = floor(x + 0.5);

        if (k < 1)
            k = 1;
        if (k > zipf->count)
            k = zipf->count;
        if (k - x <= zipf->sure || u >= area(zipf, k + 0.5) - curve(zipf, k))
            return (uint64_t)k - 1;
    }
}
