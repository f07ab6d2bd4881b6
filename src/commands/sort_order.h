/* Sort order: elements by number or by text, up or down. */
#ifndef KELVIN_COMMANDS_SORT_ORDER_H
#define KELVIN_COMMANDS_SORT_ORDER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "base/random.h"

struct sort_item {
    struct bytes element;
    struct bytes weight;        /* by text */
    bool has_weight;            /* one without comes first */
    double score;               /* by number */
    size_t index;               /* as it came: decides when nothing else does */
};

/* False if the text is no number as strtod reads one: spaces in front, hex and infinity are fine, NaN, what is too large or
 * too small for a double, and anything behind it are not. Nothing at all is 0. */
bool sort_score(struct bytes text, double *score);

enum sort_by { SORT_BY_NUMBER, SORT_BY_TEXT };
enum sort_direction { SORT_UP, SORT_DOWN };

/* Afterwards [first, end) holds what would be there if all were in order; of the rest nothing is said. Takes linear time but for what is
 * in that range. Equal numbers and equal weights are ordered by their elements. */
void sort_items(struct sort_item *items, size_t count, size_t first, size_t end, enum sort_by by, enum sort_direction direction,
    struct random *random);

#endif
