/* Shelf: many blocks of some hundred bytes up to two thousand, packed without gaps, for an owner whose blocks grow and shrink often.
 *
 * An allocator rounds such blocks up by a tenth, and keeps pages half empty that once were full of a size that
 * is not allocated any more (measured on the record map: RSS twice what was in use). Here blocks are side by side in
 * chunks of one size, and move aside when one of them changes.
 *
 * A block is known by its number; its address is good until the next shelf_resize. Blocks are numbered from 0 on like
 * a stack's: the last one is the one to drop. The low 32 bits of a block's first word are the shelf's (its number).
 *
 * Owner: the struct that embeds it. All zero is an empty shelf, which holds no memory.
 */
#ifndef KELVIN_TIER_SHELF_H
#define KELVIN_TIER_SHELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SHELF_OFFSET_BITS = 11,
    /* Three pages: the largest size that jemalloc serves without a page more (as it does from 16 KiB on) and without a
     * neighbour on the same pages, so that a chunk given back is really free. */
    SHELF_CHUNK_WORDS = 12288 / 8,
};

struct shelf_block {
    uint32_t place;         /* number of its chunk << SHELF_OFFSET_BITS | offset in words */
    uint32_t words;         /* 0: it is nowhere */
};

struct shelf_chunk {
    uint64_t *words;
    uint32_t used;          /* more than SHELF_CHUNK_WORDS only with a single block */
    uint32_t room;
};

struct shelf {
    struct shelf_block *blocks;
    struct shelf_chunk *chunks;
    uint64_t used;          /* words of all chunks */
    uint64_t room;
    uint32_t block_count;
    uint32_t block_room;
    uint32_t chunk_count;
    uint32_t chunk_room;
};

void shelf_release(struct shelf *shelf);            /* empty again */

/* One more block of no words, numbered block_count before. */
void shelf_push(struct shelf *shelf);
/* The last block goes; it has no words. */
void shelf_pop(struct shelf *shelf);

/* Grows the block at its end or cuts it there, and returns where it is now, NULL if it has no words. If it had
 * none, the upper half of its first word is 0; the other new words are not set. */
uint64_t *shelf_resize(struct shelf *shelf, uint32_t number, uint32_t words);

static inline uint64_t *shelf_at(const struct shelf *shelf, uint32_t number)
{
    uint32_t place = shelf->blocks[number].place;

    return shelf->chunks[place >> SHELF_OFFSET_BITS].words + (place & ((1u << SHELF_OFFSET_BITS) - 1));
}

static inline uint32_t shelf_words(const struct shelf *shelf, uint32_t number)
{
    return shelf->blocks[number].words;
}

/* Bytes held, allocator's rounding included. */
size_t shelf_size(const struct shelf *shelf);

/* An empty shelf gets back what another one had, chunk by chunk: its `count` blocks, then each chunk's words. If one of these returns false or
 * NULL, the words can't be those of a shelf: it is to be released. */
void shelf_load_blocks(struct shelf *shelf, uint32_t count);
/* Returns where the chunk's words are to be copied to; NULL: there are too many chunks. */
uint64_t *shelf_load_chunk(struct shelf *shelf, uint32_t used);
/* Finds the blocks of the last chunk, whose words are there now; `words` says how many each block has, by its number. */
bool shelf_load_places(struct shelf *shelf, const uint32_t *words);

#endif
