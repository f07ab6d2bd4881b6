/* Tag run: a sorted set of numbers below 2^width, each with a place, in about width - log2(count) + 2 bits each (Elias-Fano code)
 * and the bits of the largest place.
 *
 * The top 7 bits of a number, its quotient, are not stored but counted; the rest, its remainder, is stored as it is, beside the place.
 * A number costs its remainder, its place and one bit; a run costs another 128 bits, however many numbers it holds.
 *
 *   block = owner u32 | place bits: 6 bits | count: 26 bits | quotients: 128 + room bits | entries: room * (width - 7 + place bits) bits
 *   quotients = for each quotient in order: a 1 for each number that has it, then a 0
 *   entry = remainder: width - 7 bits | place; in the order of the numbers; room is count rounded up to a multiple of 8
 *
 * Best between 50 and 400 numbers; right with any count, but adding and removing move half of what is there.
 * The caller owns the block and keeps the width, 8 to 63, which must be the same in each call. An empty run is a
 * block with count 0; it needs no words at all as long as these functions are not called for it.
 */
#ifndef KELVIN_TIER_TAGRUN_H
#define KELVIN_TIER_TAGRUN_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TAGRUN_QUOTIENT_BITS = 7,
    TAGRUN_STEP = 8,                    /* only when the count passes a multiple of it, tagrun_words changes */
    TAGRUN_PLACE_BITS_MAX = 47,
    TAGRUN_COUNT_MAX = (1 << 26) - 1,
};

/* Words (of 8 bytes) that a run of `count` numbers needs; 0 for none. */
uint64_t tagrun_words(uint64_t count, unsigned width, unsigned place_bits);

static inline uint32_t tagrun_count(const uint64_t *block)
{
    return (uint32_t)(block[0] >> 38);
}

/* Bits of each place; none is larger than they hold. 0: all places are 0. */
static inline unsigned tagrun_place_bits(const uint64_t *block)
{
    return (unsigned)(block[0] >> 32) & 63;
}

/* The bits that a place needs. */
static inline unsigned tagrun_bits_of(uint64_t place)
{
    return place == 0 ? 0 : 64 - (unsigned)__builtin_clzll(place);
}

/* Whether the number is there, and its index; if it isn't, the index that it would get. */
bool tagrun_find(const uint64_t *block, unsigned width, uint64_t number, uint32_t *index);
uint64_t tagrun_place(const uint64_t *block, unsigned width, uint32_t index);
void tagrun_set_place(uint64_t *block, unsigned width, uint32_t index, uint64_t place);    /* which the place bits hold */

/* More place bits. The block has tagrun_words(count, width, place_bits) words already. */
void tagrun_widen(uint64_t *block, unsigned width, unsigned place_bits);

/* `index` is from tagrun_find. The block has tagrun_words(count + 1) words, and the place bits hold the place. */
void tagrun_add(uint64_t *block, unsigned width, uint32_t index, uint64_t number, uint64_t place);
/* The run needs no more than tagrun_words(count) words then. */
void tagrun_remove(uint64_t *block, unsigned width, uint32_t index, uint64_t number);

/* How many numbers are in the lower half of the range. */
uint32_t tagrun_count_lower(const uint64_t *block);

/* Asks the CPU for the lines that tagrun_find will probably read; `words` is what tagrun_words said. Reads nothing. */
void tagrun_prefetch(const uint64_t *block, uint64_t words, unsigned width, uint64_t number);

/* Writes a run from its first number to its last, all `count` of them; the owner's half of the first word stays. */
struct tagrun_writer {
    uint64_t *block;
    unsigned width;
    uint32_t index;         /* of the next number */
};
void tagrun_writer_init(struct tagrun_writer *writer, uint64_t *block, unsigned width, unsigned place_bits, uint32_t count);
void tagrun_write(struct tagrun_writer *writer, uint64_t number, uint64_t place);   /* none before was larger */

/* Reads the numbers in ascending order. The run must not change meanwhile. */
struct tagrun_reader {
    const uint64_t *block;
    unsigned width;
    uint32_t index;         /* of the next number */
    uint64_t bit;           /* where to look for it among the quotients */
};
void tagrun_reader_init(struct tagrun_reader *reader, const uint64_t *block, unsigned width);
bool tagrun_read(struct tagrun_reader *reader, uint64_t *number, uint64_t *place);  /* false: that was all */
/* The next number is the first one that is not below `number`, or one before it with the same quotient. */
void tagrun_seek(struct tagrun_reader *reader, uint64_t number);

/* Whether these functions can be used on a block of `words` words that comes from a file: all that they read of it is in it. Whether numbers are in order is
 * not looked at. */
bool tagrun_is_sound(const uint64_t *block, uint64_t words, unsigned width);

#endif
