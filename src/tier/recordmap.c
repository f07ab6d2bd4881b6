/* A growing row of tag runs (tier/tagrun.h), each with the tags that begin with the same bits: linear hashing
 * (Litwin 1980) over Elias-Fano coded buckets.
 *
 *   tag = first `depth` bits: which run | 8 bits: counted, not stored | the rest: stored
 *
 * With 2^d + s runs, the first s of the 2^d have been split in two. Run number = the first bits of the tag read
 * backwards, so that splitting always adds one run at the end and the row never has to be spread out:
 *
 *   run i < s and its twin i + 2^d: d + 1 bits deep; the other runs: d bits deep
 *
 * Why so, and not cache-line buckets with whole tags: a bucket has to be part empty or overflow, and its
 * position repeats bits of the tag. Here the place stands for all bits but 16 or so, a run is as long as its tags
 * need, and nothing overflows. Whatever the size, a tag costs 34 - log2(count) + 2 bits and the allocator's rounding:
 * the larger a map, the less, without the saw tooth of tables that double. An absent key costs the row's entry, one line
 * of quotients and, every other time, one of remainders.
 *
 * A step of growth splits one run of some hundred tags; that is the longest that one add takes, but for the copy of
 * the row, 16 bytes a run, when it gets too short. What is removed comes back in the same steps: runs
 * shrink with their tags, and the last run is joined to its twin when runs are half empty on average.
 */
#include "tier/recordmap.h"

#include "base/check.h"
#include "base/mem.h"
#include "tier/tagrun.h"

enum {
    LOAD_MIN = 192,             /* tags a run on average before another run is added, for stagger 0 */
    RUN_COUNT_MAX = 1 << 24,    /* so that a run's tags keep some bits of their own */
};

struct recordmap {
    struct tagrun *runs;        /* NULL while the map is empty */
    uint64_t count;             /* tags in all runs */
    uint64_t runs_size;         /* bytes of all runs' words */
    uint32_t run_count;         /* 1 at least, even while `runs` is NULL */
    uint32_t run_room;
    uint32_t load;              /* tags a run on average; differs by stagger */
};

/* Where a tag lives. */
struct spot {
    uint32_t index;
    unsigned width;             /* bits of the tag behind those that chose the run */
    uint64_t number;            /* these bits */
};

static inline uint64_t tag_of(uint64_t hash)
{
    return hash & ((1ull << RECORDMAP_TAG_BITS) - 1);
}

