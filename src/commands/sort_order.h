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
    bool has_weight;            /* items without a weight come first */
    double score;               /* by number */
    size_t index;               /* original position, which decides between equal items */
};

/* False if the text is not a number as strtod reads one: leading spaces, hex and infinity are accepted; NaN, numbers too large or
 * too small for a double, and trailing text are not. An empty text is 0. */
bool sort_score(struct bytes text, double *score);

enum sort_by { SORT_BY_NUMBER, SORT_BY_TEXT };
enum sort_direction { SORT_UP, SORT_DOWN };

/* Afterwards [first, end) is as if all items were sorted; the order of the others is undefined. Takes linear time, except for the
 * items in that range. Equal numbers and equal weights are ordered by their elements. */
void sort_items(struct sort_item *items, size_t count, size_t first, size_t end, enum sort_by by, enum sort_direction direction,
    struct random *random);

#endif
