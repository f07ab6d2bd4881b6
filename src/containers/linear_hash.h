/* Linear hashing (Litwin, "Linear hashing: a new tool for file and table addressing", 1980): which of N places a hash belongs to, for any N.
 *
 * With N places, 2^L <= N < 2^(L+1), a hash belongs to the place numbered by its low L + 1 bits if that exists, otherwise to the one numbered by its low L bits.
 * To grow, place N is appended and what belongs to it is moved there from its *other half*, place N - 2^L; to shrink, this is undone.
 *
 * Scanning: in the order of the bit-reversed hash a place is an interval for every N; splitting and merging only move borders. A cursor is a position in that
 * order, so what stays is found, however N changes meanwhile, and the cursor means the same for whatever is hashed like that.
 */
#ifndef KELVIN_CONTAINERS_LINEAR_HASH_H
#define KELVIN_CONTAINERS_LINEAR_HASH_H

#include <stddef.h>
#include <stdint.h>

static inline unsigned linear_hash_level(size_t count)
{
    return 63 - (unsigned)__builtin_clzll(count);
}

static inline size_t linear_hash_index(size_t count, uint64_t hash)
{
    size_t half = (size_t)1 << linear_hash_level(count);
    size_t index = hash & (2 * half - 1);

    return index < count ? index : index - half;
}

/* The other half of the last of `count` places, at least two. */
static inline size_t linear_hash_other_half(size_t count)
{
    return count - 1 - ((size_t)1 << linear_hash_level(count - 1));
}

static inline uint64_t linear_hash_bits_reversed(uint64_t word)
{
    word = (word >> 1 & 0x5555555555555555ull) | (word & 0x5555555555555555ull) << 1;
    word = (word >> 2 & 0x3333333333333333ull) | (word & 0x3333333333333333ull) << 2;
    word = (word >> 4 & 0x0f0f0f0f0f0f0f0full) | (word & 0x0f0f0f0f0f0f0f0full) << 4;
    return __builtin_bswap64(word);
}

/* The cursor after place `index`, whose interval contains `cursor`; 0 if that was the last one.
 *
 * In the reversed order, splitting divides a place's interval into two adjacent ones, merging joins them. The cursor is the position (reversed again) up to
 * which everything was found. The interval that contains it is read, part of it a second time after a merge, and the next cursor is the end of the interval. */
static inline uint64_t linear_hash_cursor_after(size_t count, size_t index, uint64_t cursor)
{
    unsigned level = linear_hash_level(count);
    size_t half = (size_t)1 << level;
    unsigned shared_bits = index >= half || index + half < count ? level + 1 : level;      /* low bits that are the same for the whole place */

    cursor |= UINT64_MAX << shared_bits;
    return linear_hash_bits_reversed(linear_hash_bits_reversed(cursor) + 1);
}

#endif
