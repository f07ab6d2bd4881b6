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
#include "tier/recordmap_private.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

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

void recordmap_rewrite(struct recordmap *map, uint32_t index, uint64_t count, unsigned place_bits, struct tagrun_writer *writer)
{
    unsigned width = recordmap_run_width(map, index);
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
static void split_run(struct recordmap *map)
{
    uint32_t upper = map->shelf.block_count;
    uint32_t lower = upper - (1u << recordmap_level(map));
    unsigned width = recordmap_run_width(map, lower);
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
    recordmap_rewrite(map, lower, below, bits_ahead(reader, below), &writer);
    copy_numbers(&reader, below, mask, 0, &writer);
    recordmap_rewrite(map, upper, above, bits_ahead(reader, above), &writer);
    copy_numbers(&reader, above, mask, 0, &writer);
    mem_free(copy);
}

/* Joins the last run to its partner. */
static void join_runs(struct recordmap *map)
{
    uint32_t upper = map->shelf.block_count - 1;
    uint32_t lower;
    unsigned width = recordmap_run_width(map, upper), bits = 0;
    uint64_t *upper_copy = run_copy(map, upper);
    uint64_t *lower_copy;
    uint64_t below = 0, above = 0;
    struct tagrun_reader lower_reader, upper_reader;
    struct tagrun_writer writer;

    shelf_resize(&map->shelf, upper, 0);
    shelf_pop(&map->shelf);
    lower = upper - (1u << recordmap_level(map));
    lower_copy = run_copy(map, lower);
    if (lower_copy != NULL) {
        below = tagrun_count(lower_copy);
        tagrun_reader_init(&lower_reader, lower_copy, width);
        bits = bits_ahead(lower_reader, below);
    }
    if (upper_copy != NULL) {
        unsigned upper_bits;

        above = tagrun_count(upper_copy);
        tagrun_reader_init(&upper_reader, upper_copy, width);
        upper_bits = bits_ahead(upper_reader, above);
        bits = upper_bits > bits ? upper_bits : bits;
    }
    recordmap_rewrite(map, lower, below + above, bits, &writer);
    if (below > 0)
        copy_numbers(&lower_reader, below, UINT64_MAX, 0, &writer);
    if (above > 0)
        copy_numbers(&upper_reader, above, UINT64_MAX, 1ull << width, &writer);
    mem_free(lower_copy);
    mem_free(upper_copy);
}

void recordmap_grow(struct recordmap *map)
{
    while (map->count > (uint64_t)map->shelf.block_count * map->load && map->shelf.block_count < RUN_COUNT_MAX)
        split_run(map);
}

void recordmap_shrink(struct recordmap *map)
{
    if (map->shelf.block_count > 1 && map->count < (uint64_t)map->shelf.block_count * map->load / 2)
        join_runs(map);
}
