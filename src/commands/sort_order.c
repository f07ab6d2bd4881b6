#include "commands/sort_order.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/text.h"

bool sort_score(struct bytes text, double *score)
{
    char *copy, *end;
    bool is_good;

    if (text_to_double(text, score) && (*score == 0 || fabs(*score) >= DBL_MIN))
        return true;
    copy = mem_string(text);
    errno = 0;
    *score = strtod(copy, &end);
    is_good = *end == '\0' && errno != ERANGE && !isnan(*score);
    mem_free(copy);
    return is_good;
}

struct order {
    enum sort_by by;
    enum sort_direction direction;
};

static int compare_weights(const struct sort_item *a, const struct sort_item *b)
{
    if (!a->has_weight || !b->has_weight)
        return (int)a->has_weight - (int)b->has_weight;
    return bytes_compare(a->weight, b->weight);
}

static int compare_scores(const struct sort_item *a, const struct sort_item *b)
{
    return (a->score > b->score) - (a->score < b->score);
}

/* Never 0 for two different items. */
static int compare_items(const void *first, const void *second, void *context)
{
    const struct sort_item *a = first, *b = second;
    const struct order *order = context;
    int result = order->by == SORT_BY_TEXT ? compare_weights(a, b) : compare_scores(a, b);

    if (result == 0)
        result = bytes_compare(a->element, b->element);
    if (result == 0)
        return (a->index > b->index) - (a->index < b->index);
    return order->direction == SORT_UP ? result : -result;
}

static void swap_items(struct sort_item *a, struct sort_item *b)
{
    struct sort_item kept = *a;

    *a = *b;
    *b = kept;
}

/* Quickselect (Hoare, "Algorithm 65: find", 1961): afterwards the items before `index` are those that sort before the ones
 * from `at` on. The pivot is random, so that no order of the data is a bad one. */
static void partition_items(struct sort_item *items, size_t count, size_t index, struct order *order, struct random *random)
{
    size_t low = 0, high = count;       /* `index` is in [low, high) */

    while (high - low > 1) {
        size_t border = low;

        swap_items(&items[low + random_below(random, high - low)], &items[high - 1]);
        for (size_t i = low; i + 1 < high; i++) {
            if (compare_items(&items[i], &items[high - 1], order) < 0)
                swap_items(&items[i], &items[border++]);
        }
        swap_items(&items[border], &items[high - 1]);
        if (border == index)
            return;
        if (border < index)
            low = border + 1;
        else
            high = border;
    }
}

void sort_items(struct sort_item *items, size_t count, size_t first, size_t end, enum sort_by by, enum sort_direction direction,
    struct random *random)
{
    struct order order = { by, direction };

    if (first >= end)
        return;
    if (first > 0)
        partition_items(items, count, first, &order, random);
    if (end < count)
        partition_items(items + first, count - first, end - first, &order, random);
    qsort_r(items + first, end - first, sizeof(*items), compare_items, &order);
}