static inline uint32_t bits_reversed(uint32_t bits)
{
    bits = (bits >> 1 & 0x55555555u) | (bits & 0x55555555u) << 1;
    bits = (bits >> 2 & 0x33333333u) | (bits & 0x33333333u) << 2;
    bits = (bits >> 4 & 0x0f0f0f0fu) | (bits & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(bits);
}

/* The d of 2^d + s. */
static inline unsigned level_of(const struct recordmap *map)
{
    return 31 - (unsigned)__builtin_clz(map->run_count);
}

static inline unsigned run_width(const struct recordmap *map, uint32_t index)
{
    unsigned level = level_of(map);
    uint32_t split = map->run_count - (1u << level);
    unsigned depth = (index & ((1u << level) - 1)) < split ? level + 1 : level;

    return RECORDMAP_TAG_BITS - depth;
}

static inline struct spot spot_of(const struct recordmap *map, uint64_t tag)
{
    uint32_t backwards = bits_reversed((uint32_t)(tag >> (RECORDMAP_TAG_BITS - 32)));
    unsigned level = level_of(map);
    struct spot spot;

    spot.index = backwards & ((2u << level) - 1);
    if (spot.index >= map->run_count)
        spot.index &= (1u << level) - 1;
    spot.width = run_width(map, spot.index);
    spot.number = tag & ((1ull << spot.width) - 1);
    return spot;
}

static void row_resize(struct recordmap *map, uint32_t room)
{
    map->runs = mem_realloc(map->runs, room * sizeof(*map->runs));
    map->run_room = room;
}

static void map_empty(struct recordmap *map)
{
    if (map->runs != NULL)
        for (uint32_t i = 0; i < map->run_count; i++)
            tagrun_release(&map->runs[i]);
    mem_free(map->runs);
    map->runs = NULL;
    map->run_count = 1;
    map->run_room = 0;
    map->runs_size = 0;
    map->count = 0;
}

/* Splits the first run that is not split yet. */
static void map_grow(struct recordmap *map)
{
    uint32_t index = map->run_count - (1u << level_of(map));
    unsigned width = run_width(map, index);
    struct tagrun *run;
    struct tagrun *upper;

    if (map->run_count == map->run_room)
        row_resize(map, map->run_room + map->run_room / 8 + 1);
    run = &map->runs[index];
    upper = &map->runs[map->run_count++];
    *upper = (struct tagrun){ 0 };
    map->runs_size -= tagrun_size(run, width);
    tagrun_split(run, width, upper);
    map->runs_size += tagrun_size(run, width - 1) + tagrun_size(upper, width - 1);
}

/* Joins the last run to its twin. */
static void map_shrink(struct recordmap *map)
{
    uint32_t last = map->run_count - 1;
    unsigned width = run_width(map, last);
    struct tagrun *upper = &map->runs[last];
    struct tagrun *run;

    map->run_count--;
    run = &map->runs[map->run_count - (1u << level_of(map))];
    map->runs_size -= tagrun_size(run, width) + tagrun_size(upper, width);
    tagrun_join(run, width, upper);
    map->runs_size += tagrun_size(run, width + 1);
    if (map->run_count + map->run_count / 4 + 1 < map->run_room)
        row_resize(map, map->run_count + 1);
}

static void tag_add(struct recordmap *map, uint64_t tag)
{
    struct spot spot;
    struct tagrun *run;

    if (map->runs == NULL) {
        row_resize(map, 1);
        map->runs[0] = (struct tagrun){ 0 };
    }
    spot = spot_of(map, tag);
    run = &map->runs[spot.index];
    map->runs_size -= tagrun_size(run, spot.width);
    tagrun_add(run, spot.width, spot.number);
    map->runs_size += tagrun_size(run, spot.width);
    map->count++;
    if (map->count > (uint64_t)map->run_count * map->load && map->run_count < RUN_COUNT_MAX)
        map_grow(map);
}

struct recordmap *recordmap_create(uint8_t stagger)
{
    struct recordmap *map = mem_zalloc(sizeof(*map));

    map->run_count = 1;
    map->load = LOAD_MIN + LOAD_MIN * stagger / 256;    /* one doubling is spread over all staggers */
    return map;
}

void recordmap_destroy(struct recordmap *map)
{
    if (map == NULL)
        return;
    map_empty(map);
    mem_free(map);
}

void recordmap_add(struct recordmap *map, uint64_t hash)
{
    tag_add(map, tag_of(hash));
}

void recordmap_remove(struct recordmap *map, uint64_t hash)
{
    struct spot spot = spot_of(map, tag_of(hash));
    struct tagrun *run;
    bool removed;

    CHECK(map->runs != NULL);
    run = &map->runs[spot.index];
    map->runs_size -= tagrun_size(run, spot.width);
    removed = tagrun_remove(run, spot.width, spot.number);
    CHECK(removed);
    map->runs_size += tagrun_size(run, spot.width);
    map->count--;
    if (map->count == 0)
        map_empty(map);
    else if (map->run_count > 1 && map->count < (uint64_t)map->run_count * map->load / 2)
        map_shrink(map);
}

bool recordmap_maybe(const struct recordmap *map, uint64_t hash)
{
    struct spot spot;

    if (map->count == 0)
        return false;
    spot = spot_of(map, tag_of(hash));
    return tagrun_has(&map->runs[spot.index], spot.width, spot.number);
}

void recordmap_prefetch(const struct recordmap *map, uint64_t hash)
{
    struct spot spot;

    if (map->count == 0)
        return;
    spot = spot_of(map, tag_of(hash));
    tagrun_prefetch(&map->runs[spot.index], spot.width, spot.number);
}

uint64_t recordmap_count(const struct recordmap *map)
{
    return map->count;
}

size_t recordmap_size(const struct recordmap *map)
{
    size_t row_size = map->runs == NULL ? 0 : mem_size(map->runs);

    return mem_size(map) + row_size + map->runs_size;
}

/* --- saving --- */

static uint8_t *run_save(const struct recordmap *map, uint32_t index, uint64_t prefix, uint8_t *out)
{
    unsigned width = run_width(map, index);
    struct tagrun_cursor cursor;
    uint64_t number;
    uint64_t tag;

    tagrun_cursor_init(&cursor, &map->runs[index], width);
    while (tagrun_next(&cursor, &number)) {
        tag = prefix << width | number;
        for (int i = 0; i < RECORDMAP_TAG_SIZE; i++)
            *out++ = (uint8_t)(tag >> (8 * i));
    }
    return out;
}

void recordmap_save(const struct recordmap *map, uint8_t *out)
{
    unsigned level = level_of(map);
    uint32_t whole = 1u << level;
    uint32_t split = map->run_count - whole;
    uint32_t index;

    if (map->count == 0)
        return;
    for (uint32_t prefix = 0; prefix < whole; prefix++) {
        index = level == 0 ? 0 : bits_reversed(prefix) >> (32 - level);
        if (index < split) {
            out = run_save(map, index, (uint64_t)prefix * 2, out);
            out = run_save(map, index + whole, (uint64_t)prefix * 2 + 1, out);
        } else {
            out = run_save(map, index, prefix, out);
        }
    }
}

static uint64_t tag_load(const uint8_t *from)
{
    uint64_t tag = 0;

    for (int i = 0; i < RECORDMAP_TAG_SIZE; i++)
        tag |= (uint64_t)from[i] << (8 * i);
    return tag;
}

/* An empty map gets as many runs as it will need: then each is filled once and never split. */
static void map_presize(struct recordmap *map, uint64_t count)
{
    uint64_t runs = (count + map->load - 1) / map->load;

    CHECK(map->runs == NULL);
    if (runs > RUN_COUNT_MAX)
        runs = RUN_COUNT_MAX;
    row_resize(map, (uint32_t)runs);
    map->run_count = (uint32_t)runs;
    for (uint32_t i = 0; i < map->run_count; i++)
        map->runs[i] = (struct tagrun){ 0 };
}

/* Adds `count` ascending tags from the saved run to one empty tag run. */
static void run_load(struct recordmap *map, uint32_t index, const uint8_t *tags, uint32_t count)
{
    struct tagrun *run = &map->runs[index];
    unsigned width = run_width(map, index);

    tagrun_reserve(run, width, count);
    for (uint32_t i = 0; i < count; i++)
        tagrun_append(run, width, tag_load(tags + (size_t)i * RECORDMAP_TAG_SIZE) & ((1ull << width) - 1));
    map->runs_size += tagrun_size(run, width);
    map->count += count;
}

bool recordmap_load(struct recordmap *map, const uint8_t *tags, uint64_t count)
{
    uint64_t before = 0;
    uint64_t tag;

    for (uint64_t i = 0; i < count; i++) {
        tag = tag_load(tags + i * RECORDMAP_TAG_SIZE);
        if (tag < before || tag >> RECORDMAP_TAG_BITS != 0)
            return false;
        before = tag;
    }
    if (map->count > 0) {
        for (uint64_t i = 0; i < count; i++)
            tag_add(map, tag_load(tags + i * RECORDMAP_TAG_SIZE));
        return true;
    }
    if (count > 0)
        map_presize(map, count);
    for (uint64_t from = 0, end; from < count; from = end) {
        uint32_t index = spot_of(map, tag_load(tags + from * RECORDMAP_TAG_SIZE)).index;

        for (end = from + 1; end < count; end++)
            if (spot_of(map, tag_load(tags + end * RECORDMAP_TAG_SIZE)).index != index)
                break;
        CHECK(end - from <= UINT32_MAX);
        run_load(map, index, tags + from * RECORDMAP_TAG_SIZE, (uint32_t)(end - from));
    }
    return true;
}
