/* A growing row of tag runs (tier/tagrun.h), each with the tags that begin with the same bits: linear hashing
 * (Litwin 1980) over Elias-Fano coded buckets, which are packed on a shelf (tier/shelf.h).
 *
 *   tag = first `depth` bits: which run | 7 bits: counted, not stored | the rest: stored, beside the place
 *
 * With 2^d + s runs, the first s of the 2^d have been split in two. Run number = the first bits of the tag read
 * backwards, so that splitting always adds one run at the end and the row never has to be spread out:
 *
 *   run i < s and its partner i + 2^d: d + 1 bits deep; the other runs: d bits deep
 *
 * Why so, and not cache-line buckets with whole tags: a bucket has to be part empty or overflow, and its
 * position repeats bits of the tag. Here the position replaces all bits but 16 or so, a run is as long as its tags
 * need, and nothing overflows. Whatever the size, a tag costs 34 - log2(count) + 2 bits and those of its place, and a run 32 bytes:
 * the larger a map, the less a tag, without the saw tooth of tables that double. What is given up: an absent key costs
 * the row's entry and two or three lines of a run instead of one line; recordmap_prefetch hides it. An add or a
 * remove moves some hundred bytes of its run, and every eighth one half a chunk of the shelf.
 *
 * A step of growth splits one run of some hundred tags; that is the longest that one add takes, but for the copy of
 * the row, 8 bytes a run, when it gets too short. What is removed comes back in the same steps: runs
 * shrink with their tags, and the last run is joined to its partner when runs are half empty on average.
 * If all tags begin with the same bits (a keyed hash prevents it) one run takes them all, at the same price in memory, but each
 * add and remove moves half of it.
 */
#include "tier/recordmap.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "tier/shelf.h"
#include "tier/tagrun.h"
#include "tier/twins.h"

enum {
    LOAD_MIN = 96,              /* tags a run on average before another run is added, for stagger 0 */
    RUN_COUNT_MAX = 1 << 24,    /* so that a run's tags keep some bits of their own */
};

static const uint64_t tag_end = 1ull << RECORDMAP_TAG_BITS;

struct recordmap {
    struct shelf shelf;         /* a block a run; none at all while the map is empty */
    struct twins twins;         /* each tag in it is in a run, too */
    uint64_t count;             /* tags in all runs: primaries */
    uint32_t load;              /* tags a run on average; differs by stagger */
    uint32_t place_bits;        /* the largest of all runs */
};

/* Where a tag is. */
struct spot {
    uint32_t index;
    unsigned width;             /* bits of the tag after those that chose the run */
    uint64_t number;            /* these bits */
};

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

