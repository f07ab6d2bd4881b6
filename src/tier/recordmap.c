/* A growing row of tag runs (tier/tagrun.h), each with the tags that begin with the same bits: linear hashing
 * (Litwin 1980) over Elias-Fano coded buckets, which are packed on a shelf (tier/shelf.h).
 *
 *   tag = first `depth` bits: which run | 8 bits: counted, not stored | the rest: stored
 *
 * With 2^d + s runs, the first s of the 2^d have been split in two. Run number = the first bits of the tag read
 * backwards, so that splitting always adds one run at the end and the row never has to be spread out:
 *
 *   run i < s and its twin i + 2^d: d + 1 bits deep; the other runs: d bits deep
 *
 * Why so, and not cache-line buckets with whole tags: a bucket has to be part empty or overflow, and its
 * position repeats bits of the tag. Here the place replaces all bits but 16 or so, a run is as long as its tags
 * need, and nothing overflows. Whatever the size, a tag costs 34 - log2(count) + 2 bits, and a run 20 bytes:
 * the larger a map, the less a tag, without the saw tooth of tables that double. What is given up: an absent key costs
 * the row's entry and two or three lines of a run instead of one line; recordmap_prefetch hides it. An add or a
 * remove moves some hundred bytes of its run, and every eighth one half a chunk of the shelf.
 *
 * A step of growth splits one run of some hundred tags; that is the longest that one add takes, but for the copy of
 * the row, 8 bytes a run, when it gets too short. What is removed comes back in the same steps: runs
 * shrink with their tags, and the last run is joined to its twin when runs are half empty on average.
 * If all tags begin with the same bits (a keyed hash prevents it) one run takes them all, at the same price in memory, but each
 * add and remove moves half of it.
 */
#include "tier/recordmap.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "tier/shelf.h"
#include "tier/tagrun.h"

enum {
    LOAD_MIN = 192,             /* tags a run on average before another run is added, for stagger 0 */
    RUN_COUNT_MAX = 1 << 24,    /* so that a run's tags keep some bits of their own */
};

struct recordmap {
    struct shelf shelf;         /* a block a run; none at all while the map is empty */
    uint64_t count;             /* tags in all runs */
    uint32_t load;              /* tags a run on average; differs by stagger */
};

/* Where a tag is. */
struct spot {
    uint32_t index;
    unsigned width;             /* bits of the tag after those that chose the run */
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
static void run_rewrite(struct recordmap *map, uint32_t index, uint64_t count, struct tagrun_writer *writer)
{
    unsigned width = run_width(map, index);
    uint64_t words = tagrun_words(count, width);
    uint64_t *block;

    CHECK(words <= UINT32_MAX);
    block = shelf_resize(&map->shelf, index, (uint32_t)words);
    if (block != NULL)
        tagrun_writer_init(writer, block, width, (uint32_t)count);
}

/* Splits the first run that is not split yet. */
static void map_grow(struct recordmap *map)
{
    uint32_t upper = map->shelf.block_count;
    uint32_t lower = upper - (1u << level_of(map));
    unsigned width = run_width(map, lower);
    uint64_t *copy = run_copy(map, lower);
    struct tagrun_writer writer;
    struct tagrun_reader reader;
    uint32_t below;
    uint64_t number;

    shelf_push(&map->shelf);
    if (copy == NULL)
        return;
    below = tagrun_count_lower(copy, width);
    tagrun_reader_init(&reader, copy, width);
    run_rewrite(map, lower, below, &writer);
    for (uint32_t i = 0; i < below && tagrun_read(&reader, &number); i++)
        tagrun_write(&writer, number);
    run_rewrite(map, upper, tagrun_count(copy) - below, &writer);
    while (tagrun_read(&reader, &number))
        tagrun_write(&writer, number & ((1ull << (width - 1)) - 1));
    mem_free(copy);
}

/* Joins the last run to its twin. */
static void map_shrink(struct recordmap *map)
{
    uint32_t upper = map->shelf.block_count - 1;
    unsigned width = run_width(map, upper);
    uint64_t *upper_copy = run_copy(map, upper);
    uint64_t *lower_copy;
    uint32_t lower;
    uint64_t count = 0;
    struct tagrun_writer writer;
    struct tagrun_reader reader;
    uint64_t number;

    shelf_resize(&map->shelf, upper, 0);
    shelf_pop(&map->shelf);
    lower = upper - (1u << level_of(map));
    lower_copy = run_copy(map, lower);
    if (lower_copy != NULL)
        count += tagrun_count(lower_copy);
    if (upper_copy != NULL)
        count += tagrun_count(upper_copy);
    run_rewrite(map, lower, count, &writer);
    if (lower_copy != NULL)
        for (tagrun_reader_init(&reader, lower_copy, width); tagrun_read(&reader, &number); )
            tagrun_write(&writer, number);
    if (upper_copy != NULL)
        for (tagrun_reader_init(&reader, upper_copy, width); tagrun_read(&reader, &number); )
            tagrun_write(&writer, number | 1ull << width);
    mem_free(lower_copy);
    mem_free(upper_copy);
}

static void tag_add(struct recordmap *map, uint64_t tag)
{
    struct spot spot;
    uint64_t *block = NULL;
    uint32_t count = 0;
    uint64_t words;

    if (map->shelf.block_count == 0)
        shelf_push(&map->shelf);
    spot = spot_of(map, tag);
    if (shelf_words(&map->shelf, spot.index) > 0) {
        block = shelf_at(&map->shelf, spot.index);
        count = tagrun_count(block);
    }
    if (count % TAGRUN_STEP == 0) {
        words = tagrun_words((uint64_t)count + 1, spot.width);
        CHECK(words <= UINT32_MAX);
        block = shelf_resize(&map->shelf, spot.index, (uint32_t)words);
    }
    tagrun_add(block, spot.width, spot.number);
    map->count++;
    if (map->count > (uint64_t)map->shelf.block_count * map->load && map->shelf.block_count < RUN_COUNT_MAX)
        map_grow(map);
}

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
    mem_free(map);
}

