#include "tier/tagrun.h"

#include <string.h>

#include "base/check.h"

enum {
    QUOTIENTS = 1 << TAGRUN_QUOTIENT_BITS,
    QUOTIENTS_AT = 64,          /* the bit where they begin */
    LINE_SIZE = 64,             /* of the CPU's cache */
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

/* --- the parts of the block --- */

static inline unsigned rest_of(unsigned width)
{
    return width - TAGRUN_QUOTIENT_BITS;
}

static inline uint64_t room_of(uint64_t count)
{
    return (count + TAGRUN_STEP - 1) / TAGRUN_STEP * TAGRUN_STEP;
}

/* The bit where entry `index` of a run of `count` numbers is. */
static inline uint64_t entry_at(uint64_t count, unsigned entry_bits, uint64_t index)
{
    return QUOTIENTS_AT + QUOTIENTS + room_of(count) + index * entry_bits;
}

static inline void head_set(uint64_t *block, uint32_t count, unsigned place_bits)
{
    block[0] = (uint32_t)block[0] | (uint64_t)place_bits << 32 | (uint64_t)count << 38;
}

/* Sizes of a run that the functions below need. */
struct shape {
    uint32_t count;
    unsigned rest;              /* bits of a remainder */
    unsigned place_bits;
    unsigned entry_bits;
};

static inline struct shape shape_of(const uint64_t *block, unsigned width)
{
    unsigned place_bits = tagrun_place_bits(block);

    return (struct shape){ tagrun_count(block), rest_of(width), place_bits, rest_of(width) + place_bits };
}

static inline uint64_t remainder_get(const uint64_t *block, const struct shape *shape, uint32_t index)
{
    return bits_get(block, entry_at(shape->count, shape->entry_bits, index), shape->rest);
}

/* The numbers that have one quotient. */
struct stretch {
    uint32_t index;         /* of the first */
    uint32_t count;
};

static struct stretch stretch_of(const uint64_t *block, unsigned quotient)
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
    return (struct stretch){ (uint32_t)(at - QUOTIENTS_AT - quotient), (uint32_t)(end - at) };
}

/* --- public --- */

uint64_t tagrun_words(uint64_t count, unsigned width, unsigned place_bits)
{
    return count == 0 ? 0 : (entry_at(count, rest_of(width) + place_bits, room_of(count)) + 63) / 64;
}

bool tagrun_find(const uint64_t *block, unsigned width, uint64_t number, uint32_t *index)
{
    struct shape shape = shape_of(block, width);
    uint64_t remainder = number & mask_of(shape.rest);
    struct stretch stretch;
    uint32_t from, end;

    *index = 0;
    if (shape.count == 0)
        return false;
    stretch = stretch_of(block, (unsigned)(number >> shape.rest));
    from = stretch.index;
    end = from + stretch.count;
    while (end - from > SEARCH_LINEAR) {
        uint32_t middle = from + (end - from) / 2;

        if (remainder_get(block, &shape, middle) < remainder)
            from = middle + 1;
        else
            end = middle;
    }
    while (from < end && remainder_get(block, &shape, from) < remainder)
        from++;
    *index = from;
    return from < stretch.index + stretch.count && remainder_get(block, &shape, from) == remainder;
}

uint64_t tagrun_place(const uint64_t *block, unsigned width, uint32_t index)
{
    struct shape shape = shape_of(block, width);

    if (shape.place_bits == 0)
        return 0;
    return bits_get(block, entry_at(shape.count, shape.entry_bits, index) + shape.rest, shape.place_bits);
}

void tagrun_set_place(uint64_t *block, unsigned width, uint32_t index, uint64_t place)
{
    struct shape shape = shape_of(block, width);

    CHECK(place <= mask_of(shape.place_bits));
    if (shape.place_bits > 0)
        bits_put(block, entry_at(shape.count, shape.entry_bits, index) + shape.rest, shape.place_bits, place);
}

