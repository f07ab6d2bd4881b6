#include "tier/tagrun.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

enum {
    QUOTIENTS = 1 << TAGRUN_QUOTIENT_BITS,
    SEARCH_LINEAR = 8,      /* numbers of one quotient that are not worth halving */
};

/* --- bits --- */

static inline uint64_t mask_of(unsigned bits)
{
    return bits >= 64 ? ~0ull : (1ull << bits) - 1;
}

static inline uint64_t words_for(uint64_t bits)
{
    return (bits + 63) / 64;
}

/* How many ones each byte has, in that byte. Plain arithmetic, as the builtin is a table without -mpopcnt. */
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

/* Moves the bits at .. end - 1 up by `size` (1 .. 63) and puts `value` in the gap. */
static void bits_insert(uint64_t *words, uint64_t at, uint64_t end, unsigned size, uint64_t value)
{
    uint64_t first = at / 64;
    uint64_t keep = mask_of(at % 64);
    uint64_t low = words[first] & keep;

    words[first] &= ~keep;
    for (uint64_t i = (end + size - 1) / 64; i > first; i--)
        words[i] = (words[i] << size) | (words[i - 1] >> (64 - size));
    words[first] = (words[first] << size) | low;
    bits_put(words, at, size, value);
}

/* Takes the bits at .. at + size - 1 out and moves those up to end - 1 down; zeros come in at the end. */
static void bits_remove(uint64_t *words, uint64_t at, uint64_t end, unsigned size)
{
    uint64_t first = at / 64;
    uint64_t last = (end - 1) / 64;
    uint64_t keep = mask_of(at % 64);
    uint64_t low = words[first] & keep;
    uint64_t next;

    if (end % 64 != 0)
        words[last] &= mask_of(end % 64);
    for (uint64_t i = first; i <= last; i++) {
        next = i < last ? words[i + 1] : 0;
        words[i] = (words[i] >> size) | (next << (64 - size));
    }
    words[first] = (words[first] & ~keep) | low;
}

/* --- blocks --- */

static inline uint64_t quotient_words(uint64_t room)
{
    return words_for(QUOTIENTS + room);
}

static inline uint64_t block_words(uint64_t room, unsigned rest)
{
    return quotient_words(room) + words_for(room * rest);
}

static inline uint64_t *remainders_of(const struct tagrun *run)
{
    return run->words + quotient_words(run->room);
}

/* The allocator's size classes: steps of 16 up to 128, then four for each doubling. */
static size_t size_class(size_t size)
{
    size_t step = 16;

    while (size > step * 8)
        step *= 2;
    return (size + step - 1) / step * step;
}

static size_t block_size(uint64_t room, unsigned rest)
{
    return room == 0 ? 0 : size_class(block_words(room, rest) * sizeof(uint64_t));
}

/* As many numbers as fit where `count` need to: what the allocator would round up is used. */
static uint32_t room_for(uint32_t count, unsigned rest)
{
    uint64_t words = block_size(count, rest) / sizeof(uint64_t);
    uint64_t room = (words * 64 - QUOTIENTS) / (rest + 1);

    while (room > count && block_words(room, rest) > words)
        room--;
    return (uint32_t)room;
}

/* A new block for the same numbers, with room for `count`. */
static void run_move(struct tagrun *run, unsigned rest, uint32_t count)
{
    struct tagrun moved = { .count = run->count, .room = room_for(count, rest) };

    CHECK(count >= run->count);
    moved.words = mem_zalloc(block_size(moved.room, rest));     /* bits behind the last quotient have to be zero */
    if (run->count > 0) {
        memcpy(moved.words, run->words, words_for(QUOTIENTS + (uint64_t)run->count) * sizeof(uint64_t));
        memcpy(remainders_of(&moved), remainders_of(run), words_for((uint64_t)run->count * rest) * sizeof(uint64_t));
    }
    mem_free(run->words);
    *run = moved;
}

/* --- searching --- */

struct place {
    uint32_t index;         /* of the first number of the quotient */
    uint32_t count;         /* how many it has */
};

