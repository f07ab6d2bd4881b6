/* Geo area: a circle or a box around a point, and the cells (commands/geohash.h) that have to be searched for the members in it.
 *
 * At most nine cells: the one of the centre and its neighbours, of a size such that they cover the area; neighbours that the area
 * does not reach are omitted. The size of the cells and their order are those of Redis, because the results of a search without
 * an order, and of COUNT ... ANY, depend on them. Where this leaves parts of the area uncovered (circles around a pole), Redis
 * does the same.
 */
#ifndef KELVIN_COMMANDS_GEO_AREA_H
#define KELVIN_COMMANDS_GEO_AREA_H

#include <stdbool.h>
#include <stdint.h>

#include "commands/geohash.h"

enum { GEO_CELLS_MAX = 9 };

struct geo_area {
    enum { GEO_CIRCLE, GEO_BOX } shape;
    struct geo_point centre;
    double radius;                      /* of a circle: in metres, like width and height of a box */
    double width, height;
};

/* Scores from `min` on, below `max`. */
struct geo_scores {
    double min, max;
};

/* Returns how many there are. */
int geo_area_cells(const struct geo_area *area, struct geo_scores cells[GEO_CELLS_MAX]);

/* Whether the point is in the area, and its distance from the centre in metres. */
bool geo_area_has(const struct geo_area *area, struct geo_point point, double *distance);

#endif