void tagrun_widen(uint64_t *block, unsigned width, unsigned place_bits)
{
    struct shape shape = shape_of(block, width);
    unsigned entry_bits = shape.rest + place_bits;

    CHECK(place_bits > shape.place_bits && place_bits <= TAGRUN_PLACE_BITS_MAX);
    /* From the last on: each moves up, or stays, so none is written over before it was read. */
    for (uint32_t i = shape.count; i-- > 0; ) {
        uint64_t remainder = remainder_get(block, &shape, i);
        uint64_t place = tagrun_place(block, width, i);
        uint64_t at = entry_at(shape.count, entry_bits, i);

        bits_put(block, at, shape.rest, remainder);
        bits_put(block, at + shape.rest, place_bits, place);
    }
    head_set(block, shape.count, place_bits);
}

/* Opens a gap for an entry, which may have more than 63 bits. */
static void entry_insert(uint64_t *block, const struct shape *shape, uint64_t at, uint64_t end, uint64_t remainder, uint64_t place)
{
    if (shape->entry_bits < 64) {
        bits_insert(block, at, end, shape->entry_bits, remainder | place << shape->rest);
    } else {
        bits_insert(block, at, end, shape->rest, remainder);
        bits_insert(block, at + shape->rest, end + shape->rest, shape->place_bits, place);
    }
}

void tagrun_add(uint64_t *block, unsigned width, uint32_t index, uint64_t number, uint64_t place)
{
    struct shape shape = shape_of(block, width);
    uint64_t quotient = number >> shape.rest;
    uint32_t count = shape.count;

    CHECK(count < TAGRUN_COUNT_MAX && place <= mask_of(shape.place_bits));
    if (count == 0)
        memset(block + QUOTIENTS_AT / 64, 0, (QUOTIENTS + TAGRUN_STEP + 63) / 64 * sizeof(*block));
    else if (count % TAGRUN_STEP == 0)
        bits_insert(block, entry_at(count, shape.entry_bits, 0), entry_at(count, shape.entry_bits, count), TAGRUN_STEP, 0);
    bits_insert(block, QUOTIENTS_AT + quotient + index, QUOTIENTS_AT + QUOTIENTS + (uint64_t)count, 1, 1);
    head_set(block, count + 1, shape.place_bits);
    entry_insert(block, &shape, entry_at(count + 1, shape.entry_bits, index), entry_at(count + 1, shape.entry_bits, count),
        number & mask_of(shape.rest), place);
}

void tagrun_remove(uint64_t *block, unsigned width, uint32_t index, uint64_t number)
{
    struct shape shape = shape_of(block, width);
    uint64_t quotient = number >> shape.rest;
    uint32_t count = shape.count;
    uint64_t at = entry_at(count, shape.entry_bits, index);
    uint64_t end = entry_at(count, shape.entry_bits, count);

    CHECK(index < count);
    if (shape.entry_bits < 64) {
        bits_remove(block, at, end, shape.entry_bits);
    } else {
        bits_remove(block, at, end, shape.rest);
        bits_remove(block, at, end - shape.rest, shape.place_bits);
    }
    bits_remove(block, QUOTIENTS_AT + quotient + index, QUOTIENTS_AT + QUOTIENTS + (uint64_t)count, 1);
    head_set(block, --count, shape.place_bits);
    if (count % TAGRUN_STEP == 0)
        bits_remove(block, entry_at(count, shape.entry_bits, 0), entry_at(count + 1, shape.entry_bits, count), TAGRUN_STEP);
}

uint32_t tagrun_count_lower(const uint64_t *block)
{
    return tagrun_count(block) == 0 ? 0 : stretch_of(block, QUOTIENTS / 2).index;
}

