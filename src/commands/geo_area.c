#include "commands/geo_area.h"

#include <math.h>

#define MERCATOR_MAX_M 20037726.37      /* half the equator, in the projection */

/* The step at which nine cells cover a circle of this radius. Near the poles, where cells are narrow, a smaller step is needed. */
static int step_for(double radius, double latitude)
{
    int step = -1;

    if (radius == 0)
        return GEOHASH_STEP_MAX;
    for (; radius < MERCATOR_MAX_M; radius *= 2)
        step++;
    step -= (fabs(latitude) > 66) + (fabs(latitude) > 80);
    return step < 1 ? 1 : step > GEOHASH_STEP_MAX ? GEOHASH_STEP_MAX : step;
}

/* The bounds of the area in degrees. The width is that of the side farther from the equator, where degrees of longitude are
 * shortest. */
static struct geo_box bounds_of(const struct geo_area *area)
{
    double half_width = area->shape == GEO_CIRCLE ? area->radius : area->width / 2;
    double half_height = area->shape == GEO_CIRCLE ? area->radius : area->height / 2;
    double north = geo_degrees_of_metres(half_height);
    double edge = area->centre.latitude < 0 ? area->centre.latitude - north : area->centre.latitude + north;
    double east = geo_degrees_of_metres(half_width) / cos(geo_radians(edge));

    return (struct geo_box){
        .min = { area->centre.longitude - east, area->centre.latitude - north },
        .max = { area->centre.longitude + east, area->centre.latitude + north },
    };
}

/* Whether the neighbours in the four directions end before the area does. */
static bool is_too_small(uint64_t centre, int step, const struct geo_box *bounds)
{
    return geohash_box(geohash_neighbour(centre, step, 0, 1), step).max.latitude < bounds->max.latitude ||
        geohash_box(geohash_neighbour(centre, step, 0, -1), step).min.latitude > bounds->min.latitude ||
        geohash_box(geohash_neighbour(centre, step, 1, 0), step).max.longitude < bounds->max.longitude ||
        geohash_box(geohash_neighbour(centre, step, -1, 0), step).min.longitude > bounds->min.longitude;
}

/* Whether the area stays within the middle cell on the side of this neighbour. */
static bool is_out_of_reach(const struct geo_box *middle, const struct geo_box *bounds, int east, int north)
{
    return (north < 0 && middle->min.latitude < bounds->min.latitude) || (north > 0 && middle->max.latitude > bounds->max.latitude) ||
        (east < 0 && middle->min.longitude < bounds->min.longitude) || (east > 0 && middle->max.longitude > bounds->max.longitude);
}

int geo_area_cells(const struct geo_area *area, struct geo_scores cells[GEO_CELLS_MAX])
{
    static const struct { int east, north; } around[GEO_CELLS_MAX] = {
        { 0, 0 }, { 0, 1 }, { 0, -1 }, { 1, 0 }, { -1, 0 }, { 1, 1 }, { -1, 1 }, { 1, -1 }, { -1, -1 }
    };
    double radius = area->shape == GEO_CIRCLE ? area->radius
        : sqrt(area->width / 2 * (area->width / 2) + area->height / 2 * (area->height / 2));
    struct geo_box bounds = bounds_of(area), middle;
    int step = step_for(radius, area->centre.latitude), count = 0;
    uint64_t centre = geohash_encode(area->centre, step), previous = 0;

    if (step > 1 && is_too_small(centre, step, &bounds))
        centre = geohash_encode(area->centre, --step);
    middle = geohash_box(centre, step);
    for (int i = 0; i < GEO_CELLS_MAX; i++) {
        uint64_t cell = geohash_neighbour(centre, step, around[i].east, around[i].north);
        uint64_t one = (uint64_t)1 << (2 * (GEOHASH_STEP_MAX - step));

        /* If four cells cover the world, the northern neighbour is also the southern one. */
        if ((step >= 2 && is_out_of_reach(&middle, &bounds, around[i].east, around[i].north)) || (count > 1 && cell == previous))
            continue;
        cells[count++] = (struct geo_scores){ (double)(cell * one), (double)((cell + 1) * one) };
        previous = cell;
    }
    return count;
}

bool geo_area_has(const struct geo_area *area, struct geo_point point, double *distance)
{
    if (area->shape == GEO_BOX) {
        struct geo_point beside = { area->centre.longitude, point.latitude };

        if (geo_distance_north(point.latitude, area->centre.latitude) > area->height / 2 ||
            geo_distance(point, beside) > area->width / 2)
            return false;
        *distance = geo_distance(area->centre, point);
        return true;
    }
    *distance = geo_distance(area->centre, point);
    return !(*distance > area->radius);
}
