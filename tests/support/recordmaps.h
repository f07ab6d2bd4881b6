/* Record maps in tests. */
#ifndef KELVIN_SUPPORT_RECORDMAPS_H
#define KELVIN_SUPPORT_RECORDMAPS_H

#include <stdbool.h>

#include "tier/recordmap.h"

/* Whether both have the same records in the same order. */
bool maps_are_equal(const struct recordmap *map, const struct recordmap *other);

#endif