void tagrun_prefetch(const uint64_t *block, uint64_t words, unsigned width, uint64_t number)
{
    uint64_t quotient = number >> rest_of(width);
    uint64_t entries = (QUOTIENTS_AT + QUOTIENTS) / 64 + words / 64;    /* about where they begin: an entry has some 50 bits */
    uintptr_t entry;

    if (words <= entries)
        return;
    /* Numbers are spread evenly, so the entry is there or some entries away: the two lines that are nearest. */
    entry = (uintptr_t)(block + entries + quotient * (words - entries) / QUOTIENTS);
    __builtin_prefetch(block);
    __builtin_prefetch(block + entries);
    __builtin_prefetch((const void *)(entry - LINE_SIZE / 2));
    __builtin_prefetch((const void *)(entry + LINE_SIZE / 2));
}

void tagrun_writer_init(struct tagrun_writer *writer, uint64_t *block, unsigned width, unsigned place_bits, uint32_t count)
{
    CHECK(count <= TAGRUN_COUNT_MAX && place_bits <= TAGRUN_PLACE_BITS_MAX);
    head_set(block, count, place_bits);
    if (count > 0)
        memset(block + QUOTIENTS_AT / 64, 0, (QUOTIENTS + room_of(count) + 63) / 64 * sizeof(*block));
    *writer = (struct tagrun_writer){ .block = block, .width = width };
}

void tagrun_write(struct tagrun_writer *writer, uint64_t number, uint64_t place)
{
    struct shape shape = shape_of(writer->block, writer->width);
    uint64_t at = QUOTIENTS_AT + (number >> shape.rest) + writer->index;

    CHECK(writer->index < shape.count);
    writer->block[at / 64] |= 1ull << at % 64;
    bits_put(writer->block, entry_at(shape.count, shape.entry_bits, writer->index), shape.rest, number & mask_of(shape.rest));
    tagrun_set_place(writer->block, writer->width, writer->index, place);
    writer->index++;
}

void tagrun_reader_init(struct tagrun_reader *reader, const uint64_t *block, unsigned width)
{
    *reader = (struct tagrun_reader){ .block = block, .width = width, .bit = QUOTIENTS_AT };
}

bool tagrun_read(struct tagrun_reader *reader, uint64_t *number, uint64_t *place)
{
    struct shape shape = shape_of(reader->block, reader->width);
    const uint64_t *word;
    uint64_t ones;

    if (reader->index == shape.count)
        return false;
    word = reader->block + reader->bit / 64;
    ones = *word & ~mask_of(reader->bit % 64);
    while (ones == 0)
        ones = *++word;
    reader->bit = (uint64_t)(word - reader->block) * 64 + (unsigned)__builtin_ctzll(ones);
    *number = (reader->bit - QUOTIENTS_AT - reader->index) << shape.rest | remainder_get(reader->block, &shape, reader->index);
    *place = tagrun_place(reader->block, reader->width, reader->index);
    reader->bit++;
    reader->index++;
    return true;
}

void tagrun_seek(struct tagrun_reader *reader, uint64_t number)
{
    uint64_t quotient = number >> rest_of(reader->width);
    struct stretch stretch;

    CHECK(quotient < QUOTIENTS);
    stretch = stretch_of(reader->block, (unsigned)quotient);
    reader->index = stretch.index;
    reader->bit = QUOTIENTS_AT + quotient + stretch.index;
}

bool tagrun_is_sound(const uint64_t *block, uint64_t words, unsigned width)
{
    uint64_t bits, ones = 0;
    uint32_t count;

    if (words == 0 || tagrun_place_bits(block) > TAGRUN_PLACE_BITS_MAX)
        return false;
    count = tagrun_count(block);
    if (count == 0 || tagrun_words(count, width, tagrun_place_bits(block)) > words)
        return false;
    /* As many ones as numbers, and the last quotient ends with a zero. */
    bits = QUOTIENTS + (uint64_t)count;
    for (uint64_t at = 0; at < bits; at += 64)
        ones += ones_in(block[(QUOTIENTS_AT + at) / 64] & mask_of(bits - at < 64 ? (unsigned)(bits - at) : 64));
    return ones == count && bits_get(block, QUOTIENTS_AT + bits - 1, 1) == 0;
}
