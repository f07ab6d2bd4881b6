/* Finding and changing records: primaries in the row of runs (recordmap_runs.c), twins beside them. recordmap_walk.c has what reads and
 * writes all of a map.
 */
#include "tier/recordmap.h"

#include "base/check.h"
#include "base/mem.h"
#include "store/segments.h"
#include "tier/recordmap_private.h"

enum { LOAD_MIN = 96 };       /* tags a run on average before another run is added, for stagger 0 */

/* A primary, if there is one with that tag; else where it would be. */
struct primary {
    struct spot spot;
    uint64_t *block;            /* NULL: the run is empty */
    uint32_t index;             /* in the run */
    bool is_there;
};

static inline unsigned larger(unsigned a, unsigned b)
{
    return a > b ? a : b;
}

/* Not for a map without runs. */
static inline struct primary primary_of(const struct recordmap *map, uint64_t tag)
{
    struct primary primary = { .spot = recordmap_spot(map, tag) };
    uint32_t words = shelf_words(&map->shelf, primary.spot.index);

    if (words > 0) {
        primary.block = shelf_at(&map->shelf, primary.spot.index);
        /* The line of the entry is known only from that of the quotients; so it need not be waited for. */
        tagrun_prefetch(primary.block, words, primary.spot.width, primary.spot.number);
        primary.is_there = tagrun_find(primary.block, primary.spot.width, primary.spot.number, &primary.index);
    }
    return primary;
}

static uint64_t primary_place(const struct primary *primary)
{
    return tagrun_place(primary->block, primary->spot.width, primary->index);
}

/* Makes the run as long and wide as `count` numbers and a place need. */
static void run_make_room(struct recordmap *map, struct primary *primary, uint64_t count, uint64_t place)
{
    unsigned bits = tagrun_bits_of(place), before = 0;
    uint64_t words;

    CHECK(count <= TAGRUN_COUNT_MAX && bits <= RECORDMAP_PLACE_BITS);
    if (primary->block != NULL)
        before = tagrun_place_bits(primary->block);
    words = tagrun_words(count, primary->spot.width, larger(bits, before));
    CHECK(words <= UINT32_MAX);
    if (words > shelf_words(&map->shelf, primary->spot.index))
        primary->block = shelf_resize(&map->shelf, primary->spot.index, (uint32_t)words);
    if (bits > before)
        tagrun_widen(primary->block, primary->spot.width, bits);
    if (bits > map->place_bits)
        map->place_bits = bits;
}

static void primary_add(struct recordmap *map, struct primary *primary, uint64_t place)
{
    run_make_room(map, primary, primary->block == NULL ? 1 : (uint64_t)tagrun_count(primary->block) + 1, place);
    tagrun_add(primary->block, primary->spot.width, primary->index, primary->spot.number, place);
    map->count++;
    recordmap_grow(map);
}

static void primary_move(struct recordmap *map, struct primary *primary, uint64_t place)
{
    run_make_room(map, primary, tagrun_count(primary->block), place);
    tagrun_set_place(primary->block, primary->spot.width, primary->index, place);
}

static void primary_remove(struct recordmap *map, const struct primary *primary)
{
    uint32_t count;

    tagrun_remove(primary->block, primary->spot.width, primary->index, primary->spot.number);
    count = tagrun_count(primary->block);
    if (count % TAGRUN_STEP == 0)
        shelf_resize(&map->shelf, primary->spot.index,
            (uint32_t)tagrun_words(count, primary->spot.width, tagrun_place_bits(primary->block)));
    map->count--;
    if (map->count == 0) {
        shelf_release(&map->shelf);
        map->place_bits = 0;
    } else {
        recordmap_shrink(map);
    }
}

/* --- twins --- */

/* The tag's twins: from the index to before `end`. */
struct span {
    uint32_t first, end;
};

static struct span twins_of(const struct recordmap *map, uint64_t tag)
{
    struct span span = { 0, 0 };

    if (map->twins.count > 0)
        span.first = span.end = twins_first(&map->twins, tag);
    while (span.end < map->twins.count && map->twins.list[span.end].tag == tag)
        span.end++;
    return span;
}

/* The newest of the twins with that key, and if `place` is not NULL with that place. */
static struct twin *twin_of(const struct recordmap *map, struct span span, struct bytes key, const uint64_t *place)
{
    for (uint32_t i = span.end; i-- > span.first; ) {
        struct twin *twin = &map->twins.list[i];

        if (twin_has_key(twin, key) && (place == NULL || twin->place == *place))
            return twin;
    }
    return NULL;
}

/* --- public --- */

struct recordmap *recordmap_create(uint8_t stagger, unsigned tag_shift)
{
    struct recordmap *map = mem_zalloc(sizeof(*map));

    CHECK(tag_shift <= RECORDMAP_TAG_SHIFT_MAX);
    map->tag_shift = tag_shift;
    map->load = LOAD_MIN + LOAD_MIN * stagger / 256;    /* one doubling is spread over all staggers */
    return map;
}

void recordmap_destroy(struct recordmap *map)
{
    if (map == NULL)
        return;
    shelf_release(&map->shelf);
    twins_release(&map->twins);
    mem_free(map->watch);
    mem_free(map);
}

