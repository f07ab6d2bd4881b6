/* All records of a map in the order of their tags: reading them, and filling an empty map with them. */
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

/* --- filling --- */

void recordmap_fill_begin(struct recordmap_fill *fill, struct recordmap *map, uint64_t count)
{
    uint64_t run_count = (count + map->load - 1) / map->load;

    CHECK(map->count == 0 && map->shelf.block_count == 0);
    /* As many runs as it will need: then each is written once and never split. */
    for (uint64_t i = 0; i < run_count && i < RUN_COUNT_MAX; i++)
        shelf_push(&map->shelf);
    *fill = (struct recordmap_fill){ .map = map };
}

/* Writes the run of the records that have been collected. */
static void fill_run(struct recordmap_fill *fill)
{
    struct recordmap *map = fill->map;
    uint64_t all = 0;
    struct tagrun_writer writer;

    if (fill->count == 0)
        return;
    for (size_t i = 0; i < fill->count; i++)
        all |= fill->records[i].place;
    recordmap_rewrite(map, fill->index, fill->count, tagrun_bits_of(all), &writer);
    for (size_t i = 0; i < fill->count; i++)
        tagrun_write(&writer, fill->records[i].tag - fill->base, fill->records[i].place);
    map->count += fill->count;
    fill->count = 0;
}

static void fill_primary(struct recordmap_fill *fill, const struct recordmap_record *record)
{
    CHECK(record->tag >= fill->next && record->tag < tag_end);
    fill->next = record->tag + 1;
    if (record->tag >= fill->end) {
        fill_run(fill);
        if (fill->map->shelf.block_count == 0)
            shelf_push(&fill->map->shelf);
        fill->index = run_around(fill->map, record->tag, &fill->base, &fill->end);
    }
    if (fill->count == fill->room) {
        fill->room = fill->room * 2 + 64;
        fill->records = mem_realloc(fill->records, fill->room * sizeof(fill->records[0]));
    }
    fill->records[fill->count++] = *record;
}

void recordmap_fill(struct recordmap_fill *fill, const struct recordmap_record *record)
{
    CHECK(tagrun_bits_of(record->place) <= RECORDMAP_PLACE_BITS);
    fill->map->nowhere_count += record->place == PLACE_NOWHERE;
    if (!record->is_twin) {
        fill_primary(fill, record);
    } else {
        CHECK(record->tag + 1 == fill->next);
        twins_add(&fill->map->twins, record->tag, record->key, record->place);
    }
}

void recordmap_fill_end(struct recordmap_fill *fill)
{
    struct recordmap *map = fill->map;

    fill_run(fill);
    mem_free(fill->records);
    if (map->count == 0)
        shelf_release(&map->shelf);
    recordmap_grow(map);
}