static struct place place_of(const struct tagrun *run, unsigned quotient)
{
    const uint64_t *word = run->words;
    unsigned zeros_left = quotient;
    uint64_t at = 0;
    uint64_t end;
    unsigned zeros;

    if (quotient > 0) {
        while ((zeros = 64 - ones_in(*word)) < zeros_left) {
            zeros_left -= zeros;
            word++;
        }
        at = (uint64_t)(word - run->words) * 64 + one_at(~*word, zeros_left - 1) + 1;
    }
    /* From here to the next 0 are the ones of this quotient; behind the last number there is always one. */
    word = run->words + at / 64;
    end = ~*word & ~mask_of(at % 64);
    while (end == 0)
        end = ~*++word;
    end = (uint64_t)(word - run->words) * 64 + (unsigned)__builtin_ctzll(end);
    return (struct place){ (uint32_t)(at - quotient), (uint32_t)(end - at) };
}

/* The index of the first of the place's remainders that is not below `remainder`, or the place's end. */
static uint32_t place_search(const struct tagrun *run, unsigned rest, struct place place, uint64_t remainder)
{
    const uint64_t *remainders = remainders_of(run);
    uint32_t from = place.index;
    uint32_t end = place.index + place.count;

    while (end - from > SEARCH_LINEAR) {
        uint32_t middle = from + (end - from) / 2;

        if (bits_get(remainders, (uint64_t)middle * rest, rest) < remainder)
            from = middle + 1;
        else
            end = middle;
    }
    while (from < end && bits_get(remainders, (uint64_t)from * rest, rest) < remainder)
        from++;
    return from;
}

static bool place_has(const struct tagrun *run, unsigned rest, struct place place, uint32_t index, uint64_t remainder)
{
    return index < place.index + place.count &&
           bits_get(remainders_of(run), (uint64_t)index * rest, rest) == remainder;
}

/* --- public --- */

void tagrun_release(struct tagrun *run)
{
    mem_free(run->words);
    *run = (struct tagrun){ 0 };
}

void tagrun_add(struct tagrun *run, unsigned width, uint64_t number)
{
    unsigned rest = width - TAGRUN_QUOTIENT_BITS;
    unsigned quotient = (unsigned)(number >> rest);
    uint64_t remainder = number & mask_of(rest);
    uint32_t index;

    CHECK(run->count < UINT32_MAX);
    if (run->count == run->room)
        run_move(run, rest, run->count + 1);
    index = place_search(run, rest, place_of(run, quotient), remainder);
    bits_insert(run->words, (uint64_t)quotient + index, QUOTIENTS + (uint64_t)run->count, 1, 1);
    bits_insert(remainders_of(run), (uint64_t)index * rest, (uint64_t)run->count * rest, rest, remainder);
    run->count++;
}

bool tagrun_remove(struct tagrun *run, unsigned width, uint64_t number)
{
    unsigned rest = width - TAGRUN_QUOTIENT_BITS;
    unsigned quotient = (unsigned)(number >> rest);
    uint64_t remainder = number & mask_of(rest);
    struct place place;
    uint32_t index;

    if (run->count == 0)
        return false;
    place = place_of(run, quotient);
    index = place_search(run, rest, place, remainder);
    if (!place_has(run, rest, place, index, remainder))
        return false;
    if (run->count == 1) {
        tagrun_release(run);
        return true;
    }
    bits_remove(run->words, (uint64_t)quotient + index, QUOTIENTS + (uint64_t)run->count, 1);
    bits_remove(remainders_of(run), (uint64_t)index * rest, (uint64_t)run->count * rest, rest);
    run->count--;
    /* An eighth of slack, so that a run at the edge of a size class does not move to and fro. */
    if (block_size((uint64_t)run->count + run->count / 8 + 1, rest) < block_size(run->room, rest))
        run_move(run, rest, run->count);
    return true;
}