void recordmap_add(struct recordmap *map, uint64_t hash, struct bytes key, uint64_t place)
{
    uint64_t tag = recordmap_tag(hash, map->tag_shift);
    struct primary primary;

    CHECK(tagrun_bits_of(place) <= RECORDMAP_PLACE_BITS);
    recordmap_note(map, tag);
    map->nowhere_count += place == PLACE_NOWHERE;
    if (map->shelf.block_count == 0)
        shelf_push(&map->shelf);
    primary = primary_of(map, tag);
    if (primary.is_there)
        twins_add(&map->twins, tag, key, place);
    else
        primary_add(map, &primary, place);
}

bool recordmap_find(const struct recordmap *map, uint64_t hash, struct bytes key, uint64_t *place)
{
    uint64_t tag = recordmap_tag(hash, map->tag_shift);
    const struct twin *twin = NULL;
    struct primary primary;

    if (map->count == 0)
        return false;
    primary = primary_of(map, tag);
    if (!primary.is_there)
        return false;
    if (map->twins.count > 0)
        twin = twin_of(map, twins_of(map, tag), key, NULL);
    *place = twin != NULL ? twin->place : primary_place(&primary);
    return true;
}

unsigned recordmap_tag_shift(const struct recordmap *map)
{
    return map->tag_shift;
}

bool recordmap_has_tag(const struct recordmap *map, uint64_t tag)
{
    return map->count > 0 && primary_of(map, tag).is_there;
}

bool recordmap_maybe(const struct recordmap *map, uint64_t hash)
{
    return recordmap_has_tag(map, recordmap_tag(hash, map->tag_shift));
}

bool recordmap_has_place(const struct recordmap *map, uint64_t hash, uint64_t place)
{
    uint64_t tag = recordmap_tag(hash, map->tag_shift);
    struct primary primary;
    struct span span;

    if (map->count == 0)
        return false;
    primary = primary_of(map, tag);
    if (!primary.is_there)
        return false;
    span = twins_of(map, tag);
    for (uint32_t i = span.first; i < span.end; i++)
        if (map->twins.list[i].place == place)
            return true;
    return primary_place(&primary) == place;
}

/* The primary of a tag, at a place: there must be one. */
static struct primary primary_at(const struct recordmap *map, uint64_t tag, uint64_t place)
{
    struct primary primary;

    CHECK(map->count > 0);
    primary = primary_of(map, tag);
    CHECK(primary.is_there && primary_place(&primary) == place);
    return primary;
}

void recordmap_move(struct recordmap *map, uint64_t hash, struct bytes key, uint64_t from, uint64_t to)
{
    uint64_t tag = recordmap_tag(hash, map->tag_shift);
    struct span span = twins_of(map, tag);
    struct twin *twin = twin_of(map, span, key, &from);
    struct primary primary;

    CHECK(tagrun_bits_of(to) <= RECORDMAP_PLACE_BITS);
    recordmap_note(map, tag);
    map->nowhere_count += to == PLACE_NOWHERE;
    map->nowhere_count -= from == PLACE_NOWHERE;
    if (twin == NULL) {
        primary = primary_at(map, tag, from);
        primary_move(map, &primary, to);
        return;
    }
    twin->place = to;
}

void recordmap_remove(struct recordmap *map, uint64_t hash, struct bytes key, uint64_t place)
{
    uint64_t tag = recordmap_tag(hash, map->tag_shift);
    struct span span = twins_of(map, tag);
    struct twin *twin = twin_of(map, span, key, &place);
    struct primary primary;

    recordmap_note(map, tag);
    map->nowhere_count -= place == PLACE_NOWHERE;
    if (twin == NULL) {
        primary = primary_at(map, tag, place);
        if (span.first == span.end) {
            primary_remove(map, &primary);
            return;
        }
        twin = &map->twins.list[span.first];
        primary_move(map, &primary, twin->place);
    }
    twins_remove(&map->twins, (uint32_t)(twin - map->twins.list));
}

void recordmap_prefetch(const struct recordmap *map, uint64_t hash)
{
    struct spot spot;
    uint32_t words;

    if (map->count == 0)
        return;
    spot = recordmap_spot(map, recordmap_tag(hash, map->tag_shift));
    words = shelf_words(&map->shelf, spot.index);
    if (words > 0)
        tagrun_prefetch(shelf_at(&map->shelf, spot.index), words, spot.width, spot.number);
}

const char *recordmap_row_at(const struct recordmap *map, uint64_t hash)
{
    return map->count == 0 ? NULL : (const char *)&map->shelf.blocks[recordmap_spot(map, recordmap_tag(hash, map->tag_shift)).index];
}

uint64_t recordmap_count(const struct recordmap *map)
{
    return map->count + map->twins.count;
}

uint64_t recordmap_twin_count(const struct recordmap *map)
{
    return map->twins.count;
}

uint64_t recordmap_nowhere_count(const struct recordmap *map)
{
    return map->nowhere_count;
}

size_t recordmap_size(const struct recordmap *map)
{
    return mem_size(map) + shelf_size(&map->shelf) + twins_size(&map->twins) + (map->watch != NULL ? mem_size(map->watch) : 0);
}

unsigned recordmap_place_bits(const struct recordmap *map)
{
    unsigned bits = map->place_bits;

    for (uint32_t i = 0; i < map->twins.count; i++)
        bits = larger(bits, tagrun_bits_of(map->twins.list[i].place));
    return bits;
}
