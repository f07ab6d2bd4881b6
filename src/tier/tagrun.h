/* Tag run: a sorted multiset of numbers below 2^width, in about width - log2(count) + 2 bits each (Elias-Fano code).
 *
 * The top 8 bits of a number, its quotient, are not stored but counted; the rest, its remainder, is stored as it is.
 * A number costs its remainder and one bit; a run costs another 256 bits, however many numbers it holds.
 *
 *   block = owner u32 | count u32 | quotients: 256 + room bits | remainders: room * (width - 8) bits
 *   quotients = for each quotient in order: a 1 for each number that has it, then a 0
 *   remainders = in the order of the numbers; room is count rounded up to a multiple of 8
 *
 * Best between 100 and 800 numbers; right with any count, but adding and removing move half of what is there.
 * The caller owns the block and keeps the width, 9 to 63, which must be the same in each call. An empty run is a
 * block with count 0; it needs no words at all as long as these functions are not called for it.
 */
#ifndef KELVIN_TIER_TAGRUN_H
#define KELVIN_TIER_TAGRUN_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TAGRUN_QUOTIENT_BITS = 8,
    TAGRUN_STEP = 8,            /* only when the count passes a multiple of it, tagrun_words changes */
};

/* Words (of 8 bytes) that a run of `count` numbers needs; 0 for none. */
uint64_t tagrun_words(uint64_t count, unsigned width);

static inline uint32_t tagrun_count(const uint64_t *block)
{
    return (uint32_t)(block[0] >> 32);
}

/* The block has tagrun_words(count + 1) words. */
void tagrun_add(uint64_t *block, unsigned width, uint64_t number);

/* Removes one of them; false: it isn't there. The run needs no more than tagrun_words(count) words then. */
bool tagrun_remove(uint64_t *block, unsigned width, uint64_t number);
bool tagrun_has(const uint64_t *block, unsigned width, uint64_t number);

/* How many numbers are in the lower half of the range. */
uint32_t tagrun_count_lower(const uint64_t *block, unsigned width);

/* Asks the CPU for the lines that tagrun_has will probably read; `words` is what tagrun_words said. */
void tagrun_prefetch(const uint64_t *block, uint64_t words, unsigned width, uint64_t number);

/* Writes a run from its first number to its last, all `count` of them; the owner's half of the first word stays. */
struct tagrun_writer {
    uint64_t *block;
    unsigned width;
    uint32_t index;         /* of the next number */
};
void tagrun_writer_init(struct tagrun_writer *writer, uint64_t *block, unsigned width, uint32_t count);
void tagrun_write(struct tagrun_writer *writer, uint64_t number);       /* none before was larger */

/* Reads the numbers in ascending order. The run must not change meanwhile. */
struct tagrun_reader {
    const uint64_t *block;
    unsigned width;
    uint32_t index;         /* of the next number */
    uint64_t bit;           /* where to look for it among the quotients */
};
void tagrun_reader_init(struct tagrun_reader *reader, const uint64_t *block, unsigned width);
bool tagrun_read(struct tagrun_reader *reader, uint64_t *number);       /* false: that was all */

#endif
