/* Tag run: a sorted multiset of numbers below 2^width, in about width - log2(count) + 2 bits each (Elias-Fano code).
 *
 * The top 8 bits of a number, its quotient, are not stored but counted; the rest, its remainder, is stored as it is.
 * A number costs its remainder and one bit; a run costs another 256 bits, however many numbers it holds.
 *
 *   words = quotients: (256 + room) bits | remainders: room * (width - 8) bits       (each rounded up to whole words)
 *   quotients = for each quotient in order: a 1 for each number that has it, then a 0
 *   remainders = in the order of the numbers
 *
 * Best between 100 and 800 numbers; right with any count, but adding and removing move half of what is there.
 * Owner: whoever embeds it. The owner also keeps the width, 9 to 63, and hands in the same one each time.
 */
#ifndef KELVIN_TIER_TAGRUN_H
#define KELVIN_TIER_TAGRUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TAGRUN_QUOTIENT_BITS = 8 };

/* All zero is an empty run, which holds no memory. */
struct tagrun {
    uint64_t *words;
    uint32_t count;
    uint32_t room;      /* numbers that `words` has space for */
};

void tagrun_release(struct tagrun *run);            /* empty again */

void tagrun_add(struct tagrun *run, unsigned width, uint64_t number);
bool tagrun_remove(struct tagrun *run, unsigned width, uint64_t number);        /* one of them; false: not there */
bool tagrun_has(const struct tagrun *run, unsigned width, uint64_t number);

/* Asks the CPU for the lines that tagrun_has will probably read. */
void tagrun_prefetch(const struct tagrun *run, unsigned width, uint64_t number);

/* Space for `count` numbers in all, so that tagrun_append needs no memory. */
void tagrun_reserve(struct tagrun *run, unsigned width, uint32_t count);

/* Quicker than tagrun_add; no number in the run is larger than this one. */
void tagrun_append(struct tagrun *run, unsigned width, uint64_t number);

/* Moves the upper half of the numbers' range to `upper`, which is empty. Both have width - 1 afterwards. */
void tagrun_split(struct tagrun *run, unsigned width, struct tagrun *upper);

/* Undoes tagrun_split: both have `width` before, `run` has width + 1 afterwards and `upper` is empty. */
void tagrun_join(struct tagrun *run, unsigned width, struct tagrun *upper);

/* Reads the numbers in ascending order. The run must not change meanwhile. */
struct tagrun_cursor {
    const struct tagrun *run;
    unsigned width;
    uint32_t index;         /* of the next number */
    uint64_t bit;           /* where to look for it among the quotients */
};
void tagrun_cursor_init(struct tagrun_cursor *cursor, const struct tagrun *run, unsigned width);
bool tagrun_next(struct tagrun_cursor *cursor, uint64_t *number);               /* false: that was all */

/* Bytes that `words` holds, allocator's rounding included. */
size_t tagrun_size(const struct tagrun *run, unsigned width);

#endif