static inline uint32_t bits_reversed(uint32_t bits)
{
    bits = (bits >> 1 & 0x55555555u) | (bits & 0x55555555u) << 1;
    bits = (bits >> 2 & 0x33333333u) | (bits & 0x33333333u) << 2;
    bits = (bits >> 4 & 0x0f0f0f0fu) | (bits & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(bits);
}

/* The d of 2^d + s runs; there is one. */
static inline unsigned level_of(const struct recordmap *map)
{
    return 31 - (unsigned)__builtin_clz(map->shelf.block_count);
}

static inline unsigned run_width(const struct recordmap *map, uint32_t index)
{
    unsigned level = level_of(map);
    uint32_t split = map->shelf.block_count - (1u << level);
    unsigned depth = (index & ((1u << level) - 1)) < split ? level + 1 : level;

    return RECORDMAP_TAG_BITS - depth;
}

static inline struct spot spot_of(const struct recordmap *map, uint64_t tag)
{
    uint32_t backwards = bits_reversed((uint32_t)(tag >> (RECORDMAP_TAG_BITS - 32)));
    unsigned level = level_of(map);
    struct spot spot;

    spot.index = backwards & ((2u << level) - 1);
    if (spot.index >= map->shelf.block_count)
        spot.index &= (1u << level) - 1;
    spot.width = run_width(map, spot.index);
    spot.number = tag & ((1ull << spot.width) - 1);
    return spot;
}

/* A copy of a run that is about to be rewritten; NULL if it is empty. */
static uint64_t *run_copy(const struct recordmap *map, uint32_t index)
{
    size_t size = shelf_words(&map->shelf, index) * sizeof(uint64_t);
    uint64_t *copy = NULL;

    if (size > 0) {
        copy = mem_alloc(size);
        memcpy(copy, shelf_at(&map->shelf, index), size);
    }
    return copy;
}

/* Makes space for a run that is written again. */
static void run_rewrite(struct recordmap *map, uint32_t index, uint64_t count, unsigned place_bits, struct tagrun_writer *writer)
{
    unsigned width = run_width(map, index);
    uint64_t words = tagrun_words(count, width, place_bits);
    uint64_t *block;

    CHECK(count <= TAGRUN_COUNT_MAX && words <= UINT32_MAX);
    block = shelf_resize(&map->shelf, index, (uint32_t)words);
    if (block != NULL)
        tagrun_writer_init(writer, block, width, place_bits, (uint32_t)count);
    if (place_bits > map->place_bits)
        map->place_bits = place_bits;
}

/* Bits for the places of the next `count` numbers. */
static unsigned bits_ahead(struct tagrun_reader reader, uint64_t count)
{
    uint64_t number, place, all = 0;

    for (uint64_t i = 0; i < count && tagrun_read(&reader, &number, &place); i++)
        all |= place;
    return tagrun_bits_of(all);
}

/* Writes the next `count` numbers, changed to (number & mask | bit). */
static void copy_numbers(struct tagrun_reader *reader, uint64_t count, uint64_t mask, uint64_t bit, struct tagrun_writer *writer)
{
    uint64_t number, place;

    for (uint64_t i = 0; i < count && tagrun_read(reader, &number, &place); i++)
        tagrun_write(writer, (number & mask) | bit, place);
}

/* Splits the first run that is not split yet. */
static void map_grow(struct recordmap *map)
{
    uint32_t upper = map->shelf.block_count;
    uint32_t lower = upper - (1u << level_of(map));
    unsigned width = run_width(map, lower);
    uint64_t mask = (1ull << (width - 1)) - 1;
    uint64_t *copy = run_copy(map, lower);
    struct tagrun_writer writer;
    struct tagrun_reader reader;
    uint32_t below, above;

    shelf_push(&map->shelf);
    if (copy == NULL)
        return;
    below = tagrun_count_lower(copy);
    above = tagrun_count(copy) - below;
    tagrun_reader_init(&reader, copy, width);
    run_rewrite(map, lower, below, bits_ahead(reader, below), &writer);
    copy_numbers(&reader, below, mask, 0, &writer);
    run_rewrite(map, upper, above, bits_ahead(reader, above), &writer);
    copy_numbers(&reader, above, mask, 0, &writer);
    mem_free(copy);
}

/* Joins the last run to its partner. */
static void map_shrink(struct recordmap *map)
{
    uint32_t upper = map->shelf.block_count - 1;
    uint32_t lower;
    unsigned width = run_width(map, upper), bits = 0;
    uint64_t *upper_copy = run_copy(map, upper);
    uint64_t *lower_copy;
    uint64_t below = 0, above = 0;
    struct tagrun_reader lower_reader, upper_reader;
    struct tagrun_writer writer;

    shelf_resize(&map->shelf, upper, 0);
    shelf_pop(&map->shelf);
    lower = upper - (1u << level_of(map));
    lower_copy = run_copy(map, lower);
    if (lower_copy != NULL) {
        below = tagrun_count(lower_copy);
        tagrun_reader_init(&lower_reader, lower_copy, width);
        bits = bits_ahead(lower_reader, below);
    }
    if (upper_copy != NULL) {
        above = tagrun_count(upper_copy);
        tagrun_reader_init(&upper_reader, upper_copy, width);
        bits = larger(bits, bits_ahead(upper_reader, above));
    }
    run_rewrite(map, lower, below + above, bits, &writer);
    if (below > 0)
        copy_numbers(&lower_reader, below, UINT64_MAX, 0, &writer);
    if (above > 0)
        copy_numbers(&upper_reader, above, UINT64_MAX, 1ull << width, &writer);
    mem_free(lower_copy);
    mem_free(upper_copy);
}

/* Not for a map without runs. */
static inline struct primary primary_of(const struct recordmap *map, uint64_t tag)
{
    struct primary primary = { .spot = spot_of(map, tag) };
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
    if (map->count > (uint64_t)map->shelf.block_count * map->load && map->shelf.block_count < RUN_COUNT_MAX)
        map_grow(map);
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
    } else if (map->shelf.block_count > 1 && map->count < (uint64_t)map->shelf.block_count * map->load / 2) {
        map_shrink(map);
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

/* The last of the tag's twins whose key is not known; they come first. */
static struct twin *unknown_twin(const struct recordmap *map, struct span span)
{
    struct twin *twin = NULL;

    for (uint32_t i = span.first; i < span.end && map->twins.list[i].key == NULL; i++)
        twin = &map->twins.list[i];
    return twin;
}

/* --- public --- */

struct recordmap *recordmap_create(uint8_t stagger)
{
    struct recordmap *map = mem_zalloc(sizeof(*map));

    map->load = LOAD_MIN + LOAD_MIN * stagger / 256;    /* one doubling is spread over all staggers */
    return map;
}

void recordmap_destroy(struct recordmap *map)
{
    if (map == NULL)
        return;
    shelf_release(&map->shelf);
    twins_release(&map->twins);
    mem_free(map);
}

void recordmap_add(struct recordmap *map, uint64_t hash, struct bytes key, uint64_t place)
{
    uint64_t tag = recordmap_tag(hash);
    struct primary primary;

    CHECK(tagrun_bits_of(place) <= RECORDMAP_PLACE_BITS);
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
    uint64_t tag = recordmap_tag(hash);
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

bool recordmap_maybe(const struct recordmap *map, uint64_t hash)
{
    return map->count > 0 && primary_of(map, recordmap_tag(hash)).is_there;
}

bool recordmap_has_place(const struct recordmap *map, uint64_t hash, uint64_t place)
{
    uint64_t tag = recordmap_tag(hash);
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
    uint64_t tag = recordmap_tag(hash);
    struct span span = twins_of(map, tag);
    struct twin *twin = twin_of(map, span, key, &from);
    struct primary primary;

    CHECK(tagrun_bits_of(to) <= RECORDMAP_PLACE_BITS);
    if (twin == NULL) {
        primary = primary_at(map, tag, from);
        twin = unknown_twin(map, span);
        if (twin == NULL) {
            primary_move(map, &primary, to);
            return;
        }
        /* Now it is known. The primary remains for a key that is not, which has to be found at place 0. */
        twins_set_key(&map->twins, (uint32_t)(twin - map->twins.list), key);
    }
    twin->place = to;
}

void recordmap_remove(struct recordmap *map, uint64_t hash, struct bytes key, uint64_t place)
{
    uint64_t tag = recordmap_tag(hash);
    struct span span = twins_of(map, tag);
    struct twin *twin = twin_of(map, span, key, &place);
    struct primary primary;

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
    spot = spot_of(map, recordmap_tag(hash));
    words = shelf_words(&map->shelf, spot.index);
    if (words > 0)
        tagrun_prefetch(shelf_at(&map->shelf, spot.index), words, spot.width, spot.number);
}

uint64_t recordmap_count(const struct recordmap *map)
{
    return map->count + map->twins.count;
}

uint64_t recordmap_twin_count(const struct recordmap *map)
{
    return map->twins.count;
}

size_t recordmap_size(const struct recordmap *map)
{
    return mem_size(map) + shelf_size(&map->shelf) + twins_size(&map->twins);
}

unsigned recordmap_place_bits(const struct recordmap *map)
{
    unsigned bits = map->place_bits;

    for (uint32_t i = 0; i < map->twins.count; i++)
        bits = larger(bits, tagrun_bits_of(map->twins.list[i].place));
    return bits;
}

/* --- walking --- */

/* The run that `tag` belongs to: its tags are from `base` to before `end`. */
static uint32_t run_around(const struct recordmap *map, uint64_t tag, uint64_t *base, uint64_t *end)
{
    struct spot spot = spot_of(map, tag);

    *base = tag - spot.number;
    *end = *base + (1ull << spot.width);
    return spot.index;
}

/* Reads the run that begins at walk->end. */
static void walk_enter(struct recordmap_walk *walk, uint64_t tag)
{
    uint32_t index = run_around(walk->map, tag, &walk->base, &walk->end);

    walk->in_run = shelf_words(&walk->map->shelf, index) > 0;
    if (walk->in_run)
        tagrun_reader_init(&walk->reader, shelf_at(&walk->map->shelf, index), run_width(walk->map, index));
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
    run_rewrite(map, fill->index, fill->count, tagrun_bits_of(all), &writer);
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
    while (map->count > (uint64_t)map->shelf.block_count * map->load && map->shelf.block_count < RUN_COUNT_MAX)
        map_grow(map);
}
