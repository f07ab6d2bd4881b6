#include "support/recordmaps.h"

static bool is_same(const struct recordmap_record *a, const struct recordmap_record *b)
{
    return a->tag == b->tag && a->place == b->place && a->is_twin == b->is_twin && bytes_equal(a->key, b->key);
}

bool maps_are_equal(const struct recordmap *map, const struct recordmap *other)
{
    struct recordmap_walk walks[2];
    struct recordmap_record records[2];

    if (recordmap_count(map) != recordmap_count(other) || recordmap_twin_count(map) != recordmap_twin_count(other))
        return false;
    recordmap_walk_begin(&walks[0], map, 0);
    recordmap_walk_begin(&walks[1], other, 0);
    while (recordmap_walk_next(&walks[0], &records[0])) {
        if (!recordmap_walk_next(&walks[1], &records[1]) || !is_same(&records[0], &records[1]))
            return false;
    }
    return !recordmap_walk_next(&walks[1], &records[1]);
}