void recordmap_add(struct recordmap *map, uint64_t hash)
{
    tag_add(map, tag_of(hash));
}

void recordmap_remove(struct recordmap *map, uint64_t hash)
{
    struct spot spot;
    uint64_t *block;
    bool removed;
    uint32_t count;

    CHECK(map->count > 0);
    spot = spot_of(map, tag_of(hash));
    CHECK(shelf_words(&map->shelf, spot.index) > 0);
    block = shelf_at(&map->shelf, spot.index);
    removed = tagrun_remove(block, spot.width, spot.number);
    CHECK(removed);
    count = tagrun_count(block);
    if (count % TAGRUN_STEP == 0)
        shelf_resize(&map->shelf, spot.index, (uint32_t)tagrun_words(count, spot.width));
    map->count--;
    if (map->count == 0)
        shelf_release(&map->shelf);
    else if (map->shelf.block_count > 1 && map->count < (uint64_t)map->shelf.block_count * map->load / 2)
        map_shrink(map);
}

bool recordmap_maybe(const struct recordmap *map, uint64_t hash)
{
    struct spot spot;

    if (map->count == 0)
        return false;
    spot = spot_of(map, tag_of(hash));
    return shelf_words(&map->shelf, spot.index) > 0 &&
           tagrun_has(shelf_at(&map->shelf, spot.index), spot.width, spot.number);
}

void recordmap_prefetch(const struct recordmap *map, uint64_t hash)
{
    struct spot spot;
    uint32_t words;

    if (map->count == 0)
        return;
    spot = spot_of(map, tag_of(hash));
    words = shelf_words(&map->shelf, spot.index);
    if (words > 0)
        tagrun_prefetch(shelf_at(&map->shelf, spot.index), words, spot.width, spot.number);
}

uint64_t recordmap_count(const struct recordmap *map)
{
    return map->count;
}

size_t recordmap_size(const struct recordmap *map)
{
    return mem_size(map) + shelf_size(&map->shelf);
}

/* --- saving --- */

static uint8_t *run_save(const struct recordmap *map, uint32_t index, uint64_t prefix, uint8_t *out)
{
    unsigned width = run_width(map, index);
    struct tagrun_reader reader;
    uint64_t number;
    uint64_t tag;

    if (shelf_words(&map->shelf, index) == 0)
        return out;
    tagrun_reader_init(&reader, shelf_at(&map->shelf, index), width);
    while (tagrun_read(&reader, &number)) {
        tag = prefix << width | number;
        for (int i = 0; i < RECORDMAP_TAG_SIZE; i++)
            *out++ = (uint8_t)(tag >> (8 * i));
    }
    return out;
}

void recordmap_save(const struct recordmap *map, uint8_t *out)
{
    unsigned level;
    uint32_t whole;
    uint32_t index;

    if (map->count == 0)
        return;
    level = level_of(map);
    whole = 1u << level;
    for (uint32_t prefix = 0; prefix < whole; prefix++) {
        index = level == 0 ? 0 : bits_reversed(prefix) >> (32 - level);
        if (index + whole < map->shelf.block_count) {
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

/* Adds `count` ascending tags from the saved ones to a run, which is empty. */
static void run_load(struct recordmap *map, uint32_t index, const uint8_t *tags, uint64_t count)
{
    unsigned width = run_width(map, index);
    struct tagrun_writer writer;

    run_rewrite(map, index, count, &writer);
    for (uint64_t i = 0; i < count; i++)
        tagrun_write(&writer, tag_load(tags + i * RECORDMAP_TAG_SIZE) & ((1ull << width) - 1));
    map->count += count;
}

/* An empty map gets as many runs as it will need: then each is written once and never split. */
static void map_load(struct recordmap *map, const uint8_t *tags, uint64_t count)
{
    uint64_t run_count = (count + map->load - 1) / map->load;
    uint64_t end;

    for (uint64_t i = 0; i < run_count && i < RUN_COUNT_MAX; i++)
        shelf_push(&map->shelf);
    for (uint64_t from = 0; from < count; from = end) {
        uint32_t index = spot_of(map, tag_load(tags + from * RECORDMAP_TAG_SIZE)).index;

        for (end = from + 1; end < count; end++)
            if (spot_of(map, tag_load(tags + end * RECORDMAP_TAG_SIZE)).index != index)
                break;
        run_load(map, index, tags + from * RECORDMAP_TAG_SIZE, end - from);
    }
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
    if (map->count == 0)
        map_load(map, tags, count);
    else
        for (uint64_t i = 0; i < count; i++)
            tag_add(map, tag_load(tags + i * RECORDMAP_TAG_SIZE));
    return true;
}
