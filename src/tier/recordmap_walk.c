/* All records of a map in the order of their tags. */
#include "tier/recordmap_private.h"

#include "base/check.h"
#include "base/mem.h"
#include "store/segments.h"

static const uint64_t tag_end = 1ull << RECORDMAP_TAG_BITS;

/* The run that `tag` belongs to: its tags are from `base` to before `end`. */
static uint32_t run_around(const struct recordmap *map, uint64_t tag, uint64_t *base, uint64_t *end)
{
    struct spot spot = recordmap_spot(map, tag);

    *base = tag - spot.number;
    *end = *base + (1ull << spot.width);
    return spot.index;
}

/* Reads the run that begins at walk->end. */
static void walk_enter(struct recordmap_walk *walk, uint64_t tag)
{
    uint32_t index = run_around(walk->map, tag, &walk->base, &walk->end);

    walk->in_run = shelf_words(&walk->map->shelf, index) > 0;
    if (!walk->in_run)
        return;
    tagrun_reader_init(&walk->reader, shelf_at(&walk->map->shelf, index), recordmap_run_width(walk->map, index));
    tagrun_seek(&walk->reader, tag - walk->base);
}

void recordmap_walk_begin(struct recordmap_walk *walk, const struct recordmap *map, uint64_t from_tag)
{
    *walk = (struct recordmap_walk){ .map = map, .from = from_tag, .end = tag_end, .tag = UINT64_MAX };
    if (map->count == 0 || from_tag >= tag_end)
        return;
    walk->twin = twins_first(&map->twins, from_tag);
    walk_enter(walk, from_tag);
}

static bool walk_primary(struct recordmap_walk *walk, struct recordmap_record *record)
{
    uint64_t number, place;

    for (;;) {
        while (walk->in_run && tagrun_read(&walk->reader, &number, &place)) {
            if (walk->base + number < walk->from)
                continue;
            walk->tag = walk->base + number;
            *record = (struct recordmap_record){ .tag = walk->tag, .place = place };
            return true;
        }
        if (walk->end >= tag_end)
            return false;
        walk_enter(walk, walk->end);
    }
}

bool recordmap_walk_next(struct recordmap_walk *walk, struct recordmap_record *record)
{
    const struct twins *twins = &walk->map->twins;
    const struct twin *twin;

    if (walk->twin == twins->count || twins->list[walk->twin].tag != walk->tag)
        return walk_primary(walk, record);
    twin = &twins->list[walk->twin];
    *record = (struct recordmap_record){ .tag = twin->tag, .place = twin->place, .key = twin_key(twin), .is_twin = true };
    walk->twin++;
    return true;
}
