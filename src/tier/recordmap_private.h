/* The row of runs, for the files of recordmap: where in it a tag is, and how it grows and shrinks. recordmap_runs.c says why it is so. */
#ifndef KELVIN_TIER_RECORDMAP_PRIVATE_H
#define KELVIN_TIER_RECORDMAP_PRIVATE_H

#include "tier/recordmap.h"
#include "tier/recordmap_changes.h"
#include "tier/shelf.h"
#include "tier/tagrun.h"
#include "tier/twins.h"

enum { RUN_COUNT_MAX = 1 << 24 };       /* so that a run's tags keep some bits of their own */

struct recordmap {
    struct shelf shelf;         /* a block a run; none at all while the map is empty */
    struct twins twins;         /* each tag in it is in a run, too */
    uint64_t count;             /* tags in all runs: primaries */
    uint64_t nowhere_count;     /* records at PLACE_NOWHERE */
    uint32_t load;              /* tags a run on average; differs by stagger */
    uint32_t place_bits;        /* the largest of all runs */
    uint32_t tag_shift;
    struct recordmap_watch *watch;      /* recordmap_changes.c; NULL: it is not watched */
};

struct recordmap_watch {
    struct recordmap_base base;
    uint64_t changed_count;     /* bits that are set */
    unsigned range_bits;
    uint64_t changed[];         /* a bit for each 2^range_bits tags */
};

/* A record with the tag was added, moved or removed. */
static inline void recordmap_note(struct recordmap *map, uint64_t tag)
{
    struct recordmap_watch *watch = map->watch;
    uint64_t range, bit;

    if (watch == NULL)
        return;
    range = tag >> watch->range_bits;
    bit = 1ull << range % 64;
    watch->changed_count += (watch->changed[range / 64] & bit) == 0;
    watch->changed[range / 64] |= bit;
}

bool recordmap_has_tag(const struct recordmap *map, uint64_t tag);

/* Where a tag is. */
struct spot {
    uint32_t index;
    unsigned width;             /* bits of the tag after those that chose the run */
    uint64_t number;            /* these bits */
};

static inline uint32_t recordmap_bits_reversed(uint32_t bits)
{
    bits = (bits >> 1 & 0x55555555u) | (bits & 0x55555555u) << 1;
    bits = (bits >> 2 & 0x33333333u) | (bits & 0x33333333u) << 2;
    bits = (bits >> 4 & 0x0f0f0f0fu) | (bits & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(bits);
}

/* The d of 2^d + s runs; there is one. */
static inline unsigned recordmap_level(const struct recordmap *map)
{
    return 31 - (unsigned)__builtin_clz(map->shelf.block_count);
}

static inline unsigned recordmap_run_width(const struct recordmap *map, uint32_t index)
{
    unsigned level = recordmap_level(map);
    uint32_t split = map->shelf.block_count - (1u << level);
    unsigned depth = (index & ((1u << level) - 1)) < split ? level + 1 : level;

    return RECORDMAP_TAG_BITS - depth;
}

static inline struct spot recordmap_spot(const struct recordmap *map, uint64_t tag)
{
    uint32_t backwards = recordmap_bits_reversed((uint32_t)(tag >> (RECORDMAP_TAG_BITS - 32)));
    unsigned level = recordmap_level(map);
    struct spot spot;

    spot.index = backwards & ((2u << level) - 1);
    if (spot.index >= map->shelf.block_count)
        spot.index &= (1u << level) - 1;
    spot.width = recordmap_run_width(map, spot.index);
    spot.number = tag & ((1ull << spot.width) - 1);
    return spot;
}

/* Makes space for a run that is written again. The writer is not set if the run is empty. */
void recordmap_rewrite(struct recordmap *map, uint32_t index, uint64_t count, unsigned place_bits, struct tagrun_writer *writer);

/* Splits or joins runs if there are too many or too few tags for them. One step is enough after one add or remove; more if the map was loaded.
 * Not for a map without tags. */
void recordmap_grow(struct recordmap *map);
void recordmap_shrink(struct recordmap *map);

#endif
