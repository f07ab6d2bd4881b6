/* Geo area: a circle or a box around a point, and the cells (commands/geohash.h) that have to be searched for what lies in it.
 *
 * At most nine cells: the one of the centre and its neighbours, of a size such that they cover the area; neighbours that it does not
 * reach are left out. The size is chosen, and the cells come in the order, as Redis does it: what a search without an order answers, and
 * what COUNT ... ANY finds, hangs on it. Where that leaves parts uncovered (circles around a pole), it is the same there.
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
    double radius;                      /* of a circle: in metres, as are these of a box */
    double width, height;
};

/* Scores from `min` on, below `max`. */
struct geo_scores {
    double min, max;
};

/* Returns how many there are. */
int geo_area_cells(const struct geo_area *area, struct geo_scores cells[GEO_CELLS_MAX]);

/* Whether the point lies in the area, and how far it is from the centre, in metres. */
bool geo_area_has(const struct geo_area *area, struct geo_point point, double *distance);

#endif
