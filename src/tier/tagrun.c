#include "tier/tagrun.h"

#include <string.h>

#include "base/check.h"

enum {
    QUOTIENTS = 1 << TAGRUN_QUOTIENT_BITS,
    QUOTIENTS_AT = 64,          /* the bit where they begin */
    SEARCH_LINEAR = 8,          /* numbers of one quotient that are not worth halving */
};

/* --- bits --- */

static inline uint64_t mask_of(unsigned bits)
{
    return bits >= 64 ? ~0ull : (1ull << bits) - 1;
}

/* How many ones each byte has, in that byte. Plain arithmetic: the builtin is a slow table without -mpopcnt. */
static inline uint64_t ones_by_byte(uint64_t word)
{
    word -= (word >> 1) & 0x5555555555555555ull;
    word = (word & 0x3333333333333333ull) + ((word >> 2) & 0x3333333333333333ull);
    return (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0full;
}

static inline unsigned ones_in(uint64_t word)
{
    return (unsigned)((ones_by_byte(word) * 0x0101010101010101ull) >> 56);
}

/* Where the one number `index` (from 0) of the word is; there are more than `index`. */
static inline unsigned one_at(uint64_t word, unsigned index)
{
    uint64_t sums = ones_by_byte(word) * 0x0101010101010101ull;         /* ones up to and in each byte */
    uint64_t past = ((sums | 0x8080808080808080ull) - (index + 1) * 0x0101010101010101ull) & 0x8080808080808080ull;
    unsigned shift = (unsigned)__builtin_ctzll(past) & ~7u;             /* the first byte that gets beyond index */
    uint64_t byte = (word >> shift) & 0xff;

    for (index -= (unsigned)(((sums << 8) >> shift) & 0xff); index > 0; index--)
        byte &= byte - 1;
    return shift + (unsigned)__builtin_ctzll(byte);
}

static inline uint64_t bits_get(const uint64_t *words, uint64_t at, unsigned size)
{
    const uint64_t *word = words + at / 64;
    unsigned shift = at % 64;
    uint64_t value = *word >> shift;

    if (shift + size > 64)
        value |= word[1] << (64 - shift);
    return value & mask_of(size);
}

static inline void bits_put(uint64_t *words, uint64_t at, unsigned size, uint64_t value)
{
    uint64_t *word = words + at / 64;
    unsigned shift = at % 64;

    *word = (*word & ~(mask_of(size) << shift)) | (value << shift);
    if (shift + size > 64) {
        word[1] &= ~(mask_of(size) >> (64 - shift));
        word[1] |= value >> (64 - shift);
    }
}

/* Moves the bits at .. end - 1 up by `size` (1 .. 63) and puts `value` in the gap. Those from end + size on stay. */
static void bits_insert(uint64_t *words, uint64_t at, uint64_t end, unsigned size, uint64_t value)
{
    uint64_t first = at / 64;
    uint64_t last = (end + size - 1) / 64;
    uint64_t below = mask_of(at % 64);
    uint64_t above = ~mask_of((end + size - 1) % 64 + 1);
    uint64_t low = words[first] & below;
    uint64_t high = words[last] & above;

    words[first] &= ~below;
    for (uint64_t i = last; i > first; i--)
        words[i] = (words[i] << size) | (words[i - 1] >> (64 - size));
    words[first] = (words[first] << size) | low;
    words[last] = (words[last] & ~above) | high;
    bits_put(words, at, size, value);
}

/* Takes the bits at .. at + size - 1 out, moves those up to end - 1 down, fills with zeros up to there. */
static void bits_remove(uint64_t *words, uint64_t at, uint64_t end, unsigned size)
{
    uint64_t first = at / 64;
    uint64_t last = (end - 1) / 64;
    uint64_t below = mask_of(at % 64);
    uint64_t above = ~mask_of((end - 1) % 64 + 1);
    uint64_t low = words[first] & below;
    uint64_t high = words[last] & above;

    words[last] &= ~above;
    for (uint64_t i = first; i < last; i++)
        words[i] = (words[i] >> size) | (words[i + 1] << (64 - size));
    words[last] >>= size;
    words[first] = (words[first] & ~below) | low;
    words[last] |= high;
}

/* --- places in the block --- */

static inline uint64_t room_of(uint64_t count)
{
    return (count + TAGRUN_STEP - 1) / TAGRUN_STEP * TAGRUN_STEP;
}

/* The bit where remainder `index` of a run of `count` numbers is. */
static inline uint64_t remainder_at(uint64_t count, unsigned rest, uint64_t index)
{
    return QUOTIENTS_AT + QUOTIENTS + room_of(count) + index * rest;
}

static inline void count_set(uint64_t *block, uint32_t count)
{
    block[0] = (uint32_t)block[0] | (uint64_t)count << 32;
}

/* The numbers that have one quotient. */
struct place {
    uint32_t index;         /* of the first */
    uint32_t count;
};

static struct place place_of(const uint64_t *block, unsigned quotient)
{
    const uint64_t *word = block + QUOTIENTS_AT / 64;
    unsigned zeros_left = quotient;
    uint64_t at = QUOTIENTS_AT;
    uint64_t end;
    unsigned zeros;

    if (quotient > 0) {
        while ((zeros = 64 - ones_in(*word)) < zeros_left) {
            zeros_left -= zeros;
            word++;
        }
        at = (uint64_t)(word - block) * 64 + one_at(~*word, zeros_left - 1) + 1;
    }
    /* The ones from here to the next 0 are this quotient's; every quotient ends with a 0, the last one too. */
    word = block + at / 64;
    end = ~*word & ~mask_of(at % 64);
    while (end == 0)
        end = ~*++word;
    end = (uint64_t)(word - block) * 64 + (unsigned)__builtin_ctzll(end);
    return (struct place){ (uint32_t)(at - QUOTIENTS_AT - quotient), (uint32_t)(end - at) };
}

/* The index of the first of the place's remainders that is not below `remainder`, or the place's end. */
static uint32_t place_search(const uint64_t *block, unsigned rest, struct place place, uint64_t remainder)
{
    uint32_t count = tagrun_count(block);
    uint32_t from = place.index;
    uint32_t end = place.index + place.count;

    while (end - from > SEARCH_LINEAR) {
        uint32_t middle = from + (end - from) / 2;

        if (bits_get(block, remainder_at(count, rest, middle), rest) < remainder)
            from = middle + 1;
        else
            end = middle;
    }
    while (from < end && bits_get(block, remainder_at(count, rest, from), rest) < remainder)
        from++;
    return from;
}

static bool place_has(const uint64_t *block, unsigned rest, struct place place, uint32_t index, uint64_t remainder)
{
    return index < place.index + place.count &&
           bits_get(block, remainder_at(tagrun_count(block), rest, index), rest) == remainder;
}

/* --- public --- */

uint64_t tagrun_words(uint64_t count, unsigned width)
{
    unsigned rest = width - TAGRUN_QUOTIENT_BITS;

    return count == 0 ? 0 : (remainder_at(count, rest, room_of(count)) + 63) / 64;
}

void tagrun_add(uint64_t *block, unsigned width, uint64_t number)
{
    unsigned rest = width - TAGRUN_QUOTIENT_BITS;
    unsigned quotient = (unsigned)(number >> rest);
    uint64_t remainder = number & mask_of(rest);
    uint32_t count = tagrun_count(block);
    uint32_t index = 0;

    CHECK(count < UINT32_MAX - TAGRUN_STEP);
    if (count == 0) {
        memset(block + QUOTIENTS_AT / 64, 0, (QUOTIENTS + TAGRUN_STEP + 63) / 64 * sizeof(*block));
    } else {
        index = place_search(block, rest, place_of(block, quotient), remainder);
        if (count % TAGRUN_STEP == 0)
            bits_insert(block, remainder_at(count, rest, 0), remainder_at(count, rest, count), TAGRUN_STEP, 0);
    }
    bits_insert(block, QUOTIENTS_AT + (uint64_t)quotient + index, QUOTIENTS_AT + QUOTIENTS + (uint64_t)count, 1, 1);
    count_set(block, count + 1);
    bits_insert(block, remainder_at(count + 1, rest, index), remainder_at(count + 1, rest, count), rest, remainder);
}

bool tagrun_remove(uint64_t *block, unsigned width, uint64_t number)
{
    unsigned rest = width - TAGRUN_QUOTIENT_BITS;
    unsigned quotient = (unsigned)(number >> rest);
    uint64_t remainder = number & mask_of(rest);
    uint32_t count = tagrun_count(block);
    struct place place;
    uint32_t index;

    if (count == 0)
        return false;
    place = place_of(block, quotient);
    index = place_search(block, rest, place, remainder);
    if (!place_has(block, rest, place, index, remainder))
        return false;
    bits_remove(block, remainder_at(count, rest, index), remainder_at(count, rest, count), rest);
    bits_remove(block, QUOTIENTS_AT + (uint64_t)quotient + index, QUOTIENTS_AT + QUOTIENTS + (uint64_t)count, 1);
    count_set(block, --count);
    if (count % TAGRUN_STEP == 0)
        bits_remove(block, remainder_at(count, rest, 0), remainder_at(count + 1, rest, count), TAGRUN_STEP);
    return true;
}

bool tagrun_has(const uint64_t *block, unsigned width, uint64_t number)
{
    unsigned rest = width - TAGRUN_QUOTIENT_BITS;
    uint64_t remainder = number & mask_of(rest);
    struct place place;

    if (tagrun_count(block) == 0)
        return false;
    place = place_of(block, (unsigned)(number >> rest));
    return place_has(block, rest, place, place_search(block, rest, place, remainder), remainder);
}

uint32_t tagrun_count_lower(const uint64_t *block, unsigned width)
{
    return tagrun_count(block) == 0 ? 0 : place_of(block, QUOTIENTS / 2).index;
}

void tagrun_prefetch(const uint64_t *block, uint64_t words, unsigned width, uint64_t number)
{
    unsigned rest = width - TAGRUN_QUOTIENT_BITS;
    uint64_t quotient = number >> rest;
    uint64_t count;
    uint64_t index;

    if (words == 0)
        return;
    /* The count itself is in the block, which is not in the cache yet. Numbers are spread evenly. */
    count = (words * 64 - QUOTIENTS_AT - QUOTIENTS) / (rest + 1);
    index = quotient * count / QUOTIENTS;
    __builtin_prefetch(block);
    __builtin_prefetch(block + (QUOTIENTS_AT + quotient + index) / 64);
    __builtin_prefetch(block + remainder_at(count, rest, index) / 64);
}

void tagrun_writer_init(struct tagrun_writer *writer, uint64_t *block, unsigned width, uint32_t count)
{
    count_set(block, count);
    if (count > 0)
        memset(block + QUOTIENTS_AT / 64, 0, (QUOTIENTS + room_of(count) + 63) / 64 * sizeof(*block));
    *writer = (struct tagrun_writer){ .block = block, .width = width };
}

void tagrun_write(struct tagrun_writer *writer, uint64_t number)
{
    unsigned rest = writer->width - TAGRUN_QUOTIENT_BITS;
    uint32_t count = tagrun_count(writer->block);
    uint64_t at = QUOTIENTS_AT + (number >> rest) + writer->index;

    CHECK(writer->index < count);
    writer->block[at / 64] |= 1ull << at % 64;
    bits_put(writer->block, remainder_at(count, rest, writer->index), rest, number & mask_of(rest));
    writer->index++;
}

void tagrun_reader_init(struct tagrun_reader *reader, const uint64_t *block, unsigned width)
{
    *reader = (struct tagrun_reader){ .block = block, .width = width, .bit = QUOTIENTS_AT };
}

bool tagrun_read(struct tagrun_reader *reader, uint64_t *number)
{
    unsigned rest = reader->width - TAGRUN_QUOTIENT_BITS;
    uint32_t count = tagrun_count(reader->block);
    const uint64_t *word;
    uint64_t ones;

    if (reader->index == count)
        return false;
    word = reader->block + reader->bit / 64;
    ones = *word & ~mask_of(reader->bit % 64);
    while (ones == 0)
        ones = *++word;
    reader->bit = (uint64_t)(word - reader->block) * 64 + (unsigned)__builtin_ctzll(ones);
    *number = (reader->bit - QUOTIENTS_AT - reader->index) << rest |
              bits_get(reader->block, remainder_at(count, rest, reader->index), rest);
    reader->bit++;
    reader->index++;
    return true;
}