bool tagrun_has(const struct tagrun *run, unsigned width, uint64_t number)
{
    unsigned rest = width - TAGRUN_QUOTIENT_BITS;
    uint64_t remainder = number & mask_of(rest);
    struct place place;

    if (run->count == 0)
        return false;
    place = place_of(run, (unsigned)(number >> rest));
    return place_has(run, rest, place, place_search(run, rest, place, remainder), remainder);
}

void tagrun_prefetch(const struct tagrun *run, unsigned width, uint64_t number)
{
    unsigned rest = width - TAGRUN_QUOTIENT_BITS;
    uint64_t quotient = number >> rest;
    uint64_t index = quotient * run->count / QUOTIENTS;     /* numbers are spread evenly, so about there */

    if (run->count == 0)
        return;
    __builtin_prefetch(run->words);
    __builtin_prefetch(run->words + (quotient + index) / 64);
    __builtin_prefetch(remainders_of(run) + index * rest / 64);
}

void tagrun_reserve(struct tagrun *run, unsigned width, uint32_t count)
{
    if (count > run->room)
        run_move(run, width - TAGRUN_QUOTIENT_BITS, count);
}

void tagrun_append(struct tagrun *run, unsigned width, uint64_t number)
{
    unsigned rest = width - TAGRUN_QUOTIENT_BITS;
    uint64_t at = (number >> rest) + run->count;

    CHECK(run->count < run->room);
    run->words[at / 64] |= 1ull << at % 64;
    bits_put(remainders_of(run), (uint64_t)run->count * rest, rest, number & mask_of(rest));
    run->count++;
}

void tagrun_split(struct tagrun *run, unsigned width, struct tagrun *upper)
{
    struct tagrun lower = { 0 };
    uint64_t half = 1ull << (width - 1);
    struct tagrun_cursor cursor;
    uint32_t below;
    uint64_t number;

    CHECK(upper->words == NULL);
    if (run->count == 0)
        return;
    below = place_of(run, QUOTIENTS / 2).index;
    tagrun_reserve(&lower, width - 1, below);
    tagrun_reserve(upper, width - 1, run->count - below);
    tagrun_cursor_init(&cursor, run, width);
    while (tagrun_next(&cursor, &number))
        tagrun_append(number < half ? &lower : upper, width - 1, number & (half - 1));
    tagrun_release(run);
    *run = lower;
}

void tagrun_join(struct tagrun *run, unsigned width, struct tagrun *upper)
{
    struct tagrun both = { 0 };
    struct tagrun_cursor cursor;
    uint64_t number;

    CHECK(upper->count <= UINT32_MAX - run->count);
    tagrun_reserve(&both, width + 1, run->count + upper->count);
    tagrun_cursor_init(&cursor, run, width);
    while (tagrun_next(&cursor, &number))
        tagrun_append(&both, width + 1, number);
    tagrun_cursor_init(&cursor, upper, width);
    while (tagrun_next(&cursor, &number))
        tagrun_append(&both, width + 1, number | 1ull << width);
    tagrun_release(run);
    tagrun_release(upper);
    *run = both;
}

void tagrun_cursor_init(struct tagrun_cursor *cursor, const struct tagrun *run, unsigned width)
{
    *cursor = (struct tagrun_cursor){ .run = run, .width = width };
}

bool tagrun_next(struct tagrun_cursor *cursor, uint64_t *number)
{
    const struct tagrun *run = cursor->run;
    unsigned rest = cursor->width - TAGRUN_QUOTIENT_BITS;
    const uint64_t *word;
    uint64_t ones;

    if (cursor->index == run->count)
        return false;
    word = run->words + cursor->bit / 64;
    ones = *word & ~mask_of(cursor->bit % 64);
    while (ones == 0)
        ones = *++word;
    cursor->bit = (uint64_t)(word - run->words) * 64 + (unsigned)__builtin_ctzll(ones);
    *number = (cursor->bit - cursor->index) << rest |
              bits_get(remainders_of(run), (uint64_t)cursor->index * rest, rest);
    cursor->bit++;
    cursor->index++;
    return true;
}

size_t tagrun_size(const struct tagrun *run, unsigned width)
{
    return block_size(run->room, width - TAGRUN_QUOTIENT_BITS);
}
